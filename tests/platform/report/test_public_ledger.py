"""public_ledger: what was done and what it cost; no seed, no folder, no word of other code."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from labeldp.mechanisms.accounting import PureEvent, epsilon_of
from labeldp.mechanisms.additive_noise import GaussianNoise
from labeldp.mechanisms.pate.aggregators import ConfidentGNMax
from labeldp.mechanisms.pate.releases import PateAnswers
from labeldp.mechanisms.randomness import OsEntropy, SeededNoise
from labeldp.mechanisms.release_address import describe
from labeldp.mechanisms.release_store import read_event
from labeldp.platform.report.ledger import LedgerLine, read_folder
from labeldp.platform.report.ledger_words import public_lines
from tests.platform.report.folders import LAPLACE, a_folder, an_impostors


@dataclass(frozen=True, kw_only=True)
class OfSecretProjectX:
    """A mechanism of somebody's own."""

    note: str = "s3cr3t-4711"
    epsilon: float = 1.0
    failure_probability: ClassVar[float] = 0.0

    @property
    def event(self) -> PureEvent:
        return PureEvent(epsilon=self.epsilon)

    def release(self, labels: Any, *, generator: Any) -> Any:
        return np.zeros(3)


def lines(path: Path, **facts: Any) -> tuple[LedgerLine, ...]:
    a_folder(path, **facts)
    return read_folder(path).lines


def test_a_line_has_what_it_takes_to_compute_its_price(tmp_path: Path) -> None:
    gaussian = GaussianNoise(noise_std=5.0, num_classes=10)
    first, second = public_lines(lines(tmp_path, releases=[LAPLACE, gaussian]))
    assert first["parameters"] == {"epsilon": 2.0, "num_classes": 10}
    assert (first["mechanism"], first["noise"], first["labels"]) == ("LaplaceNoise", "plain", 60)
    assert (first["epsilon"], first["delta"], first["failure_probability"]) == (2.0, 0.0, 0.0)
    event = read_event(json.dumps(second["event"]))
    assert epsilon_of([event], delta=second["delta"]) == second["epsilon"]


def test_what_may_fail_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OfSecretProjectX, "failure_probability", 4e-6)
    (line,) = public_lines(lines(tmp_path, releases=[OfSecretProjectX()]))
    assert (line["epsilon"], line["delta"], line["failure_probability"]) == (1.0, 8e-6, 4e-6)


def test_times_are_days_and_folders_are_nobodys_business(tmp_path: Path) -> None:
    (line,) = public_lines(lines(tmp_path))
    assert len(line["made"]) == 10 and line["made"].count("-") == 2
    assert str(tmp_path) not in json.dumps(line) and "small" not in json.dumps(line)


def test_a_seed_is_never_told(tmp_path: Path) -> None:
    (line,) = public_lines(lines(tmp_path, noise=SeededNoise(seed=8124377)))
    assert line["noise"] == "seeded" and "8124377" not in json.dumps(line)


def test_mechanisms_of_other_code_are_told_by_their_price_alone(tmp_path: Path) -> None:
    (line,) = public_lines(lines(tmp_path, releases=[OfSecretProjectX()]))
    shown = json.dumps(line)
    assert "SecretProject" not in shown and "s3cr3t" not in shown
    assert (line["mechanism"], line["parameters"], line["epsilon"]) == ("other", {}, 1.0)


@pytest.mark.parametrize("planted", ["s3cr3t", ["s3cr3t"], {"s3cr3t": 1}, True])
def test_parameters_are_numbers(planted: Any, tmp_path: Path) -> None:
    (line,) = lines(tmp_path)
    strange = {**line.charge.mechanism, "epsilon": planted, "s3cr3t": 3.0}
    (shown,) = public_lines([replace(line, charge=replace(line.charge, mechanism=strange))])
    assert (shown["parameters"], shown["mechanism"]) == ({}, "other")
    assert "s3cr3t" not in json.dumps(shown)


def test_a_users_class_by_a_name_of_ours_is_told_by_its_price_alone(tmp_path: Path) -> None:
    a_folder(tmp_path)
    (line,) = public_lines(an_impostors(read_folder(tmp_path), secret=8124377.0).lines)
    assert (line["mechanism"], line["parameters"], line["epsilon"]) == ("other", {}, 2.0)
    assert "8124377" not in json.dumps(line) and "Laplace" not in json.dumps(line)


def test_an_ensembles_aggregator_is_told_inside(tmp_path: Path) -> None:
    aggregator = ConfidentGNMax(threshold=150.0, sigma1=100.0, sigma2=40.0)
    answers = PateAnswers(aggregator=aggregator, queries=10, max_answers=5)
    (line,) = lines(tmp_path)
    charge = replace(line.charge, mechanism=describe(answers, OsEntropy()))
    (shown,) = public_lines([replace(line, charge=charge)])
    assert shown["parameters"] == {
        "queries": 10,
        "max_answers": 5,
        "aggregator.threshold": 150.0,
        "aggregator.sigma1": 100.0,
        "aggregator.sigma2": 40.0,
    }
