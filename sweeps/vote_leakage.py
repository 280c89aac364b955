"""The leak of repeated PATE answers, and defenses against it: tables instead of trials.

Wang et al. 2022, "In Differential Privacy, There is Truth" (arXiv:2209.10732): 10,000 answers give
a vote histogram up to an error "often as low as .03", a budget-limited attacker up to about .11 on
MNIST and .05 on SVHN (Figure 4), in hours. Expect: errors up to .035 (MNIST) and .020 (SVHN) at
noise 60 to 100, in milliseconds. docs/audits.md has the tables of a full run.

`--votes DIR` names the published votes (`histograms.csv`, `adult_votes_250.npz`), `--data DIR` the
folder with UCI Adult.

Hardware: one core, about five minutes.
"""

import sys
from dataclasses import replace

from labeldp.mechanisms import Budget, ConfidentGNMax
from labeldp.platform.studies.leakage_study import LeakageStudy, main

STUDY = LeakageStudy(
    budgets={
        "mnist": (
            ConfidentGNMax(threshold=200.0, sigma1=150.0, sigma2=40.0),
            Budget(epsilon=1.97, delta=1e-5),
        ),
        "svhn": (
            ConfidentGNMax(threshold=300.0, sigma1=200.0, sigma2=40.0),
            Budget(epsilon=4.96, delta=1e-6),
        ),
    },
)
SMOKE = replace(
    STUDY,
    teachers=25,
    trees=5,
    others=200,
    noise_stds=(60.0,),
    answers=2000,
    repeats=1,
    attribute_answers=200,
    attribute_people=30,
    questions=200,
)

if __name__ == "__main__":
    sys.exit(main(STUDY, SMOKE, name="vote_leakage", arguments=sys.argv[1:]))
