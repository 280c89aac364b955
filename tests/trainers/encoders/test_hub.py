"""The hub asked once: what is refused soon, and what is left to the library that downloads."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labeldp.trainers.encoders import libraries
from labeldp.trainers.encoders.libraries import silence

library: Any = pytest.importorskip("huggingface_hub")

#: Nobody listens on the port of the address that HF_ENDPOINT names.
LOAD = """
import sys, time
from labeldp.trainers.encoders.embedding import load_encoder
from labeldp.trainers.encoders.encoder import EncoderRequest
from labeldp.trainers.encoders.libraries import WeightsRefused
from labeldp.trainers.encoders.libraries import library
library(sys.argv[2])
began = time.monotonic()
try:
    load_encoder(EncoderRequest(address=sys.argv[1]))
except WeightsRefused as error:
    print(f"{time.monotonic() - began:.0f} {error}")
"""


@pytest.mark.parametrize(
    ("address", "package", "way_out"),
    [
        (
            "timm:resnet10t.c3_in1k",
            "timm",
            "fetch model.safetensors of timm/resnet10t.c3_in1k on a machine that can, put it into "
            "any folder here, and name it: --weights FILE",
        ),
        ("huggingface:me/mine", "transformers", "name it: --encoder huggingface:FOLDER"),
    ],
)
def test_without_a_network_encoders_are_refused_in_seconds(
    address: str, package: str, way_out: str, tmp_path: Path
) -> None:
    pytest.importorskip(package)
    done = subprocess.run(
        [sys.executable, "-c", LOAD, address, package],
        env={**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    seconds, _, said = done.stdout.partition(" ")
    assert int(seconds) < 15, "the libraries take half a minute for each file"
    assert said.startswith(f"{'weights of ' if package == 'timm' else ''}{address} can't be ")
    assert way_out in said
    assert "Retrying" not in done.stderr


class Unanswered(Exception):
    """What a library of requests raises; none of its kind is known here."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses that were asked for, by a network that never answers, without pauses."""
    found: list[str] = []

    def nobody(address: str) -> None:
        found.append(address)
        raise Unanswered("no route to host")

    monkeypatch.setattr(libraries, "_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(libraries, "_PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(library, "get_hf_file_metadata", nobody)
    monkeypatch.setattr(library, "try_to_load_from_cache", lambda **_: None)
    return found


def test_silence_is_told_and_the_first_file_is_asked_for(asked: list[str]) -> None:
    assert isinstance(silence("me/mine@v2", ["model.safetensors", "other.bin"]), Unanswered)
    assert len(asked) > 1, "at once is too soon to give up"
    assert set(asked) == {library.hf_hub_url("me/mine", "model.safetensors", revision="v2")}


def test_a_file_in_the_cache_needs_no_network(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cached(*, filename: str, **_: object) -> str | None:
        return "/cache/other.bin" if filename == "other.bin" else None

    monkeypatch.setattr(library, "try_to_load_from_cache", cached)
    assert silence("me/mine", ["model.safetensors", "other.bin"]) is None and not asked


def test_a_network_that_wakes_up_is_waited_for(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = library.get_hf_file_metadata
    monkeypatch.setattr(
        library,
        "get_hf_file_metadata",
        lambda address: nobody(address) if not asked else None,
    )
    assert silence("me/mine", ["model.safetensors"]) is None and len(asked) == 1


def test_an_answer_that_is_none_is_left_to_the_library(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The library is loaded by name, so that its types are not known here.
    class Missing(library.errors.HfHubHTTPError):  # type: ignore[misc]
        def __init__(self) -> None:
            """Without the response that it is of."""

    def not_found(address: str) -> None:
        raise Missing

    monkeypatch.setattr(library, "get_hf_file_metadata", not_found)
    assert silence("me/mine", ["model.safetensors"]) is None
    assert silence("no/such/name", ["model.safetensors"]) is None and not asked
