"""LP-1ST and LP-2ST on a million ratings of MovieLens, as five classes, with the error in stars.

Ghazi et al. 2021, Table 3, RMSE on the test ratings:

| | epsilon 1 | 2 | 3 | 4 | 8 | no privacy |
|---|---|---|---|---|---|---|
| LP-1ST | 1.122 | .981 | .902 | .877 | .867 | .868 |
| LP-2ST | 1.034 | .928 | .891 | .874 | .865 | |

As the paper (two-branch neural collaborative filtering, a random split of 80 to 20), and beside its
loss one that accounts for the noise. `rmse_constant` is of the best constant. Not run on the real
ratings yet. `labeldp data list` names their source: the license forbids passing them on.

Hardware: one core; a trial takes about ten minutes.
"""

from collections.abc import Mapping
from typing import Any

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.sweep import Grid, Sweep
from labeldp.platform.studies.presets import audited, repeated_lines, smoke_of_stages
from labeldp.trainers.methods.settings import RecommenderConfig, RobustLoss

AS_PUBLISHED = {"trainer.loss": RobustLoss.CROSS_ENTROPY}
LINES: Mapping[str, Mapping[str, Any]] = {
    "LP-1ST": {"trainer.stages": 1, **AS_PUBLISHED},
    "LP-2ST": {"trainer.stages": 2, **AS_PUBLISHED},
    "LP-1ST, forward loss": {"trainer.stages": 1},
    "LP-2ST, forward loss": {"trainer.stages": 2},
}

SWEEP = Sweep(
    name="lp_mst_movielens",
    base=audited("movielens_1m", RecommenderConfig(epochs=20, batch_size=128)),
    variants=repeated_lines(LINES),
    space={"trainer.epsilon": Grid(1.0, 2.0, 3.0, 4.0, 8.0)},
    smoke=smoke_of_stages(limit=20_000),
)

if __name__ == "__main__":
    main(SWEEP)
