"""One fit of a method's own model in this process, by torch."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch

from labeldp.platform.settings.configuration import TrialConfig
from labeldp.platform.vault.shared_vault import FitLabels
from labeldp.trainers.data.columns import TextColumns
from labeldp.trainers.data.labelled_data import FeatureKind, PublicData, public_part
from labeldp.trainers.data.own_data import own_rows
from labeldp.trainers.data.preprocessing import Preprocessing
from labeldp.trainers.methods.priors import prior_features
from labeldp.trainers.models.features import described_by_features
from labeldp.trainers.models.table_models import Family
from labeldp.trainers.models.table_network import fit_network
from labeldp.trainers.performance import threads
from labeldp.trainers.settings.trainer import Predictor

#: Images at least so high and wide are described by patches; smaller ones are taken as they are.
SMALLEST_PATCHED = 16
#: Tables up to this width are trained in one thread: a step takes less time than two threads need
#: to meet. 5,000 rows of 15 columns take 0.8 seconds of processor time in one, and 20 in two.
_NARROW = 256


def public_rows(
    rows: object,
    *,
    num_classes: int,
    keep: Sequence[str] = (),
    text: TextColumns = TextColumns.TFIDF,
) -> PublicData:
    """Return X as public data without a test split; its preprocessing stays with the model.

    `rows`: numbers [N, D], a DataFrame, or images of bytes; `keep`: columns that are features
    although they look like identifiers; `text`: what becomes of columns of sentences.
    """
    data = public_part("own", own_rows(rows, num_classes=num_classes, keep=keep, text=text))
    large = data.kind is FeatureKind.IMAGE and (
        min(data.train_features.shape[2:]) >= SMALLEST_PATCHED
    )
    return described_by_features(data) if large else data


def in_stack(config: TrialConfig, *, epochs: int | None) -> Callable[..., Family]:
    """Return what fits the network of a method as one of the models of a stack.

    `epochs` as in `fit`.
    """
    return partial(
        fit_network,
        config=config.trainer.learner(epochs=epochs or config.trainer.epochs),
        performance=config.performance,
        seed=config.seed,
    )


def fit(
    config: TrialConfig,
    *,
    data: PublicData,
    labels: FitLabels,
    tell: Callable[[str], None],
    epochs: int | None = None,
) -> tuple[Predictor, Preprocessing, Mapping[str, float]]:
    """Return a trained model, the preparation of its rows, and figures for the labels' owner.

    `epochs` are those of a rehearsal, which ends early; None for all.

    Raises:
        TrainingDiverged: The loss is not finite any more.
    """
    if data.kind is FeatureKind.TABULAR:  # in units in which a network learns
        data = described_by_features(data)
    settings = config.trainer
    settings.check_data(data)
    if settings.prior is not None:
        settings.prior.check_size(len(data.train_features))
        prior_features(settings.prior, data)
    narrow = data.train_features.ndim == 2 and data.train_features.shape[1] <= _NARROW
    with threads(1 if narrow else None):
        if settings.ensemble is not None:
            labels.teach(settings.ensemble, data=data, performance=config.performance, tell=tell)
        trainer = settings.start(
            data=data, labels=labels, seed=config.seed, performance=config.performance
        )
        for epoch in range(epochs or settings.epochs):
            trainer.epoch()
            tell(f"epoch {epoch + 1} of {settings.epochs}")
        predictor = trainer.predictor()
        if predictor is None:
            raise ValueError(
                f"method {config.method!r} keeps no model; take another one, or give its trainer "
                "a predictor"
            )
        rows = data.train_features
        figures = labels.figures(
            lambda places: predictor.predict(rows[torch.from_numpy(places)]), delta=settings.delta
        )
        return predictor, data.preprocessing, figures
