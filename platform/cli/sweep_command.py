"""The command line of every file in `sweeps/`: `main(SWEEP)`.

Exit codes are those of `labeldp`: 0 every trial finished, 1 some failed, 2 bad input, 3 cannot fit,
4 over budget, 130 interrupted.
"""

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from labeldp.platform.cli.exit_codes import ExitCode
from labeldp.platform.cli.sweep_arguments import add_plan_arguments, plan_options
from labeldp.platform.cli.verb import Verb, explained
from labeldp.trainers.data.regular_files import FileRefused, read_bytes

if TYPE_CHECKING:
    from labeldp.platform.sweep.sweep import Sweep, SweepOptions
    from labeldp.platform.sweep.sweep_report import SweepOutcome

    Runner = Callable[[Sweep, SweepOptions], SweepOutcome]


def main(sweep: "Sweep", arguments: list[str] | None = None) -> NoReturn:
    """Run `sweep` as the command line asks, and exit."""
    sys.exit(run(sweep, sys.argv[1:] if arguments is None else arguments))


def run(sweep: "Sweep", arguments: list[str], *, runner: "Runner | None" = None) -> int:
    """Run `sweep` and return the exit code.

    Args:
        sweep: What to run.
        arguments: Of the command line.
        runner: What runs it, where that is more than one sweep.
    """
    options = parser_of(sweep).parse_intermixed_args(arguments)
    # `ray job stop` and a shell's `kill` send SIGTERM: end as cleanly as on Ctrl-C.
    signal.signal(signal.SIGTERM, _interrupt)
    results = results_of(sweep, named=options.results, preset=options.preset, smoke=options.smoke)

    def carry_out(options: argparse.Namespace) -> "SweepOutcome":
        from labeldp.platform.sweep.driver import run_sweep

        return (runner or run_sweep)(sweep, _sweep_options(sweep, options, results=results))

    return Verb(
        name=sweep.name,
        summary=f"Run sweep {sweep.name!r}.",
        run=carry_out,
        explain=lambda error: _explained(error, results=results, arguments=arguments),
        text=summary,
        code=_code,
    ).perform(options)


def results_of(
    sweep: "Sweep", *, named: str | None = None, preset: str | None = None, smoke: bool = False
) -> Path:
    """Return where a sweep of this size is run, and where its plan finds what it goes on from.

    Args:
        sweep: Which one.
        named: Folder that somebody asked for.
        preset: Name of its size.
        smoke: Whether it is the small one.
    """
    if named:
        return Path(named)
    folder = default_results(sweep.name)
    size = (preset, "smoke" if smoke else None)
    # No folder of a name that the sweep does not know: it is about to say so.
    known = [part for part in size if part in (*sweep.presets, "smoke")]
    return folder.with_name("-".join([folder.name, *known]))


def _sweep_options(sweep: "Sweep", options: argparse.Namespace, *, results: Path) -> "SweepOptions":
    from labeldp.platform.sweep.sweep import Resume

    return replace(
        plan_options(sweep, options, results=results),
        resume=Resume(options.resume),
        address=options.address,
        tracking_uri=os.environ.get("MLFLOW_TRACKING_URI"),
        max_minutes=options.max_minutes,
        moved=options.moved,
        quiet=options.quiet,
    )


def _explained(error: BaseException, *, results: Path, arguments: list[str]) -> str:
    if isinstance(error, KeyboardInterrupt):
        again = shlex.join(["python", os.path.relpath(sys.argv[0]), *arguments])
        return (
            f"interrupted; what has finished is kept in {results}, run the same command again to "
            f"finish the rest: {again}"
        )
    if isinstance(error, OSError) and not isinstance(error, ValueError | FileNotFoundError):
        hint = "free the disk or make the folder writable, and run the same command again"
        return f"{explained(error)}; {hint}"
    return explained(error)


def _code(outcome: "SweepOutcome") -> ExitCode:
    if outcome.over_budget:
        return ExitCode.OVER_BUDGET
    whole = outcome.finished + outcome.skipped == outcome.trials
    return ExitCode.DONE if whole else ExitCode.NOT_OK


def summary(outcome: "SweepOutcome") -> str:
    """Return the sweep's outcome for a person."""
    ledger = outcome.ledger
    total = f", epsilon {ledger['epsilon_total']:.4g} in all at delta {ledger['delta']:g}"
    lines = [
        f"{outcome.finished} trials finished, {outcome.failed} failed, {outcome.skipped} skipped",
        *outcome.finding,
        f"{ledger['releases']} releases{f'. {outcome.cost}' if outcome.cost else total}",
        *([outcome.spoiled] if outcome.spoiled else []),
        f"report: {outcome.report}",
        f"tracking: {outcome.tracking_uri}"
        + ("" if outcome.tracked else " (did not answer; run again to fill it)"),
    ]
    if outcome.links and outcome.tracked:
        if not outcome.tracking_uri.startswith("http"):
            lines.append(f"to look at it: labeldp ui {outcome.results_dir}, and then")
        lines += [f"  {name}: {outcome.links[name]}" for name in ("chart", "compare")]
    if outcome.over_budget:
        lines.insert(1, f"{outcome.over_budget} of them would have gone over the privacy budget")
    if outcome.left:
        lines.insert(1, f"{outcome.left} trials are left; run the same command again to run them")
    return "\n".join(lines)


def sweep_file(path: str) -> Path:
    """Return the file of a sweep, which is there and can be read; nothing is imported for that.

    Raises:
        ValueError: It is not, or is no Python file.
    """
    file = Path(path)
    try:
        if file.suffix == ".py":
            read_bytes(file)
            return file
        why = "its name does not end in .py"
    except FileRefused as error:
        raise ValueError(f"{error}, one of sweeps/*.py") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
    raise ValueError(f"{path} is no sweep file ({why}); name one of sweeps/*.py")


def default_results(name: str) -> Path:
    """Return where results go if nobody says: `results/NAME`, or the home folder inside a Ray job.

    A job's working folder is a copy that Ray deletes when the job ends.
    """
    here = Path.cwd()
    root = Path.home() / "labeldp" if "working_dir_files" in here.parts else here
    return root / "results" / name


def parser_of(sweep: "Sweep") -> argparse.ArgumentParser:
    """Return the command line of a sweep."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        description=f"Run sweep {sweep.name!r}.",
        epilog="key=value fixes a setting (trainer.epochs=5); key=[a,b] makes it an axis. "
        "`labeldp plan FILE` lists trials and costs without starting anything, `labeldp config` "
        "every setting; docs/glossary.md explains the words.",
    )
    add_plan_arguments(parser)
    parser.add_argument(
        "--resume",
        choices=("auto", "must", "never"),
        default="auto",
        help="what to do about trials that are in the results folder (default: auto)",
    )
    parser.add_argument(
        "--moved",
        action="store_true",
        help="the results folder was moved to another disk or restored, and no copy is in use",
    )
    parser.add_argument("--address", metavar="ADDR", help="Ray cluster (default: a private one)")
    parser.add_argument("--json", action="store_true", help="print one JSON object, last")
    parser.add_argument(
        "--quiet", action="store_true", help="say nothing until the end but what goes wrong"
    )
    parser.add_argument("--max-minutes", type=float, metavar="M", help="stop after so long")
    return parser


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
