"""What the sweeps of linear-probe teachers share: two ensembles, a grid of noises for each.

Teachers are trained once for each ensemble; every setting of sigma1, sigma2, tau and K reads their
votes. Papernot et al., "Scalable Private Learning with PATE", ICLR 2018, has 250 teachers.
"""

from collections.abc import Mapping
from typing import Any

from labeldp.platform.sweep.space import Axis, Grid
from labeldp.platform.sweep.sweep import Smoke, Variant
from labeldp.trainers.data.catalog import find
from labeldp.trainers.data.files import data_root

#: 12 settings of 250 teachers, 24 of 800.
VARIANTS = (
    Variant(
        name="T=250",
        changes={"trainer.ensemble.teachers": 250},
        space={
            "trainer.threshold": Grid(100.0, 150.0),
            "trainer.sigma1": Grid(75.0, 150.0),
            "trainer.sigma2": Grid(25.0, 50.0, 75.0),
        },
    ),
    Variant(
        name="T=800",
        changes={"trainer.ensemble.teachers": 800},
        space={
            "trainer.threshold": Grid(320.0, 400.0),
            "trainer.sigma1": Grid(400.0, 800.0),
            "trainer.sigma2": Grid(80.0, 120.0, 240.0),
            "trainer.answers": Grid(300, 500),
        },
    ),
)


def smoke(
    data: str,
    *,
    changes: Mapping[str, Any] | None = None,
    space: Mapping[str, Axis] | None = None,
) -> Smoke:
    """Return 2,000 images and 24 settings; scikit-learn's digits where the data set is not there.

    Args:
        data: The data set.
        changes: Beside those of the size.
        space: Beside the one number of answers.
    """
    return Smoke(
        changes={
            "data.name": data if find(data).available(data_root(None)) else "digits",
            "data.limit": 2000,
            "audit.canaries": 100,
            "trainer.ensemble.queries": 400,
            "trainer.answers": 100,
            **(changes or {}),
        },
        space={"trainer.answers": Grid(100), **(space or {})},
    )
