"""trial_runs: what ends Tune is raised as what it was. Whole sweeps are run elsewhere."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune.error import TuneError

from labeldp.platform.records.results import ResultsFolderError
from labeldp.platform.sweep.trial_runs import _fit


def run(error: Exception | None, *, recorder: Any = None, hand_out: Any = None) -> None:
    """Fit with a tuner that ends so, beside what broke in the driver."""

    def fit() -> None:
        if error is not None:
            raise error

    tuner: Any = SimpleNamespace(fit=fit)
    folder = SimpleNamespace(path=Path("/results/small"))
    beside: Any = SimpleNamespace(folder=folder, broken=recorder)
    handing_out: Any = None if hand_out is None else SimpleNamespace(broken=hand_out)
    _fit(tuner, beside, handing_out)


def test_a_run_that_ends_well_raises_nothing() -> None:
    run(None, recorder=ValueError("of an earlier run"))


def test_a_full_disk_is_said_with_the_folder_and_the_way_on() -> None:
    with pytest.raises(ResultsFolderError, match=r"/results/small can't be .*\(no space\).*resume"):
        run(OSError("no space"))


def test_what_broke_in_the_driver_is_raised_and_not_its_text_in_tune() -> None:
    lost, refused = RuntimeError("the vault is gone"), ValueError("no such setting")
    with pytest.raises(RuntimeError, match="the vault is gone") as caught:
        run(TuneError("the vault is gone"), recorder=lost, hand_out=refused)
    assert caught.value is lost
    with pytest.raises(ValueError, match="no such setting"):
        run(TuneError("no such setting"), hand_out=refused)


@pytest.mark.parametrize("beside", [{}, {"hand_out": False}])
def test_an_error_of_tunes_own_stays_its_own(beside: dict[str, Any]) -> None:
    with pytest.raises(TuneError, match="of its own"):
        run(TuneError("of its own"), **beside)
