"""running: what can be run, and what the driver is told; docs/python.md runs a real sweep."""

from pathlib import Path
from typing import Any

import pytest

import labeldp
from labeldp.platform.api.running import sweep_of
from labeldp.platform.sweep import driver
from labeldp.platform.sweep.configuration import TrialConfig
from labeldp.platform.sweep.sweep import Sweep, SweepOptions
from tests.platform.report.folders import a_folder
from tests.platform.sweep.examples import a_sweep

QUICKSTART = Path(__file__).resolve().parents[3] / "sweeps" / "quickstart.py"


def test_trials_sweeps_and_files_are_sweeps() -> None:
    assert sweep_of(a_sweep()).name == "small"
    assert sweep_of(TrialConfig()).name == "alibi_digits"
    asked = sweep_of({"method": "lp_mst", "trainer.epsilon": 3.0})
    assert asked.name == "lp_mst_digits" and asked.base.trainer.epsilon == 3.0
    assert sweep_of(QUICKSTART).name == sweep_of(str(QUICKSTART)).name == "quickstart"
    with pytest.raises(ValueError, match="int can't be run"):
        sweep_of(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is not a sweep file"):
        sweep_of("nothing.py")


def test_options_are_handed_on_and_nothing_is_said_if_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Any] = []

    def stand_in(sweep: Sweep, options: SweepOptions) -> None:
        import sys

        seen.append((sweep.name, options))
        print("going", file=sys.stderr)
        a_folder(options.results)

    monkeypatch.setattr(driver, "run_sweep", stand_in)
    for quiet in (True, False):
        result = labeldp.run(
            a_sweep(),
            results=tmp_path / str(quiet),
            overrides={"seed": [0, 1]},
            max_epsilon_total=3.0,
            quiet=quiet,
        )
        assert capsys.readouterr().err == ("" if quiet else "going\n")
        assert result.folder == tmp_path / str(quiet) and len(result.table()) == 1
    name, options = seen[0]
    assert name == "small" and options.overrides == {"seed": [0, 1]}
    assert options.max_epsilon_total == 3.0 and not options.smoke
    with pytest.raises(TypeError, match="max_epsilon"):
        labeldp.run(a_sweep(), results=tmp_path, max_epsilon=3.0)
