"""audit_settings: settings that would prove nothing are refused."""

from typing import Any

import pytest

from labeldp.platform.audit_settings import AuditSettings


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"canaries": 4}, ["canaries is 4", "takes 5", "to prove 3"]),
        ({"coin_canaries": 6}, ["coin_canaries is 6", "takes 7", "or 0"]),
        ({"coin_canaries": -1}, ["coin_canaries is -1"]),
        ({"canary_block": -1}, ["canary_block is -1"]),
    ],
)
def test_settings_that_prove_nothing_are_refused(
    settings: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(ValueError) as caught:
        AuditSettings(**settings)
    for word in words:
        assert word in str(caught.value)
