"""The steps, ordered by their worth: an accelerator's first minutes go to the first ones.

Fast checks come first, then the project's own claims, then the encoder that learns without labels,
then CIFAR-100, which confirms the choices of CIFAR-10. The papers' own rows, which take days, are
sweeps: see docs/reproduction.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from labeldp.trainers.models.schedules import LABEL_SMOOTHING, Schedule, fast_training
from labeldp.trainers.settings.base import FeatureSet, ModelName
from labeldp.trainers.settings.methods import (
    AlibiConfig,
    AlibiPriorConfig,
    LpMstConfig,
    Noise,
    PriorLabelsConfig,
    PriorSettings,
    PriorSource,
    StagedMomentsConfig,
)
from labeldp.trainers.settings.training import SelfSupervisedConfig
from tests.benchmarks.gpu import SMALL
from tests.benchmarks.gpu_campaign.steps import (
    EncoderStep,
    FeaturesStep,
    SpeedStep,
    Step,
    TrialStep,
)

#: Half and full width of the fast network.
WIDTHS = (32, 64)
#: Epsilons where sums of labels are the better release, and where single labels are.
_LEAST, _FEW, _MANY = (0.1, 0.2, 0.5, 1.0, 2.0), (0.5, 1.0), (1.0, 2.0, 4.0)
#: Of moment labels on an encoder's features; the published ones with SimCLR are among them.
_ON_FEATURES = (0.05, 0.1, 0.18, 0.5, 1.0, 2.0, 4.0, 8.0)
#: One thread of the processor computes the directions of a moment prior.
_PRIOR_SECONDS = 90.0
_MOMENTS = PriorSettings(source=PriorSource.MOMENTS, features=FeatureSet.RANDOM_PATCHES)
#: Best published on CIFAR-10 without outside data: LP-2ST, and LabelDP-Pro on SimCLR's features.
_LP_2ST = {1.0: "63.67", 2.0: "86.05", 4.0: "93.4"}
_WITH_SIMCLR = {0.05: "85.5", 0.18: "86.6", 0.5: "87.4"}


def campaign() -> tuple[Step, ...]:
    """Return all steps."""
    return (
        *fast_steps("cifar10", priors=False),
        SpeedStep(),
        *encoder_steps("cifar10", ModelName.RESNET18, None, epochs=200),
        _features_step("cifar10"),
        *fast_steps("cifar10", priors=True),
        *encoder_steps("cifar10", ModelName.FAST_CNN, 64, epochs=200),
        *fast_steps("cifar100", priors=False),
        *encoder_steps("cifar100", ModelName.RESNET18, None, epochs=200),
        _features_step("cifar100"),
        *fast_steps("cifar100", priors=True),
    )


def small_campaign() -> tuple[Step, ...]:
    """Return a step of each kind with networks that train in seconds on a processor."""
    network = fast_training(epochs=2, width=2) | {"batch_size": 50}
    fast = TrialStep(
        name="cifar10-alibi",
        row="ALIBI",
        network="fast network, width 2",
        dataset="cifar10",
        config=AlibiConfig(epsilon=2.0, **network),
        needs_seconds=0.0,
    )
    staged = LpMstConfig(epsilon=2.0, **network)
    speeds = replace(SMALL, widths=(), encoders=(), teachers=())
    encoder = encoder_steps(
        "cifar10",
        ModelName.FAST_CNN,
        2,
        epochs=2,
        epsilons=(1.0,),
        landmarks=20,
        batch_size=50,
        projection=8,
    )
    return (
        fast,
        SpeedStep(seconds=0.01, sizes=speeds, needs_seconds=0.0),
        *(replace(step, needs_seconds=0.0) for step in encoder),
        replace(fast, name="cifar10-lp-2st", row="LP-2ST", config=staged),
    )


def _features_step(dataset: str) -> FeaturesStep:
    return FeaturesStep(name=f"{dataset}-random-patches", dataset=dataset, prior=_MOMENTS)


def fast_steps(dataset: str, *, priors: bool) -> Iterator[TrialStep]:
    """Yield trials of the fast network: those with a moment prior, or all others."""
    for width in WIDTHS:
        plain = fast_training(epochs=10, width=width)
        for method, epsilon, config in _with_priors(plain) if priors else _without(plain, width):
            words = method.lower().replace(" + ", "-").replace(", ", "-").replace(" ", "-")
            end = "" if epsilon is None else f"-e{epsilon:g}"
            yield TrialStep(
                name=f"{dataset}-fast-{width}-{words}{end}",
                row=method,
                network=f"fast network, width {width}",
                dataset=dataset,
                config=config,
                published=_published(dataset, epsilon, _LP_2ST),
                features=f"{dataset}-random-patches" if priors else None,
                needs_seconds=_PRIOR_SECONDS if priors else 30.0,
            )


def _without(plain: dict[str, Any], width: int) -> Iterator[tuple[str, float | None, Any]]:
    smooth = fast_training(epochs=10, width=width, label_smoothing=LABEL_SMOOTHING)
    two = fast_training(epochs=20, width=width)
    yield "no noise", None, AlibiConfig(noise=Noise.NONE, **smooth)
    for epsilon in _MANY:
        response = AlibiConfig(epsilon=epsilon, noise=Noise.RANDOMIZED_RESPONSE, **plain)
        yield "ALIBI, randomized response", epsilon, response
        yield "ALIBI", epsilon, AlibiConfig(epsilon=epsilon, **plain)
        yield "LP-2ST", epsilon, LpMstConfig(epsilon=epsilon, **two)


def _with_priors(plain: dict[str, Any]) -> Iterator[tuple[str, float | None, Any]]:
    short = {**plain, "epochs": 8, "earlier_epochs": 4}
    for epsilon in _LEAST:
        staged = StagedMomentsConfig(epsilon=epsilon, prior=_MOMENTS, **short)
        yield "moment labels in stages", epsilon, staged
    for epsilon in _FEW:
        yield "moment labels", epsilon, PriorLabelsConfig(epsilon=epsilon, prior=_MOMENTS, **plain)
    for epsilon in _MANY:
        prior = replace(_MOMENTS, share=0.8)
        both = AlibiPriorConfig(epsilon=epsilon, prior=prior, **plain)
        yield "ALIBI + moment prior", epsilon, both


def encoder_steps(
    dataset: str,
    model: ModelName,
    width: int | None,
    *,
    epochs: int,
    epsilons: Sequence[float] = _ON_FEATURES,
    landmarks: int = 1500,
    **settings: Any,
) -> Iterator[EncoderStep | TrialStep]:
    """Yield an encoder trained without labels, and moment labels on its features.

    Args:
        dataset: Its training images are learned from.
        model: The encoder's network.
        width: Its width; None for the network's own.
        epochs: Of the encoder.
        epsilons: Of the trials on its features.
        landmarks: Of the trials' moment prior.
        **settings: Further ones of the encoder.
    """
    name = f"{dataset}-self-supervised-{model.value.replace('_', '-')}"
    network = f"{model.value} self-supervised, {epochs} epochs"
    config = SelfSupervisedConfig(model=model, width=width, epochs=epochs, **settings)
    yield EncoderStep(name=name, network=network, dataset=dataset, config=config)
    prior = PriorSettings(source=PriorSource.MOMENTS, landmarks=landmarks)
    on_features: dict[str, Any] = {
        "model": ModelName.MLP,
        "epochs": 12,
        "batch_size": 256,
        "learning_rate": 1.0,  # features have a mean squared norm of 1 in all
        "weight_decay": 1e-4,
        "schedule": Schedule.COSINE,
        "dropout": 0.5,
    }
    trial = TrialStep(
        name=f"{name}-no-noise",
        row="no noise",
        network=f"MLP on {network}",
        dataset=dataset,
        config=AlibiConfig(noise=Noise.NONE, **on_features),
        encoder=name,
    )
    for epsilon in epsilons:
        yield replace(
            trial,
            name=f"{name}-moment-labels-e{epsilon:g}",
            row="moment labels",
            config=PriorLabelsConfig(epsilon=epsilon, prior=prior, **on_features),
            published=_published(dataset, epsilon, _WITH_SIMCLR),
            needs_seconds=_PRIOR_SECONDS,
        )
    yield trial


def _published(dataset: str, epsilon: float | None, known: dict[float, str]) -> str:
    return known.get(epsilon, "") if dataset == "cifar10" and epsilon is not None else ""
