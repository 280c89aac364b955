"""audit_settings: settings that would prove nothing are refused, and a share costs little."""

from typing import Any

import pytest

from labeldp.platform.sweep.configuration import AuditSettings


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"canaries": 4}, ["canaries is 4", "takes 5", "to prove 3"]),
        ({"coin_canaries": 6}, ["coin_canaries is 6", "takes 7", "or 0"]),
    ],
)
def test_settings_that_prove_nothing_are_refused(
    settings: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(ValueError) as caught:
        AuditSettings(**settings)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "classes", "canaries", "coins"),
    [
        (999, 10, 0, 0),
        (1_000, 10, 10, 0),
        (1_400, 2, 0, 14),  # of two classes the attack can tell nothing
        (1_437, 10, 14, 0),
        (2_800, 10, 14, 14),
        (60_000, 10, 300, 300),
        (1_000_000, 10, 1_000, 1_000),
    ],
)
def test_a_share_of_the_labels_is_spoiled_where_nobody_says(
    labels: int, classes: int, canaries: int, coins: int
) -> None:
    found = AuditSettings().settled(num_labels=labels, num_classes=classes)
    assert (found.canaries, found.coin_canaries) == (canaries, coins)
    assert found.spoiled <= labels / 100
    assert found.settled(num_labels=5, num_classes=2) == found, "settled once and for all"


def test_what_is_stated_stays_and_the_rest_is_what_the_share_leaves() -> None:
    for stated, settled in (
        ({"canaries": 1_000}, (1_000, 0)),
        ({"canaries": 60}, (60, 40)),
        ({"coin_canaries": 70}, (30, 70)),
        ({"canaries": 0}, (0, 0)),  # 0 switches audits off
        ({"canaries": 0, "coin_canaries": 50}, (0, 50)),
    ):
        found = AuditSettings(**stated).settled(num_labels=10_000, num_classes=10)
        assert (found.canaries, found.coin_canaries) == settled
