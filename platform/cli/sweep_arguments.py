"""Arguments that say which trials a sweep has: of a sweep's own command line, and of `plan`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labeldp.platform.sweep.configuration import AshaStop, OptunaSearch
    from labeldp.platform.sweep.sweep import Sweep, SweepOptions


def add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what decides which trials there are, and what they may cost."""
    parser.add_argument("--smoke", action="store_true", help="the small size: minutes on two cores")
    parser.add_argument(
        "--preset",
        metavar="NAME",
        help="another size that the sweep has a name for, such as home: full data on two cores",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="run this line of the comparison and no other, by the beginning of its name; may be "
        "given several times",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="NAME",
        help="leave out this line of the comparison, such as the baseline without noise; as --only",
    )
    parser.add_argument(
        "--results", metavar="DIR", help="results folder; what it holds is gone on from"
    )
    parser.add_argument("--max-epsilon-total", type=float, metavar="E", help="budget of the sweep")
    parser.add_argument("--max-trials", type=int, metavar="N", help="refuse a larger sweep")
    parser.add_argument(
        "--choose-by",
        choices=("test", "estimated"),
        help="accuracy that trials are compared by (default: test, where there is a test split; "
        "for a search estimated, and test only if asked for)",
    )
    parser.add_argument(
        "--search",
        choices=("optuna",),
        help="learn from finished trials which settings to try next (docs/search.md)",
    )
    parser.add_argument("--trials", type=int, metavar="N", help="of each search (default: 40)")
    parser.add_argument("--search-seed", type=int, metavar="S", help="of the search (default: 0)")
    parser.add_argument(
        "--stop", choices=("asha",), help="end trials early that fall behind (docs/search.md)"
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="key=value",
        help="change the settings; key=[a,b] makes a grid, 'key=loguniform(a,b)', uniform(a,b) and "
        "choice(a,b) make an axis of random draws or of a search (`labeldp config` lists keys)",
    )


def plan_options(sweep: "Sweep", options: argparse.Namespace, *, results: Path) -> "SweepOptions":
    """Return what these arguments say; the rest is as it is by default.

    Raises:
        ValueError: An argument that can't be used.
    """
    from labeldp.platform.sweep.accuracy_figures import ChooseBy
    from labeldp.platform.sweep.overrides import parse_overrides
    from labeldp.platform.sweep.sweep import SweepOptions

    return SweepOptions(
        smoke=options.smoke,
        preset=options.preset,
        results=results,
        overrides=parse_overrides(options.overrides),
        max_epsilon_total=options.max_epsilon_total,
        max_trials=options.max_trials,
        choose_by=ChooseBy(options.choose_by) if options.choose_by else None,
        search=_search(sweep, options),
        stop=_stop(sweep, options),
        only=tuple(options.only),
        without=tuple(options.without),
    )


def _search(sweep: "Sweep", options: argparse.Namespace) -> "OptunaSearch | None":
    """The search that is asked for, on top of the sweep's own."""
    from dataclasses import replace

    from labeldp.platform.sweep.configuration import OptunaSearch

    asked = {"trials": options.trials, "seed": options.search_seed}
    changes = {name: value for name, value in asked.items() if value is not None}
    if sweep.search is None and options.search is None:
        if changes:
            raise ValueError(
                f"--trials and --search-seed are of a search, and sweep {sweep.name!r} has none; "
                "ask for one with --search optuna"
            )
        return None
    if options.search is None and not changes:
        return None
    return replace(sweep.search or OptunaSearch(), **changes)


def _stop(sweep: "Sweep", options: argparse.Namespace) -> "AshaStop | None":
    from labeldp.platform.sweep.configuration import AshaStop

    return sweep.stop or AshaStop() if options.stop else None
