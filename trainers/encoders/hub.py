"""Whether Hugging Face's hub answers: one question, before its library tries for a minute.

timm and transformers ask again and again for each file that might hold weights, and nothing of
theirs says how often. Where nobody answers the first question, nobody will the next.
"""

import importlib
import time
from collections.abc import Sequence
from typing import Any

#: As long a question is repeated that fails at once: a network that wakes up needs a moment. One
#: that is not answered in the library's own time (HF_HUB_ETAG_TIMEOUT, ten seconds) is the last.
_PATIENCE_SECONDS = 3.0
_PAUSE_SECONDS = 1.0


def silence(repository: str, files: Sequence[str]) -> Exception | None:
    """Return why nothing can be downloaded, or None where that is not known beforehand.

    A slow line is none of its concern: what takes long is the download, of which this is no part.

    Args:
        repository: `OWNER/NAME`, or `OWNER/NAME@REVISION`.
        files: Names under which weights may lie there; one that is in the cache is enough.
    """
    hub: Any = importlib.import_module("huggingface_hub")
    name, _, revision = repository.partition("@")
    of = {"repo_id": name, "revision": revision or None}
    give_up = time.monotonic() + _PATIENCE_SECONDS
    try:
        if any(isinstance(hub.try_to_load_from_cache(filename=file, **of), str) for file in files):
            return None
        address = hub.hf_hub_url(filename=files[0], **of)
    except ValueError:  # no name for a repository: the library says so
        return None
    while True:
        try:
            hub.get_hf_file_metadata(address)
        except hub.errors.HfHubHTTPError:  # an answer, if not the one that was hoped for
            return None
        except Exception as error:  # of whichever library of requests lies beneath
            if time.monotonic() > give_up:
                return error
            time.sleep(_PAUSE_SECONDS)
        else:
            return None
