"""Settings of homes of labels that tests start in their own process."""

from pathlib import Path
from typing import Any

from labeldp.platform.settings.configuration import AuditSettings

DRIVER = b"the driver's token"


def home_settings(folder: Path | None, **changes: Any) -> dict[str, Any]:
    """Return all that a home takes besides its labels; without a folder it keeps nothing."""
    if folder is not None:
        folder.mkdir(exist_ok=True)
    return {
        "audit": AuditSettings(canaries=50, coin_canaries=0),
        "coin_seed": None,
        "store": None if folder is None else folder / "vault.db",
        "votes": None if folder is None else folder / "votes",
        "fingerprint": "",
        "budget": None,
        "authority": DRIVER,
        **changes,
    }
