"""The quickstart's digits with three kinds of noise: trials of known numbers (`tests.frozen`).

ALIBI (Laplace), AGIBI (Gaussian, delta 1e-5) and randomized response at epsilon .5 to 8, and the
same network without any privacy.
"""

from dataclasses import replace

from labeldp.platform.settings.sweep import Grid, Variant
from labeldp.trainers.methods.settings import Noise
from tests.sweeps.conftest import QUICKSTART

NOISES = {
    "ALIBI": Noise.LAPLACE,
    "AGIBI": Noise.GAUSSIAN,
    "randomized response": Noise.RANDOMIZED_RESPONSE,
}
SWEEP = replace(
    QUICKSTART,
    name="three_noises",
    variants=[
        *(
            Variant(
                name=name,
                changes={"trainer.noise": noise},
                space={"trainer.epsilon": Grid(0.5, 1.0, 2.0, 4.0, 8.0)},
            )
            for name, noise in NOISES.items()
        ),
        Variant(name="no privacy", changes={"trainer.noise": Noise.NONE}),
    ],
)
