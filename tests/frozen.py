"""Numbers that a change of the code must not change: small seeded sweeps, frozen in one table.

    python -m tests.frozen              compare the table with the code
    python -m tests.frozen --write      write the table anew, after a change that is meant to

Every sweep goes through the public interface, with seeded noise, in this process; PATE needs Ray.
Prices, ledger lines and figures are kept at full precision; hashes and times may change.
"""

import argparse
import contextlib
import io
import json
import math
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import ray

import labeldp
from labeldp.platform.records import tracking
from labeldp.platform.settings.metrics import SCORES
from labeldp.platform.sweep.config_files import load_sweep
from tests.faults.sweep_runs import run_here
from tests.faults.without_cluster import without_cluster
from tests.platform.sweep.stores import copy_store
from tests.source_tree import ROOT
from tests.trainers.ratings import write_ratings

TABLE = Path(__file__).with_suffix(".json")
#: What every small sweep has. Accuracy is on the 359 test images of the digits.
DIGITS: Mapping[str, Any] = {
    "noise.seed": 7,
    "data.limit": 300,
    "audit.canaries": 20,
    "audit.coin_canaries": 20,
}
LEARNER: Mapping[str, Any] = {
    **DIGITS,
    "trainer.epsilon": 4.0,
    "trainer.epochs": 6,
    "trainer.batch_size": 32,
    "trainer.learning_rate": 0.05,
}
PATE: Mapping[str, Any] = {
    **DIGITS,
    "method": "pate",
    "data.limit": 600,
    "trainer.ensemble.teachers": 20,
    "trainer.ensemble.queries": 60,
    "trainer.answers": 20,
    "trainer.threshold": 12.0,
    "trainer.sigma1": 8.0,
    "trainer.sigma2": 4.0,
    "trainer.students": 2,
}
RAY: Any = {"address": "local", "num_cpus": 2, "include_dashboard": False, "log_to_driver": False}
TINY_FIXMATCH = {
    "model": "small_cnn",
    "width": 4,
    "epochs": 1,
    "steps_per_epoch": 3,
    "batch_size": 16,
    "unlabeled_ratio": 2,
}
COMMANDS = (
    "epsilon laplace --scale 0.7",
    "epsilon gaussian --noise-std 3 --delta 1e-5",
    "epsilon rr --keep-probability 0.7 --classes 10",
    "epsilon select --epsilon 0.5 --delta 1e-6 --mean-trials 20 --distribution logarithmic",
    "calibrate laplace --epsilon 3",
    "calibrate gaussian --epsilon 1.5 --delta 1e-6",
    "calibrate rr --epsilon 2 --classes 7",
    "calibrate subset --epsilon 2 --classes 7",
    "audit one-run --canaries 1000 --guesses 300 --correct 250 --delta 1e-5",
    "audit one-run --canaries 500 --guesses 500 --correct 330 --delta 0 --family laplace",
    "plan sweeps/quickstart.py",
    "plan sweeps/compare_mnist.py --smoke",
)
#: The quickstart compares other lines now; the trials of the table are in another file.
MOVED = ("sweeps/quickstart.py", "tests/three_noises.py")
#: Of the keys that commands print: these alone are numbers that must stay.
PLANNED = ("trials", "epsilons", "releases", "epsilon_total")
#: Of the columns of `labeldp.load(...).table()`: no figures, a clock's, or younger than the table.
LEFT_OUT = frozenset({"trial", "train_seconds", "variant", "league", "gaussian_mu", *SCORES})
#: Of the keys that commands print: functions of epsilon, younger than the table.
YOUNGER = frozenset({"mu", "guess_at_most", "risk"})
LEDGER_KEYS = ("what", "noise", "epsilon", "delta", "labels", "who_may_see_it", "counted")


@dataclass(frozen=True)
class Frozen:
    """A sweep of the table: `settings` and `axes` by dotted key, or a `file` of `sweeps/`.

    `then` are axes of a second start in the same folder; `ray` states that it needs a cluster.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    axes: Mapping[str, Any] = field(default_factory=dict)
    then: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""
    arguments: tuple[str, ...] = ()
    ray: bool = False


def _prefixed(prefix: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}.{name}": value for name, value in settings.items()}


SWEEPS: Mapping[str, Frozen] = {
    "alibi": Frozen(
        {**LEARNER, "method": "alibi"},
        {"trainer.noise": ["laplace", "gaussian", "randomized_response"]},
    ),
    "bit flips": Frozen({**LEARNER, "method": "bit_flip"}, {"trainer.epsilon": [1.0, 8.0]}),
    "priors": Frozen(
        {**LEARNER, "method": "prior_labels", "trainer.prior.clusters": 20},
        {"trainer.prior.source": ["clusters", "moments"]},
    ),
    "alibi with a prior": Frozen(
        {**LEARNER, "method": "alibi_prior", "trainer.prior.clusters": 20},
        {"trainer.prior.source": ["clusters", "moments"]},
    ),
    "staged moments": Frozen({**LEARNER, "method": "staged_moments", "trainer.earlier_epochs": 2}),
    "lp-mst": Frozen(
        {**LEARNER, "method": "lp_mst", "trainer.retrain_epochs": 2}, {"trainer.stages": [1, 2]}
    ),
    "consensus": Frozen({**LEARNER, "method": "consensus", "trainer.retrain_epochs": 2}),
    "convex": Frozen(
        {**DIGITS, "method": "convex", "trainer.epsilon": 4.0},
        {"trainer.noise": ["randomized_response", "laplace"]},
    ),
    "recommender": Frozen(
        {
            **LEARNER,
            "method": "recommender",
            "data.name": "movielens_1m",
            "data.root": "ratings",
            "data.limit": None,
            "trainer.learning_rate": 0.1,
        }
    ),
    "own file, held-out count": Frozen(
        {
            **LEARNER,
            "method": "alibi",
            "data.limit": None,
            "data.name": "own",
            "data.path": "own.csv",
            "data.hold_out": "public",
            "data.classes": "3",
            "evaluation.held_out_share": 0.25,
            "evaluation.epsilon": 0.5,
        }
    ),
    "resumed quickstart": Frozen(
        file="../tests/three_noises.py",
        arguments=(
            *("noise.seed=7", "data.limit=300", "trainer.epochs=2", "trainer.epsilon=[1,4]"),
            *("audit.canaries=20", "audit.coin_canaries=20"),
        ),
        then={"seed": "[0,1]"},
    ),
    "search": Frozen(
        file="search_quickstart.py",
        arguments=("--smoke", "noise.seed=7", "evaluation.epsilon=0.5", "audit.canaries=20"),
    ),
    "pate": Frozen(
        {**PATE, "data.features": "patches"},
        {"trainer.aggregator": ["confident", "gnmax", "lnmax", "interactive"]},
        ray=True,
    ),
    "pate of forests": Frozen(
        {
            **PATE,
            "trainer.ensemble.kind": "forest",
            "trainer.ensemble.forest.trees": 5,
            "trainer.student.forest.trees": 10,
            "trainer.student.network.epochs": 3,
        },
        {"trainer.student.kind": ["forest", "network"]},
        ray=True,
    ),
    "pate-fm": Frozen(
        {
            **PATE,
            "trainer.ensemble.teachers": 3,
            "trainer.threshold": 2.0,
            "trainer.sigma1": 2.0,
            "trainer.sigma2": 1.0,
            "trainer.students": 1,
            "trainer.ensemble.kind": "fixmatch",
            "trainer.student.kind": "fixmatch",
            **_prefixed("trainer.ensemble.fixmatch", TINY_FIXMATCH),
            **_prefixed("trainer.student.fixmatch", TINY_FIXMATCH),
        },
        ray=True,
    ),
}


#: Their releases are about computed values: directions, a model's prior, votes. On a machine that
#: rounds these otherwise, a release has another address, and so other noise.
COMPUTED = ("priors", "alibi with a prior", "staged moments", "lp-mst", "consensus", "pate")


def write_own_file(path: Path) -> None:
    """Write a table of 300 rows: four numbers, a text, and three classes that follow from them."""
    random = np.random.default_rng(5)
    numbers = random.normal(size=(300, 4)).round(6)
    kinds = random.choice(["red", "green", "blue"], size=300)
    score = numbers[:, 0] + (kinds == "red") + 0.3 * random.normal(size=300)
    labels = np.digitize(score, [-0.3, 0.8])
    rows = [
        ",".join([*(f"{each:.6f}" for each in row), kind, str(label)])
        for row, kind, label in zip(numbers, kinds, labels, strict=True)
    ]
    path.write_text("\n".join(["a,b,c,d,color,label", *rows]) + "\n")


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it, which has neither NumPy's numbers nor infinity."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _rows(frame: Any, keys: Callable[[str], bool]) -> list[dict[str, Any]]:
    rows = [
        {name: _plain(value) for name, value in row.items() if keys(str(name))}
        for row in frame.to_dict("records")
    ]
    # By what was asked first: figures of trained models may differ in a digit elsewhere.
    return sorted(
        rows,
        key=lambda row: json.dumps(
            [{name: value for name, value in row.items() if not _measured(name)}, row],
            sort_keys=True,
        ),
    )


def _command(file: str, arguments: tuple[str, ...], results: Path) -> dict[str, Any]:
    """Run a file of `sweeps/`, and return the totals that `--json` printed."""
    sweep = load_sweep(str(ROOT / "sweeps" / file))
    code, said = run_here(sweep, *arguments, "--results", str(results), "--json")
    assert code == 0, said
    found = json.loads(said.splitlines()[-1])
    kept = ("trials", "finished", "failed", "skipped", "ledger")
    return {name: found[name] for name in kept}


def measured(sweep: Frozen, folder: Path) -> dict[str, Any]:
    results, starts = folder / "results", []
    for axes in (sweep.axes, sweep.then) if sweep.then else (sweep.axes,):
        if sweep.file:
            more = tuple(f"{key}={value}" for key, value in axes.items())
            starts.append(_command(sweep.file, (*sweep.arguments, *more), results))
        else:
            labeldp.run(sweep.settings, results=results, overrides=axes, quiet=True)
    result = labeldp.load(results)
    epsilon, delta = result.total()
    return {
        "epsilon_total": epsilon,
        "delta": delta,
        "starts": starts,
        "ledger": _rows(result.ledger(), LEDGER_KEYS.__contains__),
        "trials": _rows(result.table(private=True), lambda name: name not in LEFT_OUT),
    }


def of_classifier() -> dict[str, Any]:
    """Fit the scikit-learn classifier twice on the same labels; fits of a process add up."""
    random = np.random.default_rng(3)
    rows = random.normal(size=(400, 5))
    labels = (rows[:, 0] + rows[:, 1] > 0).astype(int)
    found: dict[str, Any] = {}
    for method in ("alibi", "agibi", "moment_labels", "lp_mst"):
        model = labeldp.LabelPrivateClassifier(
            method,
            epsilon=2.0,
            classes=2,
            random_state=0,
            noise_seed=11,
            settings={"epochs": 5},
            vault=labeldp.SharedVault(),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", labeldp.PrivacyAddsUp)  # the totals are in the table
            model.fit(rows, labels)
            model.fit(rows, labels)
        found[method] = {
            "epsilon": model.epsilon_,
            "delta": model.delta_,
            "epsilon_total": model.total_epsilon_,
            "ledger": [[line.mechanism, line.epsilon, line.labels] for line in model.ledger_],
            "right_answers": int((model.predict(rows) == labels).sum()),
        }
    return found


def of_commands() -> dict[str, Any]:
    from labeldp.platform.cli.command_line import main

    found: dict[str, Any] = {}
    for line in COMMANDS:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.chdir(ROOT):
            main([*line.replace(*MOVED).split(), "--json"])
        answer = json.loads(printed.getvalue())
        planned = line.startswith("plan")
        keys = PLANNED if planned else answer.keys() - YOUNGER
        found[line] = {key: answer[key] for key in keys}
    return found


def table() -> dict[str, Any]:
    import torch

    threads, found = torch.get_num_threads(), dict[str, Any]()
    torch.set_num_threads(1)
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS", "LABELDP_DATA")
    }
    with (
        patch.dict(os.environ, environment, clear=True),
        patch.object(tracking, "_create_whole", copy_store),
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place,
        contextlib.chdir(place),
    ):
        write_own_file(Path("own.csv"))
        write_ratings(Path("ratings"), users=40, movies=30, ratings=1500)
        found["classifier"], found["commands"] = of_classifier(), of_commands()
        for on_ray in (False, True):
            with ray.init(**RAY) if on_ray else without_cluster():
                for name, sweep in SWEEPS.items():
                    if sweep.ray == on_ray:
                        found[name] = measured(sweep, Path(place, name.replace(" ", "_")))
    torch.set_num_threads(threads)
    return {"machine": machine(), "numbers": _plain(found)}


def machine() -> dict[str, str]:
    """Return what the last digits of training depend on."""
    import platform

    import scipy
    import torch

    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    flags = next((line for line in lines if line.startswith("flags")), "")
    vectors = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_tile") if name in flags]
    model = next((line.split(":")[1].strip() for line in lines if "model name" in line), "")
    return {
        "processor": f"{platform.machine()} {model} {' '.join(vectors)}".strip(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def differences(now: Mapping[str, Any], then: Mapping[str, Any]) -> list[str]:
    """Return one line for each number that is another one.

    On the machine of the table every digit has to be the same, but for the total over a sweep's
    releases: trials end in any order, and their charges are added up in that order. On another
    processor, or with other versions, sums round differently: prices agree to 1e-9, and what was
    measured on a trained model is compared by the rules of `_near`.
    """
    exact = now["machine"] == then["machine"]
    return list(_differing(now["numbers"], then["numbers"], "", exact))


def _differing(now: Any, then: Any, where: str, exact: bool, name: str = "") -> Iterator[str]:
    if isinstance(now, Mapping) and isinstance(then, Mapping):
        for key in sorted({*now, *then}):
            yield from _differing(now.get(key), then.get(key), f"{where}/{key}", exact, key)
    elif isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        for index, (one, other) in enumerate(zip(now, then, strict=True)):
            yield from _differing(one, other, f"{where}/{index}", exact, name)
    elif now != then and not _near(now, then, where, name, exact):
        yield f"{where}: {then!r} became {now!r}"


#: Figures of a trained model. A model that rounds otherwise answers a few images otherwise.
MEASURED = ("accuracy", "epsilon_m", "private/", "loss", "score", "auc", "error", "right_answers")


def _measured(name: str) -> bool:
    return any(part in name for part in MEASURED)


def _near(now: Any, then: Any, where: str, name: str, exact: bool) -> bool:
    """Whether two values that are not the same agree as far as they have to."""
    if not exact and _measured(name):
        # Ten of the 359 test images. Canaries and answered queries are about 20, and an audit's
        # figures are steps of a bound: they say nothing on another machine.
        return name != "accuracy" or where.split("/")[1] in COMPUTED or abs(now - then) <= 0.03
    if not (isinstance(now, float | int) and isinstance(then, float | int)):
        return False
    if exact:
        return name == "epsilon_total" and math.isclose(now, then, rel_tol=1e-13)
    return math.isclose(now, then, rel_tol=1e-9)


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--write", action="store_true", help="write the table anew")
    asked = arguments.parse_args()
    now = table()
    if asked.write:
        TABLE.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")
        return
    different = differences(now, json.loads(TABLE.read_text()))
    print("\n".join(different) or "every number is the same")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
