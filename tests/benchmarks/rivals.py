"""labeldp beside other libraries, each in an environment of its own: `make compare-rivals`.

    python -m tests.benchmarks.rivals

The environments are in `.rivals/`. If a library does not install within three minutes, or does not
run, the table gives the reason. The PyPI package `privacy-guard` is not Meta's PrivacyGuard.
"""

import json
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from labeldp import LabelPrivateClassifier
from labeldp.mechanisms.auditing import one_run_lower_bound
from labeldp.mechanisms.guess_risk import guess_after_gaussian
from tests.source_tree import ROOT

PLACE, INSTALL_SECONDS, RUN_SECONDS = ROOT / ".rivals", 180, 120

#: diffprivlib 0.6.6 imports names that scikit-learn 1.6 no longer has.
_ALSO = {"diffprivlib": ("scikit-learn<1.6",)}
#: Runs in the environment of diffprivlib, which hides features, too.
_LOGISTIC = """
import warnings; warnings.simplefilter("ignore")
from diffprivlib.models import LogisticRegression
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
x, y = load_digits(return_X_y=True)
a, b, c, d = train_test_split(x / 16, y, test_size=0.2, random_state=0)
model = LogisticRegression(epsilon=2.0, data_norm=8.0, max_iter=200, random_state=0).fit(a, c)
value = 100 * model.score(b, d)
"""
_AUDIT = """
from jax_privacy import auditing
value = auditing._epsilon_one_run(0.0, 1000, 400, 300, 0.05, 0.0)
"""
_RISK = """
from riskcal import analysis
value = 1 - float(analysis.get_bayes_risk_from_gdp(1.0, 0.5))
"""
#: The wheel of 0.9.0 has no `research` folder.
_PATE = """
from tensorflow_privacy.research.pate_2018 import core
value = core.rdp_gaussian(-20.0, 40.0, 10.0)
"""


def ours_logistic() -> float:
    """Test accuracy in percent at label epsilon 2, with the noise of one draw."""
    x, y = load_digits(return_X_y=True)
    a, b, c, d = train_test_split(x / 16, y, test_size=0.2, random_state=0)
    model = LabelPrivateClassifier(epsilon=2.0, classes=10, random_state=0).fit(a, c)
    return 100 * float(model.score(b, d))


#: Task, unit, package, what the rival runs, and ours (None: nothing to compare without it).
RIVALS: tuple[tuple[str, str, str, str, Callable[[], float] | None], ...] = (
    ("digits at epsilon 2 (rival: full DP)", "%", "diffprivlib", _LOGISTIC, ours_logistic),
    (
        "one-run audit, 300 of 400 right, 1,000 canaries",
        "epsilon",
        "jax-privacy",
        _AUDIT,
        lambda: one_run_lower_bound(canaries=1000, guesses=400, correct=300),
    ),
    (
        "guess from 50% under mu 1",
        "probability",
        "riskcal",
        _RISK,
        lambda: guess_after_gaussian(0.5, mu=1.0),
    ),
    ("PATE's cost of an answer", "RDP", "tensorflow-privacy", _PATE, None),
)


def installed(package: str) -> Path:
    """Return the python of an environment with a package; a `RuntimeError` says why not."""
    folder = PLACE / package
    python, done = folder / "bin" / "python", folder / "installed"
    if not done.exists():
        venv.create(folder, clear=True)
        install = [f"{sys.prefix}/bin/uv", "pip", "install", "-q", "--python", str(python)]
        _run([*install, package, *_ALSO.get(package, ())], seconds=INSTALL_SECONDS)
        done.touch()
    return python


def _run(command: list[str], *, seconds: int) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not done in {seconds} s") from None
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1][:160])
    return done.stdout


def rival(package: str, code: str) -> tuple[str, float | None, float | None]:
    """Return version or reason, value and seconds (imports included) of a rival."""
    try:
        python = installed(package)
        version = f"from importlib.metadata import version; print(version({package!r}))"
        found = _run([str(python), "-c", version], seconds=RUN_SECONDS).strip()
        start = time.perf_counter()
        printed = _run(
            [str(python), "-c", f"{code}\nimport json; print(json.dumps(float(value)))"],
            seconds=RUN_SECONDS,
        )
        return found, json.loads(printed.splitlines()[-1]), time.perf_counter() - start
    except RuntimeError as error:
        return f"skipped: {error}", None, None


def main() -> None:
    print("| task | unit | labeldp | seconds | rival | version | its value | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for task, unit, package, code, ours in RIVALS:
        start = time.perf_counter()
        own = "" if ours is None else f"{ours():.4f} | {time.perf_counter() - start:.2f}"
        version, value, seconds = rival(package, code)
        its = " | " if value is None else f"{value:.4f} | {seconds:.2f}"
        print(f"| {task} | {unit} | {own or ' | '} | {package} | {version} | {its} |", flush=True)
    print("Not on PyPI: Google's label_dp, ALIBI, PrivacyGuard.")


if __name__ == "__main__":
    main()
