"""Settings of FixMatch that make no sense."""

from typing import Any

import pytest

from labeldp.trainers.settings.fixmatch import FixMatchConfig


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threshold": 1.0}, "threshold is 1.0"),
        ({"momentum": 1.0}, "momentum is 1.0"),
        ({"average_decay": -0.1}, "average_decay is -0.1"),
        ({"steps_per_epoch": 0}, "steps_per_epoch is 0"),
        ({"unlabeled_ratio": 0}, "unlabeled_ratio is 0"),
        ({"temperature": 0.0}, "temperature is 0.0"),
        ({"masked_share": 1.0}, "masked_share is 1.0"),
        ({"weak_branch": "both"}, "one of joint"),
        ({"box": -1}, "box is -1"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FixMatchConfig(**settings)
