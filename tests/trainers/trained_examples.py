"""A model of each method, trained in seconds, with the raw rows that it was measured on."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labeldp.mechanisms.randomness import NoiseKind
from labeldp.trainers.base import ModelName
from labeldp.trainers.data.labelled_data import LabelledData, PublicData, labelled, load
from labeldp.trainers.data.preprocessing import Columns
from labeldp.trainers.data.splits import Splits
from labeldp.trainers.methods.settings import (
    AlibiConfig,
    BitFlipConfig,
    ConvexConfig,
    LpMstConfig,
    RecommenderConfig,
    TableStackConfig,
)
from labeldp.trainers.models.features import PatchFeatures, described_by_features
from labeldp.trainers.models.trained_model import Origin, TrainedModel
from labeldp.trainers.performance import Device, Performance, Precision
from labeldp.trainers.settings.trainer import Trainer
from tests.trainers.ratings import write_ratings
from tests.trainers.small_data import ON_CPU, SeededVault, small_images, trained
from tests.trainers.test_methods import METHODS, PATE

QUICK: dict[str, Any] = {"epochs": 2, "width": 8, "batch_size": 64}


@dataclass(frozen=True, kw_only=True)
class Example:
    """A trained model, raw rows by name (or one array, `rows`), and what it predicts [M, K]."""

    name: str
    model: TrainedModel
    rows: dict[str, NDArray[Any]]
    measured: NDArray[np.float32]


def examples(folder: Path) -> Iterator[Example]:
    """Train a model of each method and each kind of features."""
    image_data, image_rows = _images()
    table_data, table_rows = _table()
    for name, config in {
        "alibi": AlibiConfig(**QUICK, dropout=0.5),
        "alibi_prior": METHODS["ALIBI with a prior"].config,
        "bit_flip": BitFlipConfig(**QUICK, model=ModelName.SMALL_CNN),
        "consensus": METHODS["consensus"].config,
        "convex": ConvexConfig(),
        "lp_mst": LpMstConfig(**QUICK, model=ModelName.RESNET18),
        "prior_labels": METHODS["cluster labels"].config,
        "wide": AlibiConfig(
            epochs=1, width=1, model=ModelName.WIDE_RESNET28, batch_size=200, augment=True
        ),
        "pate forest": PATE["PATE, forest"].config,
        "pate fixmatch": PATE["PATE, fixmatch"].config,
    }.items():
        yield _example(name, config, image_data, image_rows)
    for name, config in {
        "convex of a table": ConvexConfig(),
        "table stack": TableStackConfig(),
        "pate probe": PATE["PATE, probe"].config,
        "pate network": PATE["PATE, network"].config,
    }.items():
        yield _example(name, config, table_data, table_rows)
    in_halves = Performance(device=Device.CPU, precision=Precision.BF16, channels_last=True)
    config = AlibiConfig(**QUICK, model=ModelName.FAST_CNN)
    yield _example("bf16", config, image_data, image_rows, performance=in_halves)
    encoder = PatchFeatures(patch=3, centers=9, cells=2, dimensions=20, sampled_patches=300)
    patches = replace(image_data, public=described_by_features(image_data.public, encoder))
    yield _example("patches", AlibiConfig(**QUICK), patches, image_rows)
    scaled = replace(table_data, public=described_by_features(table_data.public))
    yield _example("scaled", PATE["PATE, probe"].config, scaled, table_rows)
    write_ratings(folder)
    ratings = load("movielens_1m", root=folder)
    (places,) = ratings.public.preprocessing.steps
    known = places.arrays()
    raw = [column[:40] for column in np.split(known["known"], known["counts"][:1])]
    recommender = RecommenderConfig(epochs=2, width=4, batch_size=64)
    yield _example("recommender", recommender, ratings, {"rows": np.stack(raw, axis=1)})


def _example(
    name: str,
    config: Any,
    data: LabelledData,
    rows: dict[str, NDArray[Any]],
    performance: Performance = ON_CPU,
) -> Example:
    vault = SeededVault(data.train_labels, data.public.num_classes)
    trainer: Trainer = trained(config, (data.public, vault), seed=3, performance=performance)
    predictor = trainer.predictor()
    assert predictor is not None
    raw = rows["rows"] if "rows" in rows else pd.DataFrame(rows)
    features = data.public.preprocessing(raw)
    if name != "recommender":  # whose raw rows are made up here
        assert (features == data.public.test_features).all(), name
    return Example(
        name=name,
        model=TrainedModel(
            predictor=predictor,
            preprocessing=data.public.preprocessing,
            origin=an_origin(data.public, method=name),
        ),
        rows=rows,
        measured=trainer.predict(features),
    )


def an_origin(data: PublicData, **changes: Any) -> Origin:
    given: dict[str, Any] = {
        "method": "alibi",
        "epsilon": 1.0,
        "delta": 1e-5,
        "num_classes": data.num_classes,
        "classes": data.class_names,
        "data_name": data.name,
        "fingerprint": data.fingerprint,
        "trial": "0123456789abcdef",
        "seed": 3,
        "noise": NoiseKind.PLAIN,
    }
    return Origin(**{**given, **changes})


def _images() -> tuple[LabelledData, dict[str, NDArray[Any]]]:
    public, labels = small_images(examples=300, side=8)
    return LabelledData(public=public, train_labels=labels), {"rows": public.test_features.numpy()}


def _table() -> tuple[LabelledData, dict[str, NDArray[Any]]]:
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 400)
    columns = {
        "size": labels + random.normal(size=400),
        "weight": 100 * random.normal(size=400),
        "same": np.full(400, 7.0),
        "color": np.array(["red", "green", "blue"])[(labels + random.integers(0, 2, 400)) % 3],
    }
    train, test = (
        {name: x[rows] for name, x in columns.items()} for rows in (slice(300), slice(300, None))
    )
    fitted = Columns.fit(train)
    splits = Splits(
        train_features=fitted(train),
        train_labels=labels[:300],
        test_features=fitted(test),
        test_labels=labels[300:],
        num_classes=3,
        class_names=("small", "middling", "large"),
        preprocessing=fitted,
    )
    return labelled("table", splits), test


def small_model() -> tuple[TrainedModel, pd.DataFrame]:
    """Return an untrained model of a table with named classes, and raw rows for it."""
    data, rows = _table()
    vault = SeededVault(data.train_labels, 3)
    trainer = trained(AlibiConfig(**QUICK), (data.public, vault), epochs=0)
    model = TrainedModel(
        predictor=trainer.predictor(),
        preprocessing=data.public.preprocessing,
        origin=an_origin(data.public),
    )
    return model, pd.DataFrame(rows)
