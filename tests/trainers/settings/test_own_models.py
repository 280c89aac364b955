"""A network of the user's in every trainer that has one: kept, sent, and refused."""

import json
import pickle
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from labeldp.platform.records.mlflow_model import _load_pyfunc
from labeldp.platform.settings.configuration import TrialConfig, config_hash, with_changes
from labeldp.trainers.methods.pate_settings import (
    EnsembleConfig,
    StudentConfig,
    StudentKind,
    TeacherKind,
)
from labeldp.trainers.methods.settings import AlibiConfig
from labeldp.trainers.models.trained_model import ModelFileError, TrainedModel, load_model
from labeldp.trainers.settings.trainer import Trainer
from labeldp.trainers.settings.training import (
    FixMatchConfig,
    LearnerConfig,
    OwnModel,
    OwnModuleMissing,
    source_of,
)
from tests.trainers.small_data import ON_CPU, SeededVault, small_images, trained
from tests.trainers.test_methods import PATE
from tests.trainers.trained_examples import an_origin

SOURCE = """
import math
import torch

UNITS = 6

class Net(torch.nn.Module):
    def __init__(self, *, input_shape, num_classes):
        super().__init__()
        self.hidden = torch.nn.Linear(math.prod(input_shape), UNITS)
        self.norm = torch.nn.BatchNorm1d(UNITS)
        self.head = torch.nn.Linear(UNITS, num_classes)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.hidden(x.flatten(1)))))

class Dropped(Net):
    def forward(self, x):
        return super().forward(torch.nn.functional.dropout(x, 0.5, self.training))

class Needy(torch.nn.Module):
    pass

class Short(Net):
    def forward(self, x):
        return super().forward(x)[:, :1]

nothing = 3
"""
NAME = "networks_of_a_test"
OWN = f"{NAME}:Net"
TEACHERS = EnsembleConfig(teachers=40, queries=100, kind=TeacherKind.FOREST)
FORESTS = replace(PATE["PATE, forest"].config, ensemble=TEACHERS)
QUICK: dict[str, Any] = {"model": OWN, "epochs": 2, "batch_size": 64}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, which has a module of the user's."""
    (tmp_path / f"{NAME}.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop(NAME, None)
    source_of.cache_clear()


def a_model(config: Any) -> TrainedModel:
    public, labels = small_images(examples=200, side=8)
    config.check_data(public)
    trainer = trained(config, (public, SeededVault(labels, 3)))
    assert trainer.evaluate() > 0
    return TrainedModel(
        predictor=trainer.predictor(), preprocessing=public.preprocessing, origin=an_origin(public)
    )


FIXMATCH = FixMatchConfig(model=OWN, epochs=1, steps_per_epoch=2, batch_size=8, padding=1)
STUDENTS = [
    StudentConfig(kind=StudentKind.NETWORK, network=LearnerConfig(**QUICK)),
    StudentConfig(kind=StudentKind.FIXMATCH, fixmatch=FIXMATCH),
]


@pytest.mark.parametrize(
    "config", [AlibiConfig(**QUICK), *(replace(FORESTS, student=each) for each in STUDENTS)]
)
def test_every_trainer_takes_it(config: Any, here: Path) -> None:
    model = a_model(config)
    model.save(here / "model")
    rows = small_images(examples=200, side=8)[0].test_features.numpy()
    assert (
        load_model(here / "model", allow_code=NAME).predict_proba(rows) == model.predict_proba(rows)
    ).all()


def test_its_dropout_follows_the_seed_and_a_resumed_run_too(here: Path) -> None:
    public, labels = small_images(examples=200, side=8)
    config = AlibiConfig(**{**QUICK, "model": f"{NAME}:Dropped"})

    def run(**of: Any) -> Trainer:
        given = {"data": public, "seed": 1, "performance": ON_CPU, **of}
        trainer: Trainer = config.start(labels=SeededVault(labels, 3), **given)
        trainer.epoch()
        return trainer

    first = run()
    torch.manual_seed(9)  # whatever ran before
    again = run()
    resumed = run(seed=1)
    resumed.load_state_dict(first.state_dict())
    for each in (first, again, resumed):
        each.epoch()
    found = [each.predict(public.test_features) for each in (first, again, resumed, run(seed=2))]
    assert (found[0] == found[1]).all() and (found[0] == found[2]).all()
    assert (found[0] != found[3]).any()


def test_a_model_whose_network_is_gone_or_changed_says_so(here: Path) -> None:
    a_model(AlibiConfig(**QUICK)).save(here / "model")
    path = here / f"{NAME}.py"
    del sys.modules[NAME]
    path.write_text(SOURCE.replace("UNITS = 6", "UNITS = 60"))
    with pytest.raises(ModelFileError, match="holds no complete model"):
        load_model(here / "model", allow_code=NAME)
    del sys.modules[NAME]
    path.write_text(SOURCE.replace("self.head =", "self.more = self.head ="))
    with pytest.raises(ModelFileError, match=r"has more\.weight, more\.bias that the file lacks"):
        load_model(here / "model", allow_code=NAME)
    del sys.modules[NAME]
    path.unlink()
    with pytest.raises(ModelFileError, match=f"is needed to read it: .*{OWN}.*install it"):
        load_model(here / "model", allow_code=NAME)


@pytest.mark.parametrize("allowed", [None, "another", f"{NAME}:Net", NAME[:-1]])
def test_a_model_imports_no_module_that_is_not_allowed_by_name(
    allowed: str | None, here: Path
) -> None:
    """Also where the network is a part of another, and where another program loads it."""
    a_model(AlibiConfig(**QUICK)).save(here / "model")
    del sys.modules[NAME]
    path = here / "model" / "model.json"
    facts = json.loads(path.read_text())
    refused = pytest.raises(ModelFileError, match=f"--allow-code {NAME}, or .*'{NAME}'")
    with refused:
        load_model(here / "model", allow_code=allowed)
    with refused:
        _load_pyfunc(str(here / "model"))
    network = facts["architecture"]
    mean = {"kind": "mean", "parts": [network]}
    steps = {**facts["preprocessing"], "steps": [network]}
    built_in = {**network, "model": "mlp"}
    for changes in ({"architecture": mean}, {"architecture": built_in, "preprocessing": steps}):
        path.write_text(json.dumps(facts | changes))
        with refused:
            load_model(here / "model", allow_code=allowed)
    assert NAME not in sys.modules


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("nowhere_at_all:Net", "module nowhere_at_all can't be imported here"),
        (f"{NAME}:Gone", "has no subclass of torch.nn.Module with that name"),
        (f"{NAME}:nothing", "has no subclass of torch.nn.Module with that name"),
        (f"{NAME}:Needy", r"Needy\(input_shape=\(1, 8, 8\), num_classes=3\).*raises TypeError"),
        (f"{NAME}:Short", r"returns \(2, 1\) for a batch of two .* must return logits, \(2, 3"),
    ],
)
def test_others_are_refused_before_a_trial_starts(address: str, message: str, here: Path) -> None:
    data, _ = small_images(side=8)
    network, fixmatch = LearnerConfig(model=address), FixMatchConfig(model=address)
    for config in (
        AlibiConfig(model=address),
        replace(FORESTS, student=StudentConfig(kind=StudentKind.NETWORK, network=network)),
        replace(FORESTS, student=StudentConfig(kind=StudentKind.FIXMATCH, fixmatch=fixmatch)),
        replace(FORESTS, ensemble=replace(TEACHERS, kind=TeacherKind.NETWORK, network=network)),
        replace(FORESTS, ensemble=replace(TEACHERS, kind=TeacherKind.FIXMATCH, fixmatch=fixmatch)),
    ):
        with pytest.raises(ValueError, match=message):
            config.check_data(data)


@pytest.mark.parametrize("changes", [{"width": 3}, {"dropout": 0.5}])
def test_settings_that_it_does_not_take_are_refused(changes: dict[str, Any], here: Path) -> None:
    with pytest.raises(ValueError, match="takes no width"):
        a_model(AlibiConfig(model=OWN, **changes))


def test_it_is_sent(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ray sends settings to a worker on another machine."""
    sent = pickle.dumps(AlibiConfig(**QUICK))
    sys.modules.pop(NAME, None)
    (here / f"{NAME}.py").unlink()
    config = pickle.loads(sent)
    network = config.model.build(input_shape=(3,), num_classes=2, seed=0)
    assert type(network).__name__ == "Net" and config.model == OWN


def test_another_network_of_one_name_is_another_trial_with_other_votes(here: Path) -> None:
    config = with_changes(TrialConfig(), {"trainer.model": OWN})
    networks = [
        EnsembleConfig(network=LearnerConfig(model=OWN)),
        EnsembleConfig(fixmatch=FixMatchConfig(model=OWN)),
    ]

    def known(ensembles: list[EnsembleConfig]) -> list[object]:
        return [config_hash(config, data_fingerprint="f"), *(each.facts() for each in ensembles)]

    first, sent = known(networks), pickle.dumps(networks)
    assert first == known(networks) and json.dumps(first)
    (here / f"{NAME}.py").write_text(SOURCE.replace("UNITS = 6", "UNITS = 7"))
    assert first == known(networks)  # as the module that this process has imported
    source_of.cache_clear()
    assert not any(each == other for each, other in zip(known(networks), first, strict=True))
    sys.modules.pop(NAME, None)
    (here / f"{NAME}.py").unlink()
    source_of.cache_clear()
    assert known(pickle.loads(sent))[1:] == first[1:]  # where the file is not


def test_a_module_that_is_nowhere_arrives_as_missing() -> None:
    arrived = pickle.loads(pickle.dumps(OwnModel("nowhere_at_all:Net")))
    with pytest.raises(OwnModuleMissing, match="nowhere_at_all"):
        arrived.kind()
