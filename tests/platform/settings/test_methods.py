"""The table of methods: whatever an entry states can be reached, and pages name it."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.amounts import LEVELS
from labeldp.mechanisms.vault import Release
from labeldp.platform.api.classifier import LabelPrivateClassifier
from labeldp.platform.api.label_release import SINGLE, mechanism_for, privatize
from labeldp.platform.cli.command_line import VERBS
from labeldp.platform.cli.config_keys import keys_of
from labeldp.platform.report.wording import RELEASES
from labeldp.platform.settings.configuration import TrialConfig, flatten, with_changes
from labeldp.platform.settings.methods import (
    EVERY,
    METHODS,
    NAMED,
    RELEASED,
    NamedMethod,
    named,
)
from labeldp.platform.studies.presets import comparison
from labeldp.trainers.base import ModelName
from labeldp.trainers.data.labelled_data import PublicData, load
from tests.mechanisms.test_declared_failures import every_mechanism
from tests.source_tree import ROOT
from tests.trainers.ratings import write_ratings
from tests.trainers.small_data import ON_CPU, SeededVault, small_table
from tests.trainers.test_methods import METHODS as TRAINED
from tests.trainers.test_methods import PATE


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


@pytest.mark.parametrize("method", EVERY, ids=lambda method: method.name)
def test_every_method_is_reached_by_all_that_its_entry_states(method: NamedMethod) -> None:
    # A sweep and the command line, by `method=`; a trial of it is tested.
    config = with_changes(TrialConfig(), {"method": method.method, **method.changes})
    assert type(config.trainer) is METHODS[method.method]
    assert any(facts.methods == (method.method,) for facts in keys_of(method.method))
    tried = {type(each.config) for each in (*TRAINED.values(), *PATE.values())}
    assert config.of_amounts or type(config.trainer) in tried
    # The estimator, by its own name.
    names = page("python.md")
    assert (f"`{method.name}`" in names) is method.fits
    assert (NAMED.get(method.name) is method) is method.fits
    if method.fits:
        assert named(method.name) is method
    # A model of the user's own, on its release.
    offered = re.search(r"Methods are (.*)\.", names)
    assert offered and (f"`{method.name}`" in offered[1]) is method.estimator
    taken = re.search(
        r"own model, for ([^.]*)\.", " ".join(str(LabelPrivateClassifier.__doc__).split())
    )
    assert taken and (method.name in re.findall(r"\w+", taken[1])) is method.estimator
    # Another party, and `privatize`.
    assert (method.mechanism is None) is (not method.release)
    if method.release:
        assert RELEASED[method.release] is method
        assert f"`{method.release}`" in page("two_parties.md")
        (verb,) = [verb for verb in VERBS if verb.words == "request"]
        (option,) = [param for param in verb.params if param.name == "method"]
        assert method.release in re.findall(r"\w+", str(option.help))
        delta = 0.0 if method.pure else 1e-5
        mechanism = mechanism_for(method.release, epsilon=1.0, delta=delta, num_classes=3)
        assert type(mechanism) in RELEASES
    assert (method.release in SINGLE) is method.alone
    if method.alone:
        found = privatize([0, 1, 2], epsilon=1.0, classes=3, method=method.release)
        assert found.epsilon == 1.0 and found.delta == 0.0


def test_names_are_unique_and_comparisons_have_the_lines() -> None:
    assert len({method.name for method in EVERY}) == len(EVERY)
    lines = [method.line for method in EVERY if method.line]
    assert len(set(lines)) == len(lines)
    sweep = comparison("digits")
    assert {line.name for line in sweep.variants} <= set(lines)


def test_every_mechanism_has_its_words() -> None:
    ours = {kind for kind in every_mechanism() if kind.__module__.startswith("labeldp.mechanisms")}
    assert ours == set(RELEASES)


class Observed(SeededVault):
    """A vault that remembers what was requested of it, and how often."""

    def __init__(self, labels: NDArray[np.int64], classes: int) -> None:
        super().__init__(labels, classes)
        self.requests: list[Any] = []

    def release(self, *asked: Any, **how: Any) -> Release:
        mechanism, *public = asked
        rows = how.get("indices")
        arrays = [np.asarray(each).tobytes() for each in (*public, [] if rows is None else rows)]
        self.requests.append((mechanism, arrays))
        return super().release(*asked, **how)


@pytest.fixture(scope="module")
def rated(tmp_path_factory: pytest.TempPathFactory) -> tuple[PublicData, NDArray[np.int64]]:
    root = tmp_path_factory.mktemp("data")
    write_ratings(root, ratings=1000)
    data = load("movielens_1m", root=root)
    return data.public, data.train_labels


@pytest.mark.parametrize("method", EVERY, ids=lambda method: method.name)
def test_what_is_requested_first_and_how_often_does_not_depend_on_labels(
    method: NamedMethod, rated: tuple[PublicData, NDArray[np.int64]]
) -> None:
    data, labels = rated if method.name == "recommender" else small_table()
    if method.name == "amounts":
        data = replace(
            data, bounds=(0.0, 1.0), num_classes=LEVELS, test_amounts=data.test_labels.astype(float)
        )
    few: dict[str, Any] = {"trainer.epochs": 4, "trainer.width": 8}
    if method.method == "prior_student":
        few["trainer.model"] = ModelName.MLP
    few |= dict.fromkeys(("trainer.earlier_epochs", "trainer.retrain_epochs"), 1)
    known = flatten(with_changes(TrialConfig(), {"method": method.method}))
    small = {key: value for key, value in few.items() if key in known}
    changes = {"method": method.method, **small, **method.changes}
    config: Any = with_changes(TrialConfig(), changes).trainer
    if method.name == "pate":
        config = PATE["PATE, probe"].config
    requests = []
    for secret in (labels, (labels + 1) % data.num_classes, np.zeros_like(labels)):
        vault = Observed(secret, data.num_classes)
        trainer = config.start(data=data, labels=vault, seed=0, performance=ON_CPU)
        for _ in range(config.epochs):
            trainer.epoch()
        asked = [each[0] for each in vault.asked]
        requests.append((vault.requests[:1], [made for made, _ in vault.requests], asked))
    assert requests[0] == requests[1] == requests[2]
    assert any(requests[0])
