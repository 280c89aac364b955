"""fitting: what would cost more is refused beforehand; progress; what attacks found, in public."""

import io
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from labeldp.platform.api import fitting
from labeldp.platform.api.fit_settings import configured
from labeldp.platform.sweep.configuration import TrialConfig


def config(**changes: Any) -> TrialConfig:
    return configured({"trainer.epsilon": 2.0, **changes}, seed=0, settings={})


def test_a_fit_that_costs_more_than_was_asked_for_is_refused() -> None:
    fitting.check_price(config(), epsilon=2.0, delta=0.0, num_classes=3)
    with pytest.raises(ValueError, match="a fit costs epsilon 2 at delta 0, and epsilon=1"):
        fitting.check_price(config(), epsilon=1.0, delta=1e-5, num_classes=3)
    gaussian = config(**{"trainer.noise": "gaussian"})
    fitting.check_price(gaussian, epsilon=2.0, delta=1e-5, num_classes=3)
    with pytest.raises(ValueError, match="at delta 1e-05, and epsilon=2, delta=1e-06"):
        fitting.check_price(gaussian, epsilon=2.0, delta=1e-6, num_classes=3)
    with pytest.raises(ValueError, match="a fit costs epsilon inf"):
        fitting.check_price(
            config(**{"trainer.noise": "none"}), epsilon=2.0, delta=0.0, num_classes=3
        )


@pytest.mark.parametrize(("columns", "threads"), [(15, 1), (5_000, 2)])
def test_narrow_tables_are_trained_in_one_thread(
    columns: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads took 20 seconds of processor time where one takes 0.8."""
    before, seen = torch.get_num_threads(), []
    monkeypatch.setattr(fitting, "_fit", lambda *_, **__: seen.append(torch.get_num_threads()))
    data = SimpleNamespace(train_features=torch.zeros(4, columns))
    nothing: Any = None
    torch.set_num_threads(2)
    try:
        fitting.fit(nothing, data=data, labels=nothing, performance=nothing, tell=nothing)  # type: ignore[arg-type]
        assert (seen, torch.get_num_threads()) == ([threads], 2)
    finally:
        torch.set_num_threads(before)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()])
def test_progress_is_one_line_on_a_terminal_and_few_off_it(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", stream)
    tell = fitting.Teller(quiet=False)
    for epoch in range(5):
        tell(f"epoch {epoch}")
    tell.close()
    said = stream.getvalue()
    assert said.count("\n") == 1 and said.startswith("\repoch 0" if stream.isatty() else "epoch 0")
    assert ("epoch 4" in said) == stream.isatty()


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    tell = fitting.Teller(quiet=True)
    tell("epoch 1")
    tell.close()
    assert capsys.readouterr().err == ""
