"""What the vault's side found out about each trial: for the driver alone, one audit per trial.

Whoever gets exact figures about canaries for confidences of their choice reads the labels off them,
one question a label. So a trial is told nothing but that it was audited, and is audited once: what
it sent is remembered by a digest, beside the evidence, so that a home that is made again, or a
sweep that is resumed, answers no second question either. The same confidences once more (a request
that Ray repeats) change nothing.

>>> book = FigureBook(None, authority=b"the driver's")
>>> book.begin(b"the driver's", "ab12")
>>> book.keep_answers("ab12", keys=["r1"], figures={"ensemble_accuracy": 0.9})
>>> book.figures(b"a trial's", "ab12", release_keys=["r1"])
Traceback (most recent call last):
ValueError: what was found of trials is the driver's: it is made of true labels...
"""

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.platform.records.consensus import VoteConsensus, consensus_path
from labeldp.platform.records.private_files import inner_folder
from labeldp.platform.records.results import write_json
from labeldp.platform.sweep.figure_names import PRIVATE_PREFIX
from labeldp.platform.vault.audits import AuditFindings, evidence_path

_HASH = re.compile(r"[0-9a-f]{1,64}")
#: Names of what answers alone have cost; they would pass for the trial's where it paid for more.
_PRICES = ("epsilon_", f"{PRIVATE_PREFIX}epsilon_")


class FigureBook:
    """Figures by trial: of its one audit, and of an ensemble's answers to it."""

    def __init__(self, results: Path | None, *, authority: bytes | None) -> None:
        """Open the book.

        Args:
            results: The results folder that it lies in; in memory if none is given.
            authority: Token of who may begin trials and read figures; nobody if none is given.
        """
        self._results, self._authority = results, authority
        self._memory: dict[str, dict[str, Any]] = {}

    def begin(self, authority: bytes, trial: str) -> None:
        """Open a page for a trial that starts, and forget what was found when it started before.

        Nothing of that has been told to anybody. A trial without a page is audited by nobody.

        Raises:
            ValueError: Whoever asks is not the driver.
        """
        self._check(authority)
        self._write(checked_trial(trial), {})

    def keep_answers(
        self,
        trial: str,
        *,
        keys: Iterable[str],
        figures: Mapping[str, float],
        consensus: VoteConsensus | None = None,
    ) -> None:
        """Keep what is known of all answers that a trial has read so far, instead of the earlier.

        Args:
            trial: Its hash.
            keys: The releases that the answers are in.
            figures: Name -> number.
            consensus: How far teachers agreed; kept for the owner's page, and told to nobody.

        Raises:
            ValueError: The driver has not begun it.
        """
        answers = {"keys": list(keys), "figures": dict(figures)}
        self._write(trial, {**self._page_of(trial), "answers": answers})
        if consensus is not None and self._results is not None:
            consensus.write(consensus_path(self._results, checked_trial(trial)))

    def audit(self, trial: str, *, digest: str, find: Callable[[], AuditFindings]) -> None:
        """Audit a trial, or do nothing if it was audited with what has the same digest.

        Args:
            trial: Its hash.
            digest: Of all that `find` depends on.
            find: Audits it.

        Raises:
            ValueError: The driver has not begun it; it was audited with something else since it
                began; and what `find` raises.
        """
        page = self._page_of(trial)
        known = page.get("audit", {}).get("digest")
        if known not in (None, digest):
            raise ValueError(
                f"trial {trial} was audited already, with other confidences; a trial is audited "
                "once, since exact figures for chosen confidences would tell the canaries' labels. "
                "It can be audited again when the driver has started it again"
            )
        if known is None:
            findings = find()
            if self._results is not None:
                findings.evidence.write(evidence_path(self._results, trial))
            audit = {"digest": digest, "figures": dict(findings.figures)}
            self._write(trial, {**page, "audit": audit})

    def figures(
        self, authority: bytes, trial: str, *, release_keys: Iterable[str]
    ) -> dict[str, float]:
        """Return all that is known of a trial that has ended.

        Args:
            authority: The driver's token.
            trial: Its hash.
            release_keys: Every release that it read. Where some hold no answers, prices of the
                answers alone are left out.

        Raises:
            ValueError: Whoever asks is not the driver, or the trial was not audited.
        """
        self._check(authority)
        page = self._read(trial) or {}
        if "audit" not in page:
            raise ValueError(f"trial {trial} was not audited, so nothing is known of its leaks")
        answers = page.get("answers", {"keys": [], "figures": {}})
        others = set(release_keys) - set(answers["keys"])
        left_out = _PRICES if others else ()
        of_answers = {k: v for k, v in answers["figures"].items() if not k.startswith(left_out)}
        return {**of_answers, **page["audit"]["figures"]}

    def _check(self, authority: bytes) -> None:
        if self._authority is None or not hmac.compare_digest(authority, self._authority):
            raise ValueError(
                "what was found of trials is the driver's: it is made of true labels, and a trial "
                "that could ask for it could learn them; read the records that the driver keeps"
            )

    def _path(self, results: Path, trial: str) -> Path:
        return results / "private" / "figures" / f"{checked_trial(trial)}.json"

    def check_begun(self, trial: str) -> None:
        """Refuse a trial that the driver has not begun.

        Raises:
            ValueError: No trial's hash, or that of none that was begun.
        """
        self._page_of(trial)

    def _page_of(self, trial: str) -> dict[str, Any]:
        page = self._read(trial)
        if page is None:
            raise ValueError(
                f"trial {trial} was not begun by the driver, so nothing is found out or kept of "
                "it: a trial asks under its own hash, which the driver has opened when it started"
            )
        return page

    def _read(self, trial: str) -> dict[str, Any] | None:
        """What is known of a trial; None for one that was never begun."""
        if self._results is None:
            return self._memory.get(checked_trial(trial))
        path = self._path(self._results, trial)
        try:
            page: dict[str, Any] = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{path} can't be read ({error}); remove it, and run again with --resume auto: the "
                "trial is then trained and audited again"
            ) from error
        return page

    def _write(self, trial: str, page: dict[str, Any]) -> None:
        if self._results is None:
            self._memory[checked_trial(trial)] = page
            return
        path = self._path(self._results, trial)
        for folder in (path.parent.parent, path.parent):
            inner_folder(folder)
        write_json(path, page)


def digest_of(confidences: NDArray[Any], facts: Any) -> str:
    """Digest of an audit's input: confidences [M, K] to the last bit, and plain facts."""
    rows = np.ascontiguousarray(confidences)
    head = repr((rows.shape, rows.dtype.str, facts))
    return hashlib.sha256(head.encode() + rows.tobytes()).hexdigest()


def checked_trial(trial: str) -> str:
    """Return a trial's hash, or refuse what is no hash: it names files.

    Raises:
        ValueError: No hash, or no hexadecimal one.
    """
    if not _HASH.fullmatch(trial):
        raise ValueError(
            f"trial is {trial!r}; audits and answers are kept by a trial's hash, 1 to 64 "
            "hexadecimal digits, and without one none is made"
        )
    return trial
