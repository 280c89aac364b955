"""posterior: golden values, the paper's formulas written out, and rules that must hold."""

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.posterior import PostProcessing, posterior, project_to_simplex, soft_labels
from tests.shared_material import shared_path

Rows = NDArray[np.float64]
Kind = Callable[[Any], Any]

OFFICIAL_NAMES = {
    PostProcessing.MAP_WITH_PRIOR: "mapwithprior",
    PostProcessing.MAP: "map",
    PostProcessing.SOFTMAX: "softmax",
    PostProcessing.MIN_MAX: "minmax",
    PostProcessing.MIN_PROJECTION: "minprojection",
    PostProcessing.ARG_MAX: "randomizedresponse",
}


def golden() -> Iterator[tuple[dict[str, Any], LaplaceNoise, dict[str, NDArray[Any]]]]:
    path = shared_path("oracle", "antipodes", "alibi_posterior_meta.json")
    cases: list[dict[str, Any]] = json.loads(path.read_text())
    assert len(cases) == 13
    with np.load(shared_path("oracle", "antipodes", "alibi_posterior.npz")) as arrays:
        for case in cases:
            mechanism = LaplaceNoise(epsilon=2 / case["laplace_b"], num_classes=case["classes"])
            start = f"{case['name']}__"
            own = {key.removeprefix(start): arrays[key] for key in arrays if key.startswith(start)}
            yield case, mechanism, own


def log(probabilities: Rows) -> Rows:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(probabilities))


def simplex_by_search(row: Rows) -> Rows:
    """Nearest point of the simplex: the best among the projections on all of its faces."""
    best, best_distance = row, np.inf
    for size in range(1, len(row) + 1):
        for face in itertools.combinations(range(len(row)), size):
            candidate = np.zeros(len(row))
            chosen = list(face)
            candidate[chosen] = row[chosen] + (1 - row[chosen].sum()) / size
            distance = float(((candidate - row) ** 2).sum())
            if candidate.min() >= 0 and distance < best_distance:
                best, best_distance = candidate, distance
    return best


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
@pytest.mark.parametrize("post_processing", list(PostProcessing))
def test_official_values(kind: Kind, post_processing: PostProcessing) -> None:
    for _, mechanism, arrays in golden():
        noisy = arrays["o_laplace"]
        labels = soft_labels(
            post_processing,
            noisy=kind(noisy),
            log_likelihood=kind(mechanism.log_likelihood(noisy)),
            log_prior=kind(log(arrays["prior"])),
        )
        expected = arrays[f"laplace__{OFFICIAL_NAMES[post_processing]}"]
        np.testing.assert_allclose(np.asarray(labels), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_official_single_precision(kind: Kind) -> None:
    for _, mechanism, arrays in golden():
        noisy = kind(arrays["o_laplace"].astype(np.float32))
        log_prior = kind(log(arrays["prior"]).astype(np.float32))
        soft = posterior(mechanism.log_likelihood(noisy), log_prior)
        assert soft.dtype == noisy.dtype
        for suffix in ("", "__fp32"):
            expected = arrays[f"laplace__mapwithprior{suffix}"]
            np.testing.assert_allclose(np.asarray(soft), expected, rtol=0, atol=5e-6)


def test_the_papers_equations() -> None:
    for case, laplace, arrays in golden():
        gaussian = GaussianNoise(noise_std=case["sigma"], num_classes=case["classes"])
        for mechanism, equation, noise in (
            (laplace, "eq3_laplace", "laplace"),
            (gaussian, "eq5_gaussian", "gaussian"),
        ):
            likelihood = mechanism.log_likelihood(arrays[f"o_{noise}"])
            found = posterior(likelihood, log(arrays["prior"]))
            expected = arrays[f"ref_paper_{equation}"]
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_a_class_ruled_out_stays_out(kind: Kind) -> None:
    certain = kind(np.array([[0.0, -np.inf, -np.inf], [0.0, 0.0, -np.inf]]))
    prior = kind(np.log([0.2, 0.2, 0.6]))
    expected = np.array([[1, 0, 0], [0.5, 0.5, 0]])
    np.testing.assert_allclose(np.asarray(posterior(certain, prior)), expected)
    unlikely = kind(np.array([[-2000.0, -2001.0]]))  # whose exponentials are all 0
    odds = np.asarray(posterior(unlikely, kind(np.zeros(2))))
    np.testing.assert_allclose(odds, [[1 / (1 + np.exp(-1)), 1 / (1 + np.exp(1))]])
    with pytest.raises(ValueError, match=r"row 1 has -inf.*contradict"):
        posterior(certain, kind(np.array([[0.0, 0, 0], [-np.inf, -np.inf, 0]])))
    with pytest.raises(ValueError, match="row 0 has nan"):
        posterior(kind(np.array([[np.nan, 0.0]])), kind(np.zeros(2)))
    with pytest.raises(ValueError, match="row 0 has inf"):
        posterior(kind(np.array([[np.inf, 0.0]])), kind(np.zeros(2)))


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_projection_is_the_nearest_point(kind: Kind) -> None:
    generator = np.random.default_rng(3)
    rows = np.concatenate([generator.normal(scale=s, size=(30, 5)) for s in (0.1, 1.0, 30.0)])
    rows = np.concatenate([rows, np.eye(5), np.full((1, 5), 7.0), np.zeros((1, 5))])
    expected = np.array([simplex_by_search(row) for row in rows])
    projected = np.asarray(project_to_simplex(kind(rows)))
    np.testing.assert_allclose(projected, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        np.asarray(project_to_simplex(kind(projected))), projected, atol=1e-15
    )
    far = project_to_simplex(kind(np.array([[1e6, 1e6 - 0.5, -1e6]], dtype=np.float32)))
    np.testing.assert_allclose(np.asarray(far), [[0.75, 0.25, 0.0]], atol=1e-6)


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
@pytest.mark.parametrize("post_processing", list(PostProcessing))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_rule_gives_probabilities_in_its_precision(
    kind: Kind, post_processing: PostProcessing, dtype: type[np.floating]
) -> None:
    generator = np.random.default_rng(1)
    noisy: NDArray[np.floating] = generator.normal(scale=3, size=(200, 7)).astype(dtype)
    noisy[0] = 0.0  # a row that says nothing
    noisy[1] = [0, 0, 0, -1, -2, -3, -4]  # its maximum is 0
    mechanism = GaussianNoise(noise_std=3.0, num_classes=7)
    given = kind(noisy)
    labels = soft_labels(
        post_processing,
        noisy=given,
        log_likelihood=mechanism.log_likelihood(given),
        log_prior=kind(np.log(np.full((200, 7), 1 / 7)).astype(dtype)),
    )
    assert type(labels) is type(given) and labels.dtype == given.dtype
    assert post_processing.uses_prior == (post_processing is PostProcessing.MAP_WITH_PRIOR)
    array = np.asarray(labels)
    assert (array >= 0).all()
    np.testing.assert_allclose(array.sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(np.asarray(given), noisy)  # the release itself is untouched
    if post_processing is PostProcessing.MIN_MAX:
        np.testing.assert_allclose(array[0], 1 / 7, rtol=1e-6)
        np.testing.assert_allclose(array[1], np.array([4, 4, 4, 3, 2, 1, 0]) / 18, rtol=1e-6)


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_bad_input_is_named(kind: Kind) -> None:
    with pytest.raises(ValueError, match=r"\(2, 3\) and log_prior \(2, 2\)"):
        posterior(kind(np.zeros((2, 3))), kind(np.zeros((2, 2))))
    for rule in (PostProcessing.MIN_PROJECTION, PostProcessing.MIN_MAX, PostProcessing.ARG_MAX):
        rows = kind(np.array([[0.0, 1.0], [np.nan, 0.0]]))
        with pytest.raises(ValueError, match="row 1 is"):
            soft_labels(rule, noisy=rows, log_likelihood=rows)
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        project_to_simplex(kind(np.zeros(3)))
    with pytest.raises(ValueError, match="log_prior is missing"):
        soft_labels(
            PostProcessing.MAP_WITH_PRIOR,
            noisy=kind(np.zeros((1, 2))),
            log_likelihood=kind(np.zeros((1, 2))),
        )
