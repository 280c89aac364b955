"""data: what loading gives, that labels stay apart, limits, refusals, the real sets."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from labeldp.trainers.data.labelled_data import (
    FeatureKind,
    LabelledData,
    PublicData,
    load,
    set_aside,
)
from labeldp.trainers.data.splits import digest_of_images
from tests.real_data import real_data_root
from tests.trainers.small_data import small_images, small_table


def public(**changes: object) -> PublicData:
    parts: dict[str, object] = {
        "name": "mine",
        "num_classes": 3,
        "train_features": torch.zeros(4, 2),
        "test_features": torch.ones(3, 2),
        "test_labels": np.array([0, 1, 2]),
    }
    return PublicData(**{**parts, **changes})  # type: ignore[arg-type]


def test_a_split_is_pinned_for_good() -> None:
    # A new version of NumPy or of this code must not move a row from training to testing.
    assert load("digits").public.test_labels[:12].tolist() == [2, 3, 1, 3, 5, 0, 1, 5, 0, 8, 0, 3]
    assert load("digits", limit=8).train_labels.tolist() == [8, 2, 7, 9, 9, 9, 8, 8]


def test_a_smaller_limit_takes_some_of_the_examples_of_a_larger_one() -> None:
    whole, large, small = load("digits"), load("digits", limit=500), load("digits", limit=50)
    assert torch.equal(large.public.train_features[:50], small.public.train_features)
    np.testing.assert_array_equal(large.train_labels[:50], small.train_labels)
    assert torch.equal(whole.public.test_features, small.public.test_features)
    assert len(np.unique(small.train_labels)) == 10
    assert small.public.fingerprint != large.public.fingerprint
    assert _training(small) <= _training(whole)
    beyond = load("digits", limit=10**9)
    assert torch.equal(beyond.public.train_features, whole.public.train_features)


def _training(data: LabelledData) -> set[tuple[bytes, int]]:
    pairs = zip(data.public.train_features.numpy(), data.train_labels, strict=True)
    return {(row.tobytes(), int(label)) for row, label in pairs}


def test_pixel_statistics_are_those_of_the_training_images() -> None:
    data = load("digits").public
    found, pixels = data.pixels, data.train_features.double() / 255
    assert found is not None
    assert found.mean == pytest.approx([float(pixels.mean())], rel=1e-12)
    assert found.std == pytest.approx([float(pixels.std(correction=0))], rel=1e-12)
    flat = torch.full((2, 1, 4, 4), 7, dtype=torch.uint8)
    constant = public(train_features=flat, test_features=flat, test_labels=[0, 1])
    assert constant.pixels is not None and constant.pixels.std == (1.0,)
    assert constant.kind is FeatureKind.IMAGE
    assert public().kind is FeatureKind.TABULAR
    assert public().pixels is None


def test_the_fingerprint_is_of_everything_public() -> None:
    base = public().fingerprint
    assert len(base) == 64
    assert public(name="other").fingerprint == base
    assert public(num_classes=4).fingerprint != base
    assert public(train_features=torch.zeros(5, 2)).fingerprint != base
    assert public(test_labels=np.array([0, 1, 1])).fingerprint != base
    changed = torch.zeros(4, 2)
    changed[3, 1] = 1e-30
    assert public(train_features=changed).fingerprint != base


def a_hundred() -> LabelledData:
    data, labels = small_table(examples=100)
    return LabelledData(public=data, train_labels=labels)


def test_an_encoder_of_all_images_goes_with_a_part_of_them() -> None:
    data, labels = small_images(examples=50)
    whole = digest_of_images(data.train_features.numpy())
    part = set_aside(LabelledData(public=data, train_labels=labels), share=0.2).public
    own = digest_of_images(part.train_features.numpy())
    assert part.digests_of_images == (own, whole) and data.digests_of_images == (whole,)
    assert whole not in part.only(np.arange(10)).digests_of_images


INFINITE = torch.full((3, 2), torch.inf)


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda: public(test_labels=np.array([0, 1, 3])), r"test_labels\[2\] is 3; with 3 classes"),
        (lambda: public(train_features=torch.zeros(4, 2).double()), "tables float32"),
        (lambda: public(train_features=torch.zeros(4, 3, 8, 8)), "images must be uint8"),
        (lambda: public(train_features=np.zeros((4, 2))), "must be a torch tensor"),
        (lambda: public(test_features=INFINITE), "test_features row 0, column 0 is inf"),
        (lambda: public(class_names=("a", "b")), "2 class_names for 3 classes"),
        (lambda: load("???"), "known are digits, mnist"),
        (lambda: load("digits", limit=0), "limit is 0"),
        (lambda: load("own"), r"data\.path=FILE"),
        (lambda: set_aside(a_hundred(), share=0.0), "strictly between 0 and 1"),
        (lambda: set_aside(a_hundred(), share=1.0), "strictly"),
        (lambda: set_aside(a_hundred(), share=0.01), "that is 1; at least two"),
    ],
)
def test_what_does_not_fit_is_refused(refused: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        refused()


@pytest.mark.parametrize(
    ("name", "train", "test", "mean", "std"),
    [
        # The means and deviations that are in use everywhere; the photographs here are re-encoded.
        ("mnist", (60_000, 1, 28, 28), 10_000, [0.1307], [0.3081]),
        ("fashion_mnist", (60_000, 1, 28, 28), 10_000, [0.2860], [0.3530]),
        ("cifar10", (50_000, 3, 32, 32), 10_000, [0.491, 0.482, 0.447], [0.247, 0.243, 0.262]),
        ("cifar100", (50_000, 3, 32, 32), 10_000, [0.507, 0.487, 0.441], [0.267, 0.256, 0.276]),
        ("adult", (32_561, 108), 16_281, [], []),
    ],
)
def test_real_sets(name: str, train: tuple[int, ...], test: int, mean: Any, std: Any) -> None:
    root = real_data_root(name)
    data = load(name, root=root)
    assert tuple(data.public.train_features.shape) == train
    assert tuple(data.public.test_features.shape) == (test, *train[1:])
    assert len(data.train_labels) == train[0]
    pixels = data.public.pixels
    if pixels is not None:
        assert pixels.mean == pytest.approx(mean, abs=1e-3)
        assert pixels.std == pytest.approx(std, abs=1e-3)
    assert (pixels is None) is (not mean)
    counts = np.bincount(data.train_labels, minlength=data.public.num_classes)
    if name == "adult":
        assert counts.tolist() == [24_720, 7_841]  # as adult.names has it
    elif name != "mnist":
        assert (counts == train[0] // data.public.num_classes).all()
    some = load(name, root=root, limit=1000)
    # Also where the file is sorted by class, as one of them is.
    assert len(np.unique(some.train_labels)) == data.public.num_classes


def test_a_view_of_a_table_with_labels_in_it_takes_no_label_along() -> None:
    table = torch.arange(60, dtype=torch.float32).view(12, 5)
    table[:, 4] = 1234567.0  # where the labels are
    parts = {"train_features": table[:8, :4], "test_features": table[8:, :4]}
    data = public(**parts, test_labels=np.array([0, 1, 0, 1]))
    assert (data.train_features == table[:8, :4]).all()
    assert np.float32(1234567.0).tobytes() in pickle.dumps(table[:8, :4])
    assert np.float32(1234567.0).tobytes() not in pickle.dumps(data)


# held_out: labels that nobody trains on, and trainers without a public test split.


def test_held_out_examples_are_taken_out_of_the_training_and_nothing_is_lost() -> None:
    whole = a_hundred()
    data = whole.public
    labels = whole.train_labels
    parted = set_aside(whole, share=0.2, seed=3)
    held = parted.public.held_out_features
    assert held is not None and parted.held_out_labels is not None
    assert (len(held), len(parted.public.train_features)) == (20, 80)
    rows = data.train_features.tolist()
    by_row = {tuple(row): label for row, label in zip(rows, labels, strict=True)}
    for features, kept in (
        (held, parted.held_out_labels),
        (parted.public.train_features, parted.train_labels),
    ):
        assert [by_row.pop(tuple(row)) for row in features.tolist()] == kept.tolist()
    assert not by_row


def test_the_held_out_rows_do_not_depend_on_labels() -> None:
    whole = a_hundred()
    first = set_aside(whole, share=0.1)
    other = set_aside(replace(whole, train_labels=(whole.train_labels + 1) % 3), share=0.1)
    assert first.public.fingerprint == other.public.fingerprint
    assert first.public.fingerprint != whole.public.fingerprint
    again = set_aside(whole, share=0.1, seed=1)
    assert again.public.fingerprint != first.public.fingerprint
