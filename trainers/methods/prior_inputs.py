"""What priors are learned along, before any label is asked for: features, groups, directions.

All of it follows from public features, takes seconds to minutes, and is the same for every epsilon
and every repetition. A process remembers the last of each; groups and directions are also kept in
files beside the results (`made_once`), so that one worker of a sweep computes what all of them
read, those of a resumed sweep included. Features are kept there too (`features`).
"""

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.trainers.models.made_once import Place, made_once
from labeldp.trainers.settings.feature_set import FeatureSet

if TYPE_CHECKING:  # torch, which settings and prices have no use for
    from torch import Tensor

    from labeldp.trainers.data.labelled_data import PublicData
    from labeldp.trainers.methods.kernel_moments import Directions

#: Counted up when the same settings give other groups, so that stale files are not read.
_CLUSTERS_VERSION = 1


@dataclass(frozen=True)
class Rows:
    """Features that are told apart by what is in them, or in the images they are of.

    Attributes:
        fingerprint: Of their content.
        features: One row for each training example [N, ...].
        folder: Where what is computed of them is kept; None for nowhere.
    """

    fingerprint: str
    features: "Tensor" = field(compare=False, repr=False)
    folder: Path | None = None


@dataclass(frozen=True)
class PriorImages:
    """Images that are told apart likewise."""

    fingerprint: str
    data: "PublicData" = field(compare=False, repr=False)


@lru_cache(maxsize=1)
def remembered_features(images: PriorImages, which: FeatureSet) -> Rows:
    """Features of images, once for all trials that a process runs: minutes on 60,000 of them.

    On one thread, as `kernel_directions`: other last digits would be another release.
    """
    from labeldp.trainers.methods.kernel_moments import one_thread
    from labeldp.trainers.models.features import image_features, label_free_features

    data = images.data
    with one_thread():
        found = label_free_features(data, image_features(which), folder=data.features_folder)
    return Rows(f"{images.fingerprint} {which}", found.train, data.features_folder)


@lru_cache(maxsize=2)
def remembered_clusters(rows: Rows, *, clusters: int, seed: int) -> NDArray[np.int64]:
    """`clusters_of`, once for all trials of a sweep: half a minute on 60,000 rows."""
    place = Place(
        folder=rows.folder,
        name="clusters",
        key={
            "version": _CLUSTERS_VERSION,
            "features": rows.fingerprint,
            "clusters": clusters,
            "seed": seed,
        },
    )
    (groups,) = made_once(
        lambda: (clusters_of(rows.features, clusters=clusters, seed=seed),), place=place
    )
    return groups


@lru_cache(maxsize=1)
def remembered_directions(rows: Rows, *, landmarks: int, seed: int) -> "Directions":
    """`kernel_directions`, likewise: the same for every epsilon, and up to a minute's work."""
    from labeldp.trainers.methods.kernel_moments import (
        DIRECTIONS_VERSION,
        Directions,
        kernel_directions,
    )

    def found() -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        directions = kernel_directions(rows.features, landmarks=landmarks, seed=seed)
        return directions.values, directions.strengths

    place = Place(
        folder=rows.folder,
        name="directions",
        key={
            "version": DIRECTIONS_VERSION,
            "features": rows.fingerprint,
            "landmarks": landmarks,
            "seed": seed,
        },
    )
    values, strengths = made_once(found, place=place)
    return Directions(values=values, strengths=strengths)


def clusters_of(features: "Tensor", *, clusters: int, seed: int) -> NDArray[np.int64]:
    """Group examples by k-means on their features; labels have no part in it.

    Args:
        features: [N, ...], made without labels.
        clusters: How many groups.
        seed: Of k-means; public.

    Returns:
        The group of every example [N], numbered from 0 without gaps.

    Raises:
        ValueError: More clusters than examples.
    """
    _validate.whole(minimum=1, clusters=clusters)
    _validate.whole(seed=seed)
    check_count(clusters, examples=len(features))
    rows = features.flatten(1).float().cpu().numpy()
    from sklearn.cluster import MiniBatchKMeans  # a second, which most trials have no use for

    means = MiniBatchKMeans(
        clusters, batch_size=max(4096, 2 * clusters), max_iter=20, n_init=1, random_state=seed
    )
    # Clusters may stay empty; numbers without gaps keep the histograms short.
    _, groups = np.unique(means.fit(rows).predict(rows), return_inverse=True)
    return groups.astype(np.int64)


def check_count(clusters: int, *, examples: int) -> None:
    """Refuse more clusters than examples.

    Raises:
        ValueError: There are.
    """
    if clusters > examples:
        raise ValueError(
            f"clusters is {clusters}, but there are {examples} examples; take at most one "
            "cluster per example, and far fewer for counts that noise does not drown"
        )
