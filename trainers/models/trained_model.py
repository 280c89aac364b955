"""A trained model by itself: raw rows in, predictions out, in two files and without any code.

`model.safetensors` holds arrays, `model.json` all else: architecture, preprocessing, classes,
price. Nothing in them is a pickle, and nothing of them is run when they are read; docs/models.md
describes the format.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as read_arrays
from safetensors.numpy import save as written_arrays

import labeldp
from labeldp.mechanisms import _validate
from labeldp.mechanisms.randomness import NoiseKind, is_private
from labeldp.trainers.data.columns import RowsRefused
from labeldp.trainers.data.files import (
    first_line,
    make_folder,
    open_regular,
    read_bytes,
    whole_file,
)
from labeldp.trainers.data.preprocessing import Preprocessing, SklearnStep
from labeldp.trainers.data.splits import NO_OUTSIDE_DATA, FeatureProvenance
from labeldp.trainers.data.stored import by_first_name
from labeldp.trainers.settings.trainer import EstimatorPredictor, OfAmounts, Predictor
from labeldp.trainers.settings.training import OwnModuleMissing

#: Of the files; counted up when an older version could not read them any more.
FORMAT = 1
DESCRIPTION = "model.json"
ARRAYS = "model.safetensors"
#: A description holds categories of text columns: a thousand of ten thousand characters each in
#: one. In memory each of its bytes takes up to 32.
_MOST_BYTES = 128_000_000
_MODEL = "model"
_PREPROCESSING = "preprocessing"


class ModelFileError(ValueError):
    """A model's files that can't be used; the message names them, the cause and the fix."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Origin of a model, and its price to the labels; all of it may be published.

    `epsilon` is that of all releases that its trial read, infinity for a baseline without noise;
    `fingerprint` that of the public data ("" if unknown), `trial` the hash of one in a sweep,
    `data_name` "own" for a user's rows, `provenance` that of features which an encoder made,
    `bounds` those of amounts. `class_type` is NumPy's name of the type of `classes`, which are
    texts if None. `stated_by` says who states `epsilon`, where no ledger of labeldp has it.
    """

    method: str
    epsilon: float
    delta: float
    num_classes: int
    classes: tuple[str, ...] | None
    seed: int
    noise: NoiseKind
    data_name: str = "own"
    fingerprint: str = ""
    trial: str = ""
    provenance: FeatureProvenance = NO_OUTSIDE_DATA
    bounds: tuple[float, float] | None = None
    class_type: str | None = None
    stated_by: str | None = None

    def __post_init__(self) -> None:
        _validate.number(epsilon=self.epsilon, delta=self.delta)
        _validate.whole(minimum=2, num_classes=self.num_classes)
        if self.classes is not None and len(self.classes) != self.num_classes:
            raise ValueError(f"there are {len(self.classes)} names for {self.num_classes} classes")

    def facts(self) -> dict[str, Any]:
        """Return them as they stand in `model.json`."""
        encoder = self.provenance.encoder
        plain = self.provenance == NO_OUTSIDE_DATA
        optional = {
            "features": None if plain else self.provenance.described(),
            "raw_inputs": f"embeddings by {encoder}" if encoder else None,
            "bounds": None if self.bounds is None else list(self.bounds),
            "class_type": self.class_type,
            "epsilon_stated_by": self.stated_by,
        }
        return {
            "method": self.method,
            "classes": None if self.classes is None else list(self.classes),
            "num_classes": self.num_classes,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "private": is_private(self.epsilon, self.noise),
            "noise": str(self.noise),
            "data": {"name": self.data_name, "fingerprint": self.fingerprint},
            "trial": self.trial,
            "seed": self.seed,
            **{name: value for name, value in optional.items() if value is not None},
        }

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> "Origin":
        """Return the origin of `facts`; `private` is worked out anew from the noise."""
        classes = facts["classes"]
        bounds = facts.get("bounds")
        return cls(
            classes=None if classes is None else tuple(map(str, classes)),
            data_name=facts["data"]["name"],
            fingerprint=facts["data"]["fingerprint"],
            provenance=FeatureProvenance.restored(facts.get("features", {})),
            **{name: facts[name] for name in ("method", "epsilon", "delta", "num_classes")},
            **{name: facts[name] for name in ("trial", "seed")},
            noise=NoiseKind.read(facts["noise"]),
            bounds=None if bounds is None else (float(bounds[0]), float(bounds[1])),
            class_type=facts.get("class_type"),
            stated_by=facts.get("epsilon_stated_by"),
        )

    def class_values(self) -> NDArray[Any]:
        """Return the classes [K], of the type that they had in the training."""
        if self.classes is None:
            return np.arange(self.num_classes)
        if self.class_type is None:
            return np.array(self.classes)
        kind = np.dtype(self.class_type).kind
        # A size of texts in a file would be believed, and be memory.
        if kind not in "biufM" and self.class_type != "S":
            raise ValueError(
                f"class_type is {self.class_type!r}; it must be of truth values, numbers or dates"
            )
        if kind == "b":
            return np.array([text == "True" for text in self.classes])
        return np.array(self.classes).astype(self.class_type)


def class_facts(classes: NDArray[Any]) -> dict[str, Any]:
    """Return classes [K] as `Origin` keeps them: texts, and the type that they are read back as."""
    texts = classes.astype(str) if classes.dtype.kind in "biufMS" else classes
    kind = classes.dtype.kind
    named = "S" if kind == "S" else classes.dtype.str if kind in "biufM" else None
    return {"classes": tuple(map(str, texts.tolist())), "class_type": named}


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedModel:
    """A predictor, the preprocessing of its rows, and the origin of both."""

    predictor: Predictor
    preprocessing: Preprocessing
    origin: Origin

    @property
    def facts(self) -> dict[str, Any]:
        """Facts in `model.json`: method, classes, epsilon, delta, private, data, ..."""
        return self.origin.facts()

    @property
    def classes(self) -> NDArray[Any]:
        """The classes of `predict` [K]: their values as in the training, or their numbers."""
        return self.origin.class_values()

    @property
    def models(self) -> list[tuple[str, float, float]]:
        """Name, weight and held-out log-likelihood of each model that it mixes."""
        return self.predictor.models

    def predict_proba(self, rows: object) -> NDArray[np.float32]:
        """Return probabilities of the classes [N, K].

        Rows are as the training had them before any preparation: a matrix, a DataFrame or mapping
        of columns, or images.
        """
        return self.predictor.predict(self._features(rows))

    def _features(self, rows: object) -> Any:
        try:
            # Estimators learn and predict where there is no torch.
            alone = isinstance(self.predictor, EstimatorPredictor | OfAmounts)
            features = self.preprocessing.rows(rows) if alone else self.preprocessing(rows)
        except RowsRefused as error:
            made_by = self.origin.provenance
            if not made_by.encoder:
                raise
            raise RowsRefused(
                f"{error}; this model takes embeddings of images and not images: make them by "
                f"`labeldp embed IMAGES --encoder {made_by.encoder} -o ROWS.npy`, with weights of "
                f"SHA-256 {made_by.weights[:16]}..."
            ) from error
        if not len(features):
            raise ValueError("rows are empty; give at least one to predict")
        return features

    def predict(self, rows: object) -> NDArray[Any]:
        """Return the likeliest class [N] of each row: its name, or its number if it has none.

        Of a model of amounts, or of a reward, return these.
        """
        if isinstance(self.predictor, OfAmounts):
            return self.predictor.amounts(self._features(rows))
        classes: NDArray[Any] = self.classes[self.predict_proba(rows).argmax(1)]
        return classes

    def after(self, transformers: object) -> "TrainedModel":
        """Return a model of rows that pass through scikit-learn's fitted transformers first."""
        if transformers is None:
            return self
        steps = (SklearnStep.of(transformers), *self.preprocessing.steps)
        return replace(self, preprocessing=Preprocessing(steps=steps))

    def files(self) -> dict[str, bytes]:
        """Return the content of the model's files by name; the description comes last."""
        parts = {_MODEL: self.predictor.arrays(), _PREPROCESSING: self.preprocessing.arrays()}
        arrays = {
            f"{part}.{name}": np.array(value, order="C")
            for part, learned in parts.items()
            for name, value in learned.items()
        }
        # The digest ties the two files: a description of another model would state another price.
        packed = written_arrays(arrays)
        described = {
            "format": FORMAT,
            "labeldp": labeldp.__version__,
            "architecture": self.predictor.described(),
            "preprocessing": self.preprocessing.described(),
            **self.facts,
            "arrays": {"file": ARRAYS, "sha256": hashlib.sha256(packed).hexdigest()},
        }
        # Python's own name of infinity is not JSON; every reader takes 1e999 for it. In a text this
        # would have its quotation marks escaped.
        text = json.dumps(described, indent=1).replace('"epsilon": Infinity', '"epsilon": 1e999')
        return {ARRAYS: packed, DESCRIPTION: f"{text}\n".encode()}

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model's two files, for their owner alone; the description last."""
        place = Path(folder)
        make_folder(place)
        for name, content in self.files().items():
            with whole_file(place / name) as file:
                file.write(content)


def load_model(folder: str | os.PathLike[str], *, allow_code: str | None = None) -> TrainedModel:
    """Return the model in `folder`, on the CPU; neither Ray nor MLflow is needed.

    `allow_code` is the module of a user's own network, which is imported then and not otherwise.
    """
    # They have kinds of their own, and load torch or scikit-learn.
    from labeldp.trainers.models import features, predictors, table_models, table_network

    del features, predictors, table_models, table_network

    place = Path(folder)
    description = place / DESCRIPTION
    facts = _description(description)
    # Before anything of the file is used.
    restored = [facts.get("architecture"), facts.get("preprocessing")]
    for module in _modules(restored) - {allow_code}:
        raise ModelFileError(
            f"{description} names the module {module!r} as its network, and loading it would run "
            f"that module's code; if you trust it, allow it by name: --allow-code {module}, or "
            f"load_model(folder, allow_code={module!r})"
        )
    path = place / ARRAYS
    try:
        with open_regular(path) as file:
            packed = file.read()
        if hashlib.sha256(packed).hexdigest() != facts["arrays"]["sha256"]:
            raise ModelFileError(
                f"{path} does not match {description.name} (its SHA-256 differs): the file is "
                "damaged or of another model; copy both files again"
            )
        # Copies: arrays in the bytes of a file are read-only, of which torch warns.
        arrays = {name: value.copy() for name, value in read_arrays(packed).items()}
        parts = by_first_name(arrays)
        return TrainedModel(
            predictor=Predictor.restored(facts["architecture"], parts[_MODEL]),
            preprocessing=Preprocessing.restored(facts["preprocessing"], parts[_PREPROCESSING]),
            origin=Origin.of_facts(facts),
        )
    except ModelFileError:
        raise
    except OwnModuleMissing as error:
        raise ModelFileError(
            f"{description} was trained with a user's own network, whose module is needed to read "
            f"it: {error}"
        ) from error
    except (
        OSError,
        AttributeError,
        LookupError,
        MemoryError,
        RuntimeError,
        SafetensorError,
        TypeError,
        ValueError,
    ) as error:
        raise ModelFileError(
            f"{place} holds no complete model ({type(error).__name__}: {first_line(error)}); copy "
            f"both files again, or use labeldp {facts.get('labeldp')}, which wrote it"
        ) from error


def _modules(described: object) -> set[str]:
    """Return the modules of networks of users' own in what is restored."""
    if isinstance(described, Mapping):
        model = described.get("model")
        own = {model.partition(":")[0]} if isinstance(model, str) and ":" in model else set()
        return own.union(*map(_modules, described.values()))
    return set().union(*map(_modules, described)) if isinstance(described, list) else set()


def _description(path: Path) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = json.loads(read_bytes(path, most_bytes=_MOST_BYTES))
    except FileNotFoundError as error:
        raise ModelFileError(
            f"{path} is not there; name the folder of a model, such as RESULTS/models/TRIAL"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} can't be read ({error}); copy the file again") from error
    version = facts.get("format") if isinstance(facts, dict) else None
    if version != FORMAT:
        raise ModelFileError(
            f"{path} is of format {version!r}, and this labeldp ({labeldp.__version__}) reads "
            f"format {FORMAT}; use the version that wrote it"
        )
    return facts
