"""selection: the best of what is private, what the choice costs, and who is refused at first."""

import math
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.ledger import Budget
from labeldp.mechanisms.randomized_response import NoNoise
from labeldp.mechanisms.randomness import SeededNoise
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.report.ledger import FolderLedger, read_folder, total_of
from labeldp.platform.report.publish import public_report
from labeldp.platform.report.selection import ANY, BEST, Reservation, selected, within
from labeldp.platform.settings.metrics import ChooseBy, figures_of
from tests.platform.report.folders import LAPLACE, a_folder, a_vault, keep
from tests.platform.sweep.examples import a_record


@pytest.fixture
def sweep(tmp_path: Path) -> FolderLedger:
    """Four trials that finished: epsilon .5, 2, again 2, none at all; and one that failed."""
    a_folder(tmp_path, releases=[], readers=0)
    vault, folder = a_vault(tmp_path), ResultsFolder(tmp_path, sweep="small")
    cheap, dear, bare = (
        vault.release(each).key
        for each in (LaplaceNoise(epsilon=0.5, num_classes=10), LAPLACE, NoNoise(num_classes=10))
    )

    def keep(digest: str, key: str, epsilon: float, accuracy: float, estimate: float) -> None:
        found = AccuracyEstimate(accuracy=estimate, sampling_error=0.01)
        figures = {**figures_of(found), "accuracy": accuracy}
        folder.keep(a_record(digest, release_keys=(key,), epsilon=epsilon, figures=figures))

    keep("0a", cheap, 0.5, 0.7, 0.9)
    keep("1a", dear, 2.0, 0.8, 0.5)
    keep("1b", dear, 2.0, 0.85, 0.6)
    keep("2a", bare, math.inf, 0.99, 0.99)
    folder.keep(a_record("3a", finished=False, reason="it diverged", release_keys=(dear,)))
    return read_folder(tmp_path)


def test_the_best_is_the_most_accurate_that_is_private(sweep: FolderLedger) -> None:
    found = selected(sweep, BEST)
    assert (found.record.hash, found.cost.epsilon) == ("1b", 2.0)
    assert found.by == "accuracy on the public test split"
    # Of three and a failed one: two releases, each read and paid for once, no baseline's.
    assert (found.among, found.together.epsilon) == (4, 2.5)


def test_another_trials_failure_changes_no_price_of_a_choice(tmp_path: Path) -> None:
    """A at .5, B at 6: A is published at 6.5 whether B finishes badly, fails or is cut off."""
    found = []
    for ending in ("finished", "failed", "cut off"):
        place = tmp_path / ending
        a_folder(place, releases=[], readers=0)
        vault, folder = a_vault(place), ResultsFolder(place, sweep="small")
        first = vault.release(replace(LAPLACE, epsilon=0.5)).key
        second = vault.release(replace(LAPLACE, epsilon=6.0)).key
        # Of trials that are never chosen: these cost the choice nothing.
        vault.release(NoNoise(num_classes=10))
        vault.release(replace(LAPLACE, epsilon=3.0), noise=SeededNoise(seed=7))
        folder.keep(a_record("0a", release_keys=(first,), epsilon=0.5, accuracy=0.9))
        if ending != "cut off":
            finished = ending == "finished"
            facts = {"accuracy": 0.2, "epsilon": 6.0} if finished else {"reason": "it diverged"}
            folder.keep(a_record("1a", release_keys=(second,), finished=finished, **facts))
        chosen = selected(read_folder(place), BEST)
        assert (chosen.record.hash, chosen.cost.epsilon) == ("0a", 0.5)
        found.append(chosen.together.epsilon)
        # Neither could have been chosen at an epsilon that it exceeds.
        alone = selected(read_folder(place), BEST, at_epsilon=1.0)
        assert (alone.among, alone.cost.epsilon) == (1, 0.5)
        page = public_report(place, to=tmp_path / f"{ending}-public")
        assert page["epsilon"] == 6.5
    assert found == [6.5, 6.5, 6.5]


def test_the_accuracy_that_decides_is_given_or_the_sweeps(sweep: FolderLedger) -> None:
    found = selected(sweep, BEST, choose_by=ChooseBy.ESTIMATED)
    assert found.record.hash == "0a" and "held-out" in found.by
    ResultsFolder(sweep.path, sweep="small").identify(choose_by=ChooseBy.ESTIMATED)
    kept = read_folder(sweep.path)
    assert selected(kept, BEST).record.hash == "0a"
    assert selected(kept, BEST, choose_by=ChooseBy.TEST).record.hash == "1b"


def test_equal_releases_are_summed_up_once(
    sweep: FolderLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials of a search depend on each other's releases: a sum each would take minutes."""
    identity = replace(sweep.identity, learned_epsilon=2.5, num_labels=None)
    folder = replace(sweep, identity=identity)
    found = Mock(wraps=total_of)
    monkeypatch.setattr("labeldp.platform.report.selection.total_of", found)
    private = [folder.trial(digest) for digest in ("0a", "1a", "1b")]
    assert within(folder, private, ANY) == private and found.call_count == 0
    assert within(folder, private, Budget(epsilon=3.0)) == private and found.call_count == 1
    assert within(folder, private, Budget(epsilon=1.0)) == []


def test_publishing_a_named_trial_counts_the_others_too(sweep: FolderLedger) -> None:
    found = selected(sweep, "0a")
    assert (found.cost.epsilon, found.by) == (0.5, "")
    assert (found.among, found.together.epsilon) == (4, 2.5)
    with pytest.raises(ValueError, match="2 trials"):
        selected(sweep, "1")
    with pytest.raises(ValueError, match="go with --trial best"):
        selected(sweep, "0a", at_epsilon=1.0)


@pytest.mark.parametrize(
    ("trial", "needed", "words"),
    [("2a", Reservation.NON_PRIVATE, "not private"), ("3a", Reservation.FAILED, "it failed")],
)
def test_trials_without_privacy_or_end_need_confirmation(
    trial: str, needed: Reservation, words: str, sweep: FolderLedger
) -> None:
    with pytest.raises(ValueError, match=f"{words}.*confirm it: --accept {needed.value}$"):
        selected(sweep, trial)
    others = frozenset(Reservation) - {needed}
    with pytest.raises(ValueError, match=words):
        selected(sweep, trial, accepted=others)
    found = selected(sweep, trial, accepted={needed})
    assert found.record.hash == trial
    assert math.isinf(found.together.epsilon) == (needed is Reservation.NON_PRIVATE)


def test_seeded_noise_needs_confirmation_and_is_never_the_best(tmp_path: Path) -> None:
    a_folder(tmp_path, noise=SeededNoise(seed=7), changes={"noise.seed": 7}, epsilon=2.0)
    folder = read_folder(tmp_path)
    with pytest.raises(ValueError, match=r"seed.*--accept seeded"):
        selected(folder, "0")
    assert selected(folder, "0", accepted={Reservation.SEEDED}).cost.epsilon == 2.0
    with pytest.raises(ValueError, match="noise without a seed"):
        selected(folder, BEST, accepted={Reservation.SEEDED})


def test_a_record_and_the_ledger_must_agree(tmp_path: Path) -> None:
    a_folder(tmp_path / "less", epsilon=1.0)
    with pytest.raises(ValueError, match=r"states epsilon 1, and by the ledger .* cost 2"):
        selected(read_folder(tmp_path / "less"), "0")
    a_folder(tmp_path / "more", epsilon=3.0)
    assert selected(read_folder(tmp_path / "more"), "0").cost.epsilon == 3.0
    (tmp_path / "more" / "vault.db").unlink()
    with pytest.raises(ValueError, match="is incomplete"):
        selected(read_folder(tmp_path / "more"), "0", accepted=frozenset(Reservation))


def test_a_record_that_names_no_release_is_refused(sweep: FolderLedger) -> None:
    """A person who takes the keys out of a record may write any epsilon beside them."""
    keep(sweep.path, sweep.records["1a"], release_keys=[])
    folder = read_folder(sweep.path)
    for named in ("1a", "0a"):  # as one of those that it is chosen among, too
        with pytest.raises(ValueError, match="trial 1a names no release"):
            selected(folder, named)


def test_a_trial_costs_what_it_does_at_its_own_delta(tmp_path: Path) -> None:
    """A neighbor with a generous delta makes nobody else cheaper."""
    a_folder(tmp_path, releases=[], readers=0)
    vault, folder = a_vault(tmp_path), ResultsFolder(tmp_path, sweep="small")
    std = calibrate_gaussian(epsilon=2.0, delta=1e-5)
    for digest, times, figures in (
        ("0a", 1, {"epsilon": 2.0, "delta": 1e-5, "accuracy": 0.9}),
        ("1a", 3, {"epsilon": 0.2, "delta": 0.2, "accuracy": 0.5}),
    ):
        key = vault.release(GaussianNoise(noise_std=times * std, num_classes=10)).key
        changes = {"trainer.noise": "gaussian", "trainer.delta": figures["delta"]}
        folder.keep(a_record(digest, release_keys=(key,), figures=figures, changes=changes))
    found = read_folder(tmp_path)
    cost = selected(found, "0a").cost
    assert cost.epsilon == pytest.approx(2.0) and cost.delta == 1e-5
    assert selected(found, BEST, at_epsilon=1.0).record.hash == "1a"


def noisy(folder: FolderLedger, scale: float) -> FolderLedger:
    """The same trials, estimated by counts of this scale of noise."""
    kept = ResultsFolder(folder.path, sweep="small")
    for record in kept.records().values():
        if record.finished:
            figures = {**record.metrics, "accuracy_estimated_count_scale": scale}
            kept.keep(replace(record, metrics=figures))
    return read_folder(folder.path)


def test_nothing_is_chosen_by_noise(sweep: FolderLedger) -> None:
    loud = noisy(sweep, 0.2)
    with pytest.raises(ValueError, match=r"noise is too large.*luckiest of 3.*evaluation\.epsilon"):
        selected(loud, BEST, choose_by=ChooseBy.ESTIMATED)
    # By name, among one, or by the test split noise has no say.
    assert selected(loud, "0a").doubt == ""
    assert selected(loud, BEST, choose_by=ChooseBy.ESTIMATED, at_epsilon=0.5).record.hash == "0a"
    assert selected(loud, BEST).record.hash == "1b"
