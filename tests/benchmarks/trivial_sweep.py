"""Two hundred trials of a fraction of a second, to measure what a sweep adds to its trials."""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.sweep.configuration import AuditSettings, DataSettings, TrialConfig
from labeldp.platform.sweep.space import Grid
from labeldp.platform.sweep.sweep import Sweep
from labeldp.trainers.settings.methods import AlibiConfig

TRIALS = 200

SWEEP = Sweep(
    name="trivial",
    base=TrialConfig(
        data=DataSettings(limit=200),
        audit=AuditSettings(canaries=20, coin_canaries=0),
        trainer=AlibiConfig(epochs=1, batch_size=200),
    ),
    space={"seed": Grid(*range(TRIALS))},
)

if __name__ == "__main__":
    main(SWEEP)
