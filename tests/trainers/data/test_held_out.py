"""held_out: labels that nobody trains on, and trainers without a public test split."""

import pytest

from labeldp.trainers.data.labelled_data import LabelledData, set_aside
from tests.trainers.small_data import small_table


def test_held_out_examples_are_taken_out_of_the_training_and_nothing_is_lost() -> None:
    data, labels = small_table(examples=100)
    whole = LabelledData(public=data, train_labels=labels)
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
    data, labels = small_table(examples=100)
    first = set_aside(LabelledData(public=data, train_labels=labels), share=0.1)
    other = set_aside(LabelledData(public=data, train_labels=(labels + 1) % 3), share=0.1)
    assert first.public.fingerprint == other.public.fingerprint
    assert first.public.fingerprint != data.fingerprint
    again = set_aside(LabelledData(public=data, train_labels=labels), share=0.1, seed=1)
    assert again.public.fingerprint != first.public.fingerprint


@pytest.mark.parametrize(
    ("share", "message"),
    [(0.0, "strictly between 0 and 1"), (1.0, "strictly"), (0.01, "that is 1; at least two")],
)
def test_shares_that_leave_too_few_are_refused(share: float, message: str) -> None:
    data, labels = small_table(examples=100)
    with pytest.raises(ValueError, match=message):
        set_aside(LabelledData(public=data, train_labels=labels), share=share)
