"""Which canaries are planted among labels: by the store they are kept in, or by a public seed.

A sweep's home and a fit in Python ask here alike, so that the same store has the same canaries
again whoever opens it.
"""

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.release_store import ReleaseStore
from labeldp.platform.sweep.audit_settings import AuditSettings
from labeldp.platform.vault.audits import PlantedCanaries


def canaries_of(
    store: ReleaseStore,
    labels: NDArray[np.int64],
    *,
    num_classes: int,
    settings: AuditSettings,
    coin_seed: int | None,
) -> PlantedCanaries:
    """Return the canaries of a store's labels.

    Args:
        store: Where releases of the labels are kept.
        labels: True ones to train on [N].
        num_classes: K.
        settings: How many of which kind.
        coin_seed: Of the coins, for experiments that repeat; None where they are a secret of the
            store.

    Raises:
        ValueError: More canaries than labels.
    """
    # Whoever opens the store again sees the same coins, and nobody else can work them out.
    secret = store.salt() if coin_seed is None else b"coin seed %d" % coin_seed
    return PlantedCanaries.draw(labels, num_classes=num_classes, settings=settings, secret=secret)
