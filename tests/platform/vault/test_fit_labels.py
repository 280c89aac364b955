"""fit_labels: releases, teachers, canaries and figures in this process, and no label shown."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.accounting import epsilon_of
from labeldp.mechanisms.additive_noise import GaussianNoise
from labeldp.mechanisms.auditing import GaussianCurve
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.randomness import NoiseSource, OsEntropy, SecureEntropy, SeededNoise
from labeldp.platform.sweep.configuration import AuditSettings
from labeldp.platform.vault.fit_labels import FitLabels
from labeldp.platform.vault.label_home import HomePlaces, LabelHome, SecretLabels
from labeldp.platform.vault.shared_vault import PublicSide, SharedVault
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.pate import AggregatorKind, EnsembleConfig, PateConfig

CLASSES = 3
LABELS = (np.arange(600) // 7 % CLASSES).astype(np.int64)
MECHANISM = RandomizedResponse(epsilon=1.0, num_classes=CLASSES)


def near(
    shared: SharedVault | None = None,
    *,
    audit: AuditSettings | None = None,
    noise: NoiseSource | None = None,
) -> FitLabels:
    return FitLabels(
        SecretLabels(training=LABELS, num_classes=CLASSES),
        audit=audit,
        fingerprint="f",
        side=PublicSide(rows="r", classes="c", num_labels=len(LABELS)),
        shared=shared or SharedVault(),
        noise=noise or OsEntropy(),
    )


def knowing(labels: NDArray[np.int64]) -> Any:
    """A model that is sure of these labels."""
    return lambda places: np.eye(CLASSES, dtype=np.float32)[labels[places]]


def test_who_pays_and_who_reads_again() -> None:
    shared = SharedVault()
    first = near(shared)
    assert first.epsilon(delta=1e-5) == (0.0, 0.0)
    values = first.release(MECHANISM).values
    assert first.epsilon(delta=1e-5) == (1.0, 0.0)
    assert [first.is_new(charge) for charge in first.charges()] == [True]
    second = near(shared)
    assert (second.release(MECHANISM).values == values).all()
    assert [second.is_new(charge) for charge in second.charges()] == [False]
    assert second.epsilon(delta=1e-5) == (1.0, 0.0) and shared.epsilon() == 1.0
    third = near(shared)
    half = replace(MECHANISM, epsilon=0.5)
    third.release(half)
    assert [charge.event for charge in third.charges()] == [half.event]  # what it read itself
    assert third.epsilon(delta=1e-5) == (0.5, 0.0) and shared.epsilon() == 1.5


def test_noise_is_what_the_fit_was_told() -> None:
    for noise in (SecureEntropy(), SeededNoise(seed=3)):
        fit = near(noise=noise)
        fit.release(MECHANISM)
        (charge,) = fit.charges()
        assert charge.mechanism["noise"]["name"] == type(noise).__name__


def test_figures_are_the_owners_and_say_how_right_a_model_is() -> None:
    assert near().figures(knowing(LABELS), delta=1e-5) == {"private/training_accuracy": 1.0}
    wrong = near().figures(knowing((LABELS + 1) % CLASSES), delta=1e-5)
    assert wrong == {"private/training_accuracy": 0.0}


def test_canaries_are_planted_where_asked_for_only_and_then_found() -> None:
    assert not len(near().canary_positions())
    audited = near(audit=AuditSettings(canaries=100, coin_canaries=100))
    audited.release(MECHANISM)
    assert len(audited.canary_positions()) == 200
    planted = audited.home._planted
    assert 100 <= (planted != LABELS).sum() <= 200
    assert (np.flatnonzero(planted != LABELS)[:, None] == audited.canary_positions()).any(1).all()
    noise = GaussianNoise(noise_std=4.0, num_classes=CLASSES)
    blurred = near(audit=AuditSettings(canaries=100, coin_canaries=100))
    blurred.release(noise)
    direct = blurred.home._canaries.audit(
        knowing(LABELS)(blurred.canary_positions()),
        confidence=0.95,
        epsilon=epsilon_of([noise.event], delta=1e-5),
        delta=1e-5,
        curve=GaussianCurve(delta=1e-5),
    ).figures
    assert blurred.figures(knowing(LABELS), delta=1e-5).items() >= direct.items()
    found = audited.figures(knowing(planted), delta=1e-5)
    assert found["epsilon_m_low"] > 1  # it learned the wrong labels by heart
    assert found["private/label_inference_accuracy"] == 1.0


def test_a_fit_finds_what_the_audits_of_a_sweep_find_and_pays_nothing_for_it(
    tmp_path: Path,
) -> None:
    audit = AuditSettings(canaries=50, coin_canaries=200)
    fit = near(audit=audit, noise=SeededNoise(seed=7))
    fit.release(MECHANISM)
    before = fit.charges()
    found = fit.figures(knowing(fit.home._planted), delta=1e-5)
    assert fit.charges() == before
    home = LabelHome(
        SecretLabels(training=LABELS, num_classes=CLASSES),
        audit=audit,
        coin_seed=7,
        places=HomePlaces(store=None, votes=tmp_path),
        fingerprint="",
        budget=None,
        authority=b"owner",
    )
    released = home.release(MECHANISM, (), None, SeededNoise(seed=7))
    assert released.values.tolist() == fit.release(MECHANISM).values.tolist()
    (line,) = home.charges([released.key])
    assert line.event == before[0].event
    home.begin(b"owner", "ab" * 8)
    sure = knowing(fit.home._planted)(home.canary_positions())
    home.audit("ab" * 8, sure, audit.confidence, [line.key], 1e-5)
    swept = home.figures(b"owner", "ab" * 8, [line.key])
    assert found == {"private/training_accuracy": found["private/training_accuracy"], **swept}
    assert found["private/epsilon_release"] <= found["epsilon_release_ceiling"]


def test_a_seed_decides_the_coins_and_nothing_else_does() -> None:
    audit = AuditSettings(canaries=20, coin_canaries=100)
    planted = [near(audit=audit, noise=SeededNoise(seed=seed)).home._planted for seed in (1, 1, 2)]
    assert (planted[0] == planted[1]).all() and (planted[0] != planted[2]).any()
    secret = [near(audit=audit).home._planted for _ in range(2)]
    assert (secret[0] != secret[1]).any()


def some_data() -> PublicData:
    generator = np.random.default_rng(0)
    rows = np.eye(CLASSES, 4, dtype=np.float32)[LABELS] + generator.normal(
        size=(len(LABELS), 4), scale=0.1
    ).astype(np.float32)
    return PublicData(
        name="own",
        num_classes=CLASSES,
        train_features=torch.from_numpy(rows),
        test_features=torch.empty(0, 4),
        test_labels=np.empty(0, dtype=np.int64),
    )


PATE = PateConfig(
    ensemble=EnsembleConfig(teachers=20, queries=30),
    aggregator=AggregatorKind.GNMAX,
    sigma2=1.0,
    answers=30,
    publish_cost=False,
    students=1,
)
CPU = Performance(device=Device.CPU)


def test_teachers_are_trained_here_and_answers_are_charged() -> None:
    data, labels, told = some_data(), near(noise=SecureEntropy()), list[str]()
    labels.teach(PATE.ensemble, data=data, performance=CPU, tell=told.append)
    trainer = PATE.start(data=data, labels=labels, seed=0, performance=CPU)
    trainer.epoch()
    votes = labels.home.ensemble_file(PATE.ensemble).path
    assert votes.exists()
    labels.home.end()
    assert not votes.exists()
    assert told == ["20 of 20 teachers"]
    assert (trainer.predict(data.train_features).argmax(1) == LABELS).mean() > 0.95
    epsilon, delta = labels.epsilon(delta=1e-5)
    assert epsilon > 1 and delta == 1e-5
    (charge,) = labels.charges()
    assert charge.mechanism["noise"]["name"] == "SecureEntropy"


def test_votes_are_of_the_labels_that_were_planted_and_are_kept(tmp_path: Path) -> None:
    data, shared, told = some_data(), SharedVault(tmp_path / "vault"), list[str]()
    audit = AuditSettings(canaries=100, coin_canaries=100)
    journals = set[Path]()
    for each in (near(shared), near(shared), near(shared, audit=audit)):
        each.teach(PATE.ensemble, data=data, performance=CPU, tell=told.append)
        journals.add(each.home.ensemble_file(PATE.ensemble).path)
    # The second fit asks the first one's teachers; those of the third have learned wrong labels.
    assert len(told) == len(journals) == 2


def test_nothing_shows_a_label() -> None:
    assert "num_labels=600" in repr(near()) and "[" not in repr(near())
