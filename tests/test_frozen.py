"""Seeded sweeps give the numbers of `tests/frozen.json`: prices, ledger lines, every figure."""

import json

import pytest

from tests.frozen import TABLE, differences, table


@pytest.mark.ray_cluster
def test_every_number_is_the_frozen_one() -> None:
    different = differences(table(), json.loads(TABLE.read_text()))
    assert not different, "if they are meant to change: python -m tests.frozen --write"
