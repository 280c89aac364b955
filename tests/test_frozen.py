"""Seeded sweeps give the numbers of `tests/frozen.json`: prices, ledger lines, every figure."""

import copy
import json

import pytest

from tests.frozen import TABLE, differences, table


@pytest.mark.ray_cluster
def test_every_number_is_the_frozen_one() -> None:
    different = differences(table(), json.loads(TABLE.read_text()))
    assert not different, "if they are meant to change: python -m tests.frozen --write"


def test_another_number_is_noticed_also_on_another_machine() -> None:
    frozen = json.loads(TABLE.read_text())
    assert differences(frozen, frozen) == []
    elsewhere = {**copy.deepcopy(frozen), "machine": {}}
    assert differences(elsewhere, frozen) == []
    line = elsewhere["numbers"]["alibi"]["ledger"][0]
    line["epsilon"] *= 1 + 1e-6
    assert differences(elsewhere, frozen) == [
        f"/alibi/ledger/0/epsilon: {frozen['numbers']['alibi']['ledger'][0]['epsilon']!r} became "
        f"{line['epsilon']!r}"
    ]
    trial = elsewhere["numbers"]["alibi"]["trials"][0]
    trial["accuracy"] += 1 / 359  # one image: rounding elsewhere, another number here
    assert len(differences(elsewhere, frozen)) == 1
    assert len(differences({**elsewhere, "machine": frozen["machine"]}, frozen)) == 2
    del elsewhere["numbers"]["pate"]["trials"][0]
    assert len(differences(elsewhere, frozen)) == 2
