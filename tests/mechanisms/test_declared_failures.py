"""Declared failures: every mechanism says how probably it fails, and the vault charges it."""

import dataclasses
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.accounting import GaussianEvent, epsilon_of
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.mechanisms.pate.releases import PublishedCost
from labeldp.mechanisms.randomized_response import PublishedClasses, RandomizedResponse
from labeldp.mechanisms.vault import LabelVault
from tests.source_tree import modules


@dataclass(frozen=True, kw_only=True)
class Undeclared:
    """As a newcomer would write it who calls the probability by another name."""

    noise_std: float = 4.0
    tail: float = 4e-6
    calls: ClassVar[list[int]] = []

    @property
    def event(self) -> GaussianEvent:
        return GaussianEvent(noise_multiplier=self.noise_std)

    def release(self, labels: Any, *, generator: np.random.Generator) -> NDArray[Any]:
        self.calls.append(1)
        return np.asarray(labels + generator.normal(scale=self.noise_std, size=labels.shape))


@dataclass(frozen=True, kw_only=True)
class Declared(Undeclared):
    """The same, declared, and under a name that nothing could guess."""

    tail: float = 0.5  # not what is declared, and charged to nobody
    missed: float = 4e-6

    @property
    def failure_probability(self) -> float:
        return self.missed


#: Dataclasses with an `event` that release nothing, and what they are.
NO_MECHANISMS = {
    "mechanisms.release_store.Charge": "a line of the ledger, with the failures that were charged",
    "trainers.settings.trainer.PlannedCharge": "a plan, with failures that its mechanism declares",
    "platform.vault.witness.Line": "a line of a ledger, with its price as text",
    "mechanisms.accounting.PureMechanism": "what pure mechanisms have in common",
    "mechanisms.accounting.GaussianMechanism": "what two mechanisms have in common",
    "mechanisms.label_channels.PurePerLabel": "what three mechanisms have in common",
}


def mechanisms_of(module: Any) -> Iterator[type]:
    """Dataclasses of a module with an `event`, in whatever form and however they came by it."""
    for kind in vars(module).values():
        if inspect.isclass(kind) and dataclasses.is_dataclass(kind):
            fields = {each.name for each in dataclasses.fields(kind)}
            has_one = hasattr(kind, "event") or "event" in fields
            if kind.__module__ == module.__name__ and has_one:
                yield kind


@cache
def with_events() -> dict[str, type]:
    """Every dataclass with an `event` in all that trials run through, by its place."""
    return {
        f"{kind.__module__}.{kind.__qualname__}".removeprefix("labeldp."): kind
        for module in modules("mechanisms", "trainers", "platform")
        for kind in mechanisms_of(module)
    }


def every_mechanism() -> Iterator[type]:
    yield from (kind for name, kind in with_events().items() if name not in NO_MECHANISMS)


def vault(**settings: Any) -> LabelVault:
    return LabelVault(labels=np.arange(40) % 4, num_classes=4, **settings)


def test_every_mechanism_declares_its_failure_probability() -> None:
    found = with_events()
    assert set(NO_MECHANISMS) <= set(found), "a name that nothing bears excuses nothing"
    kinds = list(every_mechanism())
    expected = {LaplaceNoise, GaussianNoise, RandomizedResponse, PublishedCost, PublishedClasses}
    assert expected <= set(kinds) and len(kinds) >= 13
    # Each declares its own: a subclass may release otherwise than its base.
    assert not [kind for kind in kinds if "failure_probability" not in vars(kind)]


def test_the_vault_refuses_it_and_nothing_is_drawn_or_charged() -> None:
    home = vault()
    Undeclared.calls.clear()
    with pytest.raises(TypeError, match=r"Undeclared does not declare its failure_prob.* = 0\.0"):
        home.release(Undeclared())  # type: ignore[arg-type]  # it lacks what is to be noticed
    assert Undeclared.calls == [] and len(home.charges()) == 0


@pytest.mark.parametrize("bad", [-1e-9, 1.0, float("nan")])
def test_an_invalid_failure_probability_is_refused(bad: float) -> None:
    home = vault()
    with pytest.raises(ValueError, match="failure_probability is"):
        home.release(Declared(missed=bad))
    assert len(home.charges()) == 0


def test_declared_events_are_charged_under_any_name() -> None:
    home = vault()
    home.release(Declared())
    (line,) = home.charges()
    assert line.failure_probability == 4e-6
    expected = epsilon_of([line.event], delta=1e-5 - 4e-6)
    assert home.epsilon(delta=1e-5) == expected > epsilon_of([line.event], delta=1e-5)
    assert home.epsilon(delta=1e-5, keys=[line.key]) == expected
    with pytest.raises(ValueError, match="state a delta above 4e-06"):
        home.epsilon(delta=4e-6)


def test_the_budget_takes_failures_off_its_delta() -> None:
    event = Declared().event
    tight = epsilon_of([event], delta=1e-5)
    with pytest.raises(BudgetExceeded, match="Declared is refused"):
        vault(budget=Budget(epsilon=tight, delta=1e-5)).release(Declared())
    enough = epsilon_of([event], delta=1e-5 - 4e-6)
    home = vault(budget=Budget(epsilon=enough, delta=1e-5))
    home.release(Declared())
    with pytest.raises(BudgetExceeded, match="would make it inf"):
        home.release(Declared(missed=7e-6))
    assert len(home.charges()) == 1
