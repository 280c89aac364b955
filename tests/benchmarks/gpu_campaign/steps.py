"""The steps, in the order of their worth: what an accelerator's first minutes should go to.

First what takes seconds and says whether all is well, then what our own claims rest on, then the
encoder that learns without labels, then CIFAR-100, which confirms what CIFAR-10 chose, then the
papers' rows, whose last take days.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from labeldp.trainers.models.recipe import LABEL_SMOOTHING, fast_training
from labeldp.trainers.models.schedules import Schedule
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
from tests.benchmarks.gpu_campaign.encoder_step import EncoderStep
from tests.benchmarks.gpu_campaign.features_step import FeaturesStep
from tests.benchmarks.gpu_campaign.paper_rows import (
    alibi_steps,
    lp_2st_steps,
    lp_steps_cifar100,
    pate_steps,
)
from tests.benchmarks.gpu_campaign.speed_step import SpeedStep
from tests.benchmarks.gpu_campaign.step import Step
from tests.benchmarks.gpu_campaign.trial_step import TrialStep

#: Half and full width of the fast network.
WIDTHS = (32, 64)
#: Where sums of labels tell more, and where single labels do.
_LEAST, _FEW, _MANY = (0.1, 0.2, 0.5, 1.0, 2.0), (0.5, 1.0), (1.0, 2.0, 4.0)
#: Of moment labels on an encoder's features; the published ones with SimCLR's are among them.
_ON_FEATURES = (0.05, 0.1, 0.18, 0.5, 1.0, 2.0, 4.0, 8.0)
#: For a trial with a moment prior: directions are found by one thread of the processor.
_PRIOR_SECONDS = 90.0
_MOMENTS = PriorSettings(source=PriorSource.MOMENTS, features=FeatureSet.RANDOM_PATCHES)
#: Best published without outside data, by epsilon: LP-2ST, and LabelDP-Pro with SimCLR's features.
_LP_2ST = {1.0: "63.67", 2.0: "86.05", 4.0: "93.4"}
_WITH_SIMCLR = {0.05: "85.5", 0.18: "86.6", 0.5: "87.4"}


def campaign() -> tuple[Step, ...]:
    """Return all steps."""
    return (
        *fast_steps("cifar10", WIDTHS, priors=False),
        SpeedStep(),
        *encoder_steps("cifar10", ModelName.RESNET18, None, epochs=200),
        features_step("cifar10"),
        *fast_steps("cifar10", WIDTHS, priors=True),
        *encoder_steps("cifar10", ModelName.FAST_CNN, 64, epochs=200),
        *fast_steps("cifar100", WIDTHS, priors=False),
        *encoder_steps("cifar100", ModelName.RESNET18, None, epochs=200),
        features_step("cifar100"),
        *fast_steps("cifar100", WIDTHS, priors=True),
        *lp_2st_steps(),
        *alibi_steps("cifar10", 4),
        *lp_steps_cifar100(),
        *alibi_steps("cifar100", 8),
        *pate_steps("cifar10"),
        *pate_steps("cifar100"),
    )


def features_step(dataset: str) -> FeaturesStep:
    """Return the features that the fast network's moment priors are learned of."""
    return FeaturesStep(name=_features_name(dataset), dataset=dataset, prior=_MOMENTS)


def fast_steps(
    dataset: str, widths: Sequence[int], *, priors: bool, epochs: int = 10
) -> Iterator[TrialStep]:
    """Yield trials of the fast network.

    Args:
        dataset: On which.
        widths: Of the network.
        priors: Whether those with moment priors, which need features first, or all others.
        epochs: Of each, and of each stage.
    """
    for width in widths:
        plain = fast_training(epochs=epochs, width=width)
        smooth = fast_training(epochs=epochs, width=width, label_smoothing=LABEL_SMOOTHING)
        lines: list[tuple[str, float | None, Any]]
        if priors:
            lines = [
                *(
                    ("moment labels in stages", epsilon, _staged(epsilon, plain))
                    for epsilon in _LEAST
                ),
                *(("moment labels", epsilon, _moment_labels(epsilon, plain)) for epsilon in _FEW),
                *(
                    ("ALIBI + moment prior", epsilon, _alibi_prior(epsilon, plain))
                    for epsilon in _MANY
                ),
            ]
        else:
            response = {**plain, "noise": Noise.RANDOMIZED_RESPONSE}
            one_label = "ALIBI, randomized response"
            two = fast_training(epochs=2 * epochs, width=width)
            lines = [
                ("no noise", None, AlibiConfig(noise=Noise.NONE, **smooth)),
                *(
                    (one_label, epsilon, AlibiConfig(epsilon=epsilon, **response))
                    for epsilon in _MANY
                ),
                *(("ALIBI", epsilon, AlibiConfig(epsilon=epsilon, **plain)) for epsilon in _MANY),
                *(("LP-2ST", epsilon, LpMstConfig(epsilon=epsilon, **two)) for epsilon in _MANY),
            ]
        for method, epsilon, config in lines:
            yield TrialStep(
                name=_named(dataset, f"fast-{width}", method, epsilon),
                row=method,
                network=f"fast network, width {width}",
                dataset=dataset,
                config=config,
                published=_published(dataset, epsilon, _LP_2ST),
                features=_features_name(dataset) if priors else None,
                needs_seconds=_PRIOR_SECONDS if priors else 30.0,
            )


def encoder_steps(
    dataset: str,
    model: ModelName,
    width: int | None,
    *,
    epochs: int,
    epsilons: Sequence[float] = _ON_FEATURES,
    **settings: Any,
) -> Iterator[EncoderStep | TrialStep]:
    """Yield an encoder that is trained without labels, and moment labels on its features.

    Args:
        dataset: On whose images.
        model: Which network.
        width: Its width; None for the network's own.
        epochs: Of the encoder.
        epsilons: Of the trials on its features.
        **settings: Further ones of the encoder, and `landmarks` of the trials.
    """
    landmarks = settings.pop("landmarks", 1500)
    name = f"{dataset}-self-supervised-{model.value.replace('_', '-')}"
    network = f"{model.value} self-supervised, {epochs} epochs"
    config = SelfSupervisedConfig(model=model, width=width, epochs=epochs, **settings)
    yield EncoderStep(name=name, network=network, dataset=dataset, config=config)
    prior = PriorSettings(source=PriorSource.MOMENTS, landmarks=landmarks)
    on_features: dict[str, Any] = {
        "model": ModelName.MLP,
        "epochs": 12,
        "batch_size": 256,
        "learning_rate": 1.0,  # features have a mean squared norm of 1, and are small each
        "weight_decay": 1e-4,
        "schedule": Schedule.COSINE,
        "dropout": 0.5,
    }
    for epsilon in epsilons:
        yield TrialStep(
            name=f"{name}-moment-labels-e{epsilon:g}",
            row="moment labels",
            network=f"MLP on {network}",
            dataset=dataset,
            config=PriorLabelsConfig(epsilon=epsilon, prior=prior, **on_features),
            encoder=name,
            published=_published(dataset, epsilon, _WITH_SIMCLR),
            needs_seconds=_PRIOR_SECONDS,
        )
    yield TrialStep(
        name=f"{name}-no-noise",
        row="no noise",
        network=f"MLP on {network}",
        dataset=dataset,
        config=AlibiConfig(noise=Noise.NONE, **on_features),
        encoder=name,
    )


def _staged(epsilon: float, network: dict[str, Any]) -> StagedMomentsConfig:
    """Four epochs in each stage, as `--preset network` of the comparisons has it."""
    short = {**network, "epochs": 8, "earlier_epochs": 4}
    return StagedMomentsConfig(epsilon=epsilon, prior=_MOMENTS, **short)


def _moment_labels(epsilon: float, network: dict[str, Any]) -> PriorLabelsConfig:
    return PriorLabelsConfig(epsilon=epsilon, prior=_MOMENTS, **network)


def _alibi_prior(epsilon: float, network: dict[str, Any]) -> AlibiPriorConfig:
    prior = PriorSettings(source=PriorSource.MOMENTS, features=FeatureSet.RANDOM_PATCHES, share=0.8)
    return AlibiPriorConfig(epsilon=epsilon, prior=prior, **network)


def _features_name(dataset: str) -> str:
    return f"{dataset}-random-patches"


def _named(dataset: str, network: str, method: str, epsilon: float | None) -> str:
    words = method.lower().replace(" + ", "-").replace(", ", "-").replace(" ", "-")
    return f"{dataset}-{network}-{words}" + ("" if epsilon is None else f"-e{epsilon:g}")


def _published(dataset: str, epsilon: float | None, known: dict[float, str]) -> str:
    return known.get(epsilon, "") if dataset == "cifar10" and epsilon is not None else ""
