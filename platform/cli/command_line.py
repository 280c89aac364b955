"""`labeldp VERB ...`: parses, calls one function, prints what it returns.

Nothing heavy is imported before a verb runs, so that `--help` answers at once. Every verb is a
plain function elsewhere; with `--json` its result is printed as one JSON object.
"""

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from typing import Any

Run = Callable[[argparse.Namespace], Any]


def main(arguments: list[str] | None = None) -> int:
    """Run one verb and return the exit code: 0, 1 not ok, 2 bad input, 3 cannot fit, 4 budget."""
    options = parser().parse_args(arguments)
    if not hasattr(options, "run"):
        options.parser.print_help()
        return 2
    try:
        result = options.run(options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        code = _exit_code(error)
        if code is None:
            raise
        print(f"error: {_words(error)}", file=sys.stderr)
        return code
    plain = asdict(result) if is_dataclass(result) and not isinstance(result, type) else result
    try:
        if options.json:
            from labeldp.platform.records.results import dumps

            print(dumps(plain))
        else:
            print_plain(plain)
        sys.stdout.flush()
    except BrokenPipeError:
        # `| head` has read enough. Python would complain once more as it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1 if isinstance(plain, dict) and plain.get("ok") is False else 0


def _exit_code(error: Exception) -> int | None:
    if type(error).__name__ == "CannotFit":
        return 3
    if type(error).__name__ == "BudgetExceeded":
        return 4
    return 2 if isinstance(error, ValueError | OSError | MemoryError) else None


def _words(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return f"this machine has too little memory for that ({error or 'no more is said'})"
    return str(error)


def print_plain(value: Any, indent: str = "") -> None:
    """Print nested results for a person: one `name: value` per line."""
    if not isinstance(value, dict):
        print(f"{indent}{_short(value)}")
        return
    for name, inner in value.items():
        if isinstance(inner, dict):
            print(f"{indent}{name}:")
            print_plain(inner, indent + "  ")
        elif isinstance(inner, list) and inner and isinstance(inner[0], dict):
            print(f"{indent}{name}:")
            for item in inner:
                print(f"{indent}  - " + ", ".join(f"{k} {_short(v)}" for k, v in item.items()))
        else:
            print(f"{indent}{name}: {_short(inner)}")


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def parser() -> argparse.ArgumentParser:
    """Return the whole command line."""
    top = argparse.ArgumentParser(
        prog="labeldp",
        description="Label differential privacy: what it costs, how accurate, how leaky.",
    )
    top.set_defaults(parser=top, json=False)
    verbs = top.add_subparsers(metavar="VERB")
    _add(verbs, "doctor", "versions, devices, Ray, tracking, data sets; what is missing", _doctor)
    plan = _add(verbs, "plan", "a sweep's trials and cost; starts nothing", _plan)
    plan.add_argument("sweep", metavar="SWEEP.py")
    plan.add_argument("overrides", nargs="*", metavar="key=value")
    plan.add_argument("--smoke", action="store_true", help="the sweep's small size")
    plan.add_argument("--config", metavar="FILE.yaml", help="settings, below key=value")
    _add_epsilon(_group(verbs, "epsilon", "what a setting costs"))
    _add_calibrate(_group(verbs, "calibrate", "the noise for a target epsilon"))
    _add_audit(_group(verbs, "audit", "how private it is really"))
    report = _add(verbs, "report", "HTML, Pareto plot and CSV of a tracked sweep", _report)
    report.add_argument("experiment", metavar="EXPERIMENT")
    report.add_argument("--tracking-uri", metavar="U", help="tracking store (default: the sweep's)")
    report.add_argument("--out", metavar="DIR", default=".", help="where to write")
    data = _group(verbs, "data", "data sets")
    for name, text in (
        ("list", "what there is"),
        ("fetch", "get a data set"),
        ("check", "verify one"),
    ):
        verb = _add(data, name, text, _data(name))
        verb.add_argument(
            "--root", metavar="DIR", help="folder of the sets (default: LABELDP_DATA)"
        )
        if name != "list":
            verb.add_argument("name", metavar="NAME")
    # The last verb is `check`, which reads a file of the user's as a sweep would.
    verb.add_argument("--label-column", metavar="NAME", help="of a .parquet (default: label)")
    text = "of a file without a test split: publish one label in five, or none"
    verb.add_argument("--hold-out", choices=("public", "none"), help=text)
    verb.add_argument("--classes", metavar="K|A,B,...", help="how many, or their names in order")
    return top


def _add(verbs: Any, name: str, text: str, run: Run) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(
        name, help=text, description=text, allow_abbrev=False
    )
    verb.add_argument("--json", action="store_true", help="print one JSON object")
    verb.set_defaults(run=run)
    return verb


def _group(verbs: Any, name: str, text: str) -> Any:
    group = verbs.add_parser(name, help=text, description=text)
    group.set_defaults(parser=group)
    return group.add_subparsers(metavar="WHAT")


def _numbers(verb: Any, *names: str, required: bool = True) -> None:
    for name in names:
        verb.add_argument(name, type=float, required=required, metavar="X")


def _accounting(verb: Any) -> None:
    text = "price what leaves (decision) or, as published, all noisy counts (counts)"
    verb.add_argument("--accounting", choices=("decision", "counts"), default="decision", help=text)


def _add_epsilon(verbs: Any) -> None:
    laplace = _add(verbs, "laplace", "Laplace noise on one-hot labels", _privacy("epsilon_laplace"))
    one = laplace.add_mutually_exclusive_group(required=True)
    one.add_argument("--scale", type=float, metavar="B")
    one.add_argument("--noise-std", type=float, metavar="S", help="B * sqrt 2")
    gaussian = _add(
        verbs, "gaussian", "Gaussian noise on one-hot labels", _privacy("epsilon_gaussian")
    )
    _numbers(gaussian, "--noise-std", "--delta")
    rr = _add(verbs, "rr", "randomized response", _privacy("epsilon_rr"))
    _numbers(rr, "--keep-probability")
    rr.add_argument("--classes", type=int, required=True, metavar="K")
    pate = _add(verbs, "pate", "answers of a teacher ensemble", _privacy("epsilon_pate"))
    pate.add_argument("--votes", required=True, metavar="FILE[:key]", help="[N, K] counts")
    pate.add_argument("--aggregator", choices=("confident", "gnmax", "lnmax"), required=True)
    _numbers(pate, "--sigma1", "--threshold", required=False)
    text = "of the noise on every count of an answer: its deviation; of lnmax, the Laplace scale"
    pate.add_argument("--sigma2", type=float, required=True, metavar="X", help=text)
    _numbers(pate, "--delta")
    pate.add_argument("--conversion", choices=("improved", "mironov"), default="improved")
    _accounting(pate)
    pate.add_argument("--answer", type=int, metavar="K", help="stop after so many answers")
    pate.add_argument("--seed", type=int, metavar="N", help="of the realised answers")
    select = _add(
        verbs, "select", "picking the best of a random number of trials", _privacy("epsilon_select")
    )
    _numbers(select, "--epsilon", "--mean-trials")
    _numbers(select, "--delta", "--trial-delta", required=False)
    select.add_argument(
        "--distribution", choices=("geometric", "logarithmic", "poisson"), required=True
    )


def _add_calibrate(verbs: Any) -> None:
    for name in ("laplace", "gaussian", "rr"):
        verb = _add(verbs, name, f"{name} noise for an epsilon", _privacy(f"calibrate_{name}"))
        _numbers(verb, "--epsilon")
        if name == "rr":
            verb.add_argument("--classes", type=int, default=10, metavar="K")
        _numbers(verb, "--delta", required=name == "gaussian")
    pate = _add(verbs, "pate", "aggregator noise for an epsilon", _privacy("calibrate_pate"))
    pate.add_argument("--votes", required=True, metavar="FILE[:key]", help="[N, K] counts")
    _numbers(pate, "--epsilon", "--delta")
    _accounting(pate)
    pate.add_argument("--answer", type=int, required=True, metavar="K")


def _add_audit(verbs: Any) -> None:
    memorization = _add(
        verbs, "memorization", "the paper's attack from saved confidences", _audit("memorization")
    )
    for name in ("--confidences", "--canary-labels", "--true-labels"):
        memorization.add_argument(name, required=True, metavar="FILE[:key]")
    memorization.add_argument("--confidence", type=float, default=0.95)
    one_run = _add(verbs, "one-run", "a valid lower bound from one model", _audit("one_run"))
    for name in ("--canaries", "--guesses", "--correct"):
        one_run.add_argument(name, type=int, metavar="N")
    for name in ("--scores", "--truth"):
        one_run.add_argument(name, metavar="FILE[:key]")
    one_run.add_argument("--delta", type=float, default=0.0)
    one_run.add_argument("--confidence", type=float, default=0.95)
    leakage = _add(
        verbs, "vote-leakage", "vote histograms from a service's answers", _audit("vote_leakage")
    )
    leakage.add_argument("--counts", required=True, metavar="FILE[:key]", help="[N, K] answers")
    leakage.add_argument("--noise-std", type=float, required=True)
    leakage.add_argument("--teachers", type=int, required=True)


def _privacy(function: str) -> Run:
    def run(options: argparse.Namespace) -> Any:
        from labeldp.platform.cli import privacy_verbs

        return getattr(privacy_verbs, function)(options)

    return run


def _audit(function: str) -> Run:
    def run(options: argparse.Namespace) -> Any:
        from labeldp.platform.cli import audit_verbs

        return getattr(audit_verbs, function)(options)

    return run


def _data(name: str) -> Run:
    def run(options: argparse.Namespace) -> Any:
        from labeldp.platform.cli import data_verbs

        named = ("label_column", "hold_out", "classes")
        of_check = {key: getattr(options, key) for key in named if hasattr(options, key)}
        set_name = getattr(options, "name", None)
        return data_verbs.run(name, set_name=set_name, root=options.root, **of_check)

    return run


def _doctor(options: argparse.Namespace) -> Any:
    from labeldp.platform.cli.doctor import examine

    return examine()


def _plan(options: argparse.Namespace) -> Any:
    from labeldp.platform.cli.sweep_command import sweep_file

    sweep_file(options.sweep)  # the next line takes ten seconds
    from labeldp.platform.cli.plan_verb import plan

    return plan(
        options.sweep, overrides=options.overrides, smoke=options.smoke, config=options.config
    )


def _report(options: argparse.Namespace) -> Any:
    from labeldp.platform.cli.report_verb import report

    return report(options.experiment, tracking_uri=options.tracking_uri, out=options.out)


if __name__ == "__main__":
    sys.exit(main())
