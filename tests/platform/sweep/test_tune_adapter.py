"""tune_adapter: a trial that fails says how, in words and where a program asks. Ray is not here."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from ray import tune

from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.platform.sweep import tune_adapter
from labeldp.platform.sweep.configuration import TrialConfig
from labeldp.platform.sweep.sweep import PlannedTrial
from labeldp.platform.sweep.tune_adapter import Plans, tune_trial
from labeldp.trainers.models.schedules import TrainingDiverged

OVER = BudgetExceeded(budget=Budget(epsilon=1.0), spent=1.0, requested=2.0, request="r")


@pytest.mark.parametrize(
    ("error", "over", "reason"),
    [
        (OVER, True, "BudgetExceeded: "),
        (TrainingDiverged("the loss is\nnot finite"), False, "TrainingDiverged: the loss is not f"),
        (ValueError("BudgetExceeded: no"), False, "ValueError: BudgetExceeded: no"),
        (MemoryError("too large"), False, "out of memory (too large); lower trainer.batch_size"),
        (SystemExit(3), False, "SystemExit: 3"),
    ],
)
def test_what_ended_a_trial_travels_in_its_end(
    error: BaseException, over: bool, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[dict[str, Any]] = []

    def fail(*arguments: Any, **settings: Any) -> None:
        raise error

    monkeypatch.setattr(tune_adapter, "run_trial", fail)
    monkeypatch.setattr(tune, "report", reported.append)
    nothing: Any = SimpleNamespace()
    tune_trial(
        {"hash": "ab"},
        plans=Plans(listed={"ab": PlannedTrial(variant="ALIBI", config=TrialConfig(), point={})}),
        data=nothing,
        home=nothing,
        keeper=nothing,
        cpus=torch.get_num_threads(),
    )
    (end,) = (each["end"] for each in reported)
    assert (end["finished"], end["over_budget"]) == (False, over)
    assert end["reason"].startswith(reason) and "\n" not in end["reason"]
