"""The official program's sensitivities, and every vote that a small ensemble can cast."""

import itertools
import json
from functools import cache
from typing import Any

import numpy as np

from tests.shared_material import shared_path


@cache
def golden() -> tuple[dict[str, list[dict[str, Any]]], dict[str, np.ndarray[Any, Any]]]:
    values = json.loads(shared_path("oracle", "pate", "smooth_sensitivity.json").read_text())
    with np.load(shared_path("oracle", "pate", "local_sensitivity_arrays.npz")) as arrays:
        return values, dict(arrays)


def all_votes(num_teachers: int, num_classes: int) -> np.ndarray[Any, Any]:
    counts = itertools.product(range(num_teachers + 1), repeat=num_classes)
    return np.array([row for row in counts if sum(row) == num_teachers])


def distances_between(votes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    distances: np.ndarray[Any, Any] = np.abs(votes[:, None] - votes).sum(axis=2) // 2
    return distances
