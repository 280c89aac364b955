"""The sweep that faults are tried on: six trials of a few seconds on three releases, all seeded.

Its noise is seeded: a disturbed run must end with the numbers of an undisturbed one, bit for
bit. Two learning rates share each release: a release that is drawn again would show in the ledger.
"""

from labeldp.platform.cli.sweep_command import main
from labeldp.platform.settings.configuration import AuditSettings, NoiseSettings, TrialConfig
from labeldp.platform.settings.sweep import Grid, Preset, Sweep, Variant
from labeldp.trainers.methods.settings import AlibiConfig, Noise

TRIALS, RELEASES, EPOCHS = 6, 3, 20

SWEEP = Sweep(
    name="faults",
    base=TrialConfig(
        noise=NoiseSettings(seed=7),
        audit=AuditSettings(canaries=50),
        trainer=AlibiConfig(epochs=EPOCHS, batch_size=16),
    ),
    space={"trainer.learning_rate": Grid(0.02, 0.05)},
    variants=[
        Variant(name="ALIBI", space={"trainer.epsilon": Grid(1.0, 4.0)}),
        Variant(name="AGIBI", changes={"trainer.noise": Noise.GAUSSIAN, "trainer.epsilon": 2.0}),
    ],
    smoke=Preset(changes={"trainer.epochs": 2}),
)

if __name__ == "__main__":
    main(SWEEP)
