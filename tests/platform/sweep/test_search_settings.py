"""search_settings: where trials are compared, and numbers that make no search."""

import pytest

from labeldp.platform.sweep.configuration import AshaStop, OptunaSearch


@pytest.mark.parametrize(
    ("grace", "keep", "epochs", "rungs"),
    [(1, 4, 30, (1, 4, 16)), (1, 4, 16, (1, 4)), (5, 2, 5, ()), (3, 3, 28, (3, 9, 27))],
)
def test_rungs_lie_before_the_last_epoch(
    grace: int, keep: int, epochs: int, rungs: tuple[int, ...]
) -> None:
    assert AshaStop(grace_epochs=grace, keep_one_in=keep).rungs(epochs) == rungs


def test_numbers_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="trials is 0"):
        OptunaSearch(trials=0)
    with pytest.raises(ValueError, match="keep_one_in is 1"):
        AshaStop(keep_one_in=1)
    with pytest.raises(ValueError, match="grace_epochs is 0"):
        AshaStop(grace_epochs=0)
