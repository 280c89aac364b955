"""The command line of every file in `sweeps/`: `main(SWEEP)`.

Exit codes are those of `labeldp`: 0 every trial finished, 1 some failed, 2 bad input, 3 cannot fit,
4 over budget, 130 interrupted.
"""

import ast
import os
import re
import runpy
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from rich.table import Table

from labeldp.mechanisms.ledger import shown
from labeldp.platform.cli import command_line as line
from labeldp.platform.cli.command import Answer, ExitCode, explained, perform, table
from labeldp.platform.records.results import default_results, identity_of, lasting
from labeldp.platform.records.tracking_address import file_of
from labeldp.platform.settings.configuration import (
    AshaStop,
    ConfigurationError,
    OptunaSearch,
    TrialConfig,
    flatten,
)
from labeldp.platform.settings.sweep import Sweep, SweepOptions
from labeldp.platform.sweep.config_files import (
    SWEEPS,
    YAML,
    load_sweep,
    merged,
    naming,
    parse_overrides,
    sweep_file,
)
from labeldp.platform.sweep.plan import PlanResult, plan_of
from labeldp.trainers.settings.training import here_too

if TYPE_CHECKING:
    from labeldp.platform.sweep.recorder import SweepOutcome

#: The command that runs a file, while `labeldp sweep` does.
_TYPED: list[str] = []
#: With the default rule they begin after 1, 4 and 16 epochs.
HYPERBAND_BRACKETS = 3

_OPTIONS = (
    *line.PLAN_OPTIONS,
    line.choice("--resume", ("auto", "must", "never"), "continue earlier trials", default="auto"),
    line.flag("--moved", "state that the results folder was moved, and no copy is in use"),
    line.option("--address", "address of a Ray cluster; by default a private one is started"),
    line.flag("--quiet", "print only errors, warnings and the final summary"),
    line.number("--max-minutes", "stop after this many minutes; run again to continue"),
    line.JSON,
)


def main(sweep: Sweep, arguments: list[str] | None = None) -> NoReturn:
    """Run `sweep` as the command line requests, and exit."""
    sys.exit(run(sweep, sys.argv[1:] if arguments is None else arguments))


def run(sweep: Sweep, arguments: list[str], *, command: str = "") -> int:
    """Run `sweep` and return the exit code; `command` stands in place of `python FILE`."""
    started = command or "".join(_TYPED) or f"python {shlex.quote(os.path.relpath(sys.argv[0]))}"

    def carry_out(json: bool, **given: Any) -> ExitCode:
        def outcome() -> Answer:
            with naming(settings_of(given)[1]):
                own = ("resume", "address", "max_minutes", "moved", "quiet")
                options = replace(plan_options(sweep, given), **{key: given[key] for key in own})
                ended = _run(sweep, options)
            code = ExitCode.NOT_OK
            if ended.over_budget:
                code = ExitCode.OVER_BUDGET
            elif ended.finished + ended.skipped == ended.trials:
                code = ExitCode.DONE
            return Answer(facts=ended, words=summary(ended), code=code)

        def explain(error: BaseException) -> str:
            if isinstance(error, KeyboardInterrupt):
                kept = results_of(sweep, given)
                return (
                    f"interrupted; finished trials are kept in {kept}, run the same command "
                    f"again to finish the rest: {started} {shlex.join(arguments)}"
                )
            if isinstance(error, PermissionError):
                return f"{explained(error)}; make the folder writable, and run the command again"
            return explained(error)

        return perform(outcome, json=json, explain=explain)

    reader = command_of(sweep)
    reader.callback = carry_out
    return line.run_command(reader, arguments, program=started.removeprefix("python "))


def _run(sweep: Sweep, options: SweepOptions) -> "SweepOutcome":
    # Ray, torch and MLflow take seconds, which `--help` and a refusal do without.
    from labeldp.platform.sweep.driver import run_sweep

    return run_sweep(sweep, options)


def _started() -> int:
    """Return how many sweeps this process has started, without loading what starts them."""
    driver = sys.modules.get("labeldp.platform.sweep.driver")
    return len(driver.STARTED) if driver else 0


def by_name(*, name: str | None, arguments: tuple[str, ...]) -> Answer:
    """List the sweeps that come with labeldp, or run one and exit: `labeldp sweep`."""
    if name is not None:
        of_settings = name.startswith("--")
        if not of_settings and (file := sweep_file(name)).suffix not in YAML:
            sys.argv = [os.fspath(file), *arguments]
            before = _started()
            _TYPED[:] = [f"labeldp sweep {shlex.quote(name)}"]
            try:
                with here_too():
                    found = runpy.run_path(os.fspath(file), run_name="__main__")
            finally:
                _TYPED.clear()
            if _started() > before:  # by `labeldp.run`, which comes back
                sys.exit()
            if not isinstance(sweep := found.get("SWEEP"), Sweep):
                raise ConfigurationError(f"{name} runs no sweep and defines no SWEEP")
            sys.exit(run(sweep, [*arguments], command=f"labeldp sweep {shlex.quote(name)}"))
        words = [name, *arguments] if of_settings else [*arguments]
        again = "labeldp sweep" if of_settings else f"labeldp sweep {shlex.quote(name)}"
        reader = command_of(Sweep(name="sweep", base=TrialConfig()))
        # The sweep's own command line refuses what is wrong, and has the options to name.
        context = reader.make_context(again, [*words], resilient_parsing=not of_settings)
        sweep, given = asked(None if of_settings else name, context.params)
        where = ["--results", str(given["results"])] if given["results"] else []
        sys.exit(run(sweep, words + where, command=again))
    found = {}
    for file in sorted(SWEEPS.glob("*.py")):
        said = ast.get_docstring(ast.parse(file.read_text())) or ""
        found[file.stem] = said.partition("\n")[0]
    return Answer(facts={"sweeps": found}, words=table(("sweep", "shows"), [*found.items()]))


def command_of(sweep: Sweep) -> click.Command:
    """Return the command line of a sweep, which only reads its arguments."""
    return click.Command(
        sweep.name,
        params=list(_OPTIONS),
        help=f"Run sweep {sweep.name!r}.",
        epilog="key=value fixes a setting (trainer.epochs=5); key=[a,b] makes it an axis. "
        "`labeldp plan FILE` lists trials and costs and starts nothing. `labeldp config` lists "
        "every setting. docs/glossary.md defines the terms.",
        context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    )


def asked(name: str | None, given: Mapping[str, Any]) -> tuple[Sweep, dict[str, Any]]:
    """Return the sweep that a command names, or one of its settings alone; and its options.

    A trial's config.yaml belongs to the sweep of its results folder: its releases are there.
    """
    given = dict(given)
    if name is not None and "=" in name and not Path(name).exists():
        given["overrides"] = (name, *given["overrides"])
        name = None
    if name is not None:
        return load_sweep(name, allow_code=given["allow_code"]), given
    if not given["config"]:
        raise ConfigurationError(
            "no sweep is named; `labeldp sweep` lists those that come with labeldp, and --config "
            "FILE.yaml makes one of settings"
        )
    file = Path(given["config"][0]).absolute()
    for folder in file.parents:
        if own := identity_of(folder / "sweep.json").sweep:
            given["results"] = given["results"] or os.path.relpath(folder)
            return Sweep(name=own, base=TrialConfig()), given
    own = re.sub(r"[^\w.-]", "_", file.stem).lstrip(".-") or "settings"
    return Sweep(name=own, base=TrialConfig()), given


def settings_of(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return settings of `--config` files and over them the command line's; and their places."""
    typed = parse_overrides(list(given["overrides"]))
    return merged(given["config"], typed, allow_code=given["allow_code"])


def plan_options(sweep: Sweep, given: Mapping[str, Any]) -> SweepOptions:
    """Return the options of a sweep that PLAN_OPTIONS stand for; the others have their defaults."""
    changes = {} if given["trials"] is None else {"trials": given["trials"]}
    if changes and sweep.search is None and given["search"] is None:
        raise ValueError(
            f"--trials configures a search, but sweep {sweep.name!r} has none; add --search optuna"
        )
    search = None  # the sweep's own has as many trials as its size
    if changes or (given["search"] is not None and sweep.search is None):
        search = replace(sweep.search or OptunaSearch(), **changes)
    return SweepOptions(
        results=results_of(sweep, given),
        overrides=settings_of(given)[0],
        choose_by=given["choose_by"],
        search=search,
        stop=_stop_of(sweep.stop or AshaStop(), given["stop"]),
        only=given["only"],
        without=given["without"],
        **{key: given[key] for key in ("smoke", "preset", "max_epsilon_total", "on_processors")},
    )


def _stop_of(own: AshaStop, name: str | None) -> AshaStop | None:
    """Return the sweep's own rule with as many brackets as the named scheduler has."""
    if name is None:
        return None
    if name == "asha":
        return replace(own, brackets=1)
    return own if own.brackets > 1 else replace(own, brackets=HYPERBAND_BRACKETS)


def results_of(sweep: Sweep, given: Mapping[str, Any]) -> Path:
    """Return the folder where a sweep of this size runs, and where its plan looks for a start.

    It is as of `default_results` unless one is named; `ValueError` for one that would not last.
    """
    if given["results"]:
        return lasting(given["results"], name_with="--results")
    # An unknown preset names no folder: it is refused a moment later.
    known = [given["preset"]] if given["preset"] in sweep.presets else []
    return default_results("-".join([sweep.name, *known, *["smoke"] * given["smoke"]]))


def summary(outcome: "SweepOutcome") -> str:
    """Return the sweep's outcome for a person."""
    ledger = outcome.ledger
    epsilon, delta = (shown(ledger[name]) for name in ("epsilon_total", "delta"))
    total = f", epsilon {epsilon} in all at delta {delta}"
    lines = [
        f"{outcome.finished} trials finished, {outcome.failed} failed, {outcome.skipped} skipped"
    ]
    if outcome.left:
        lines.append(f"{outcome.left} trials are left; run the same command again to run them")
    if outcome.over_budget:
        lines.append(f"{outcome.over_budget} of them would have gone over the privacy budget")
    lines += [
        *outcome.finding,
        f"{ledger['releases']} releases{f'. {outcome.cost}' if outcome.cost else total}",
        *filter(None, [outcome.spoiled]),
        f"report: {outcome.report}",
        f"tracking: {outcome.tracking_uri}"
        + ("" if outcome.tracked else " (did not answer; run again to fill it)"),
    ]
    if outcome.links and outcome.tracked:
        if (store := file_of(outcome.tracking_uri)) is not None:
            serve = ["mlflow", "server", "--backend-store-uri", outcome.tracking_uri]
            if store.name == "mlflow.db":
                serve = ["labeldp", "ui", str(store.parent)]
            lines.append(f"to open these pages, run {shlex.join(serve)}")
        lines += [f"  {name}: {outcome.links[name]}" for name in outcome.links]
    return "\n".join(lines)


def plan(*, sweep: str | None, **given: Any) -> Answer:
    """List the trials of a sweep file and their cost; `given` are values of PLAN_OPTIONS."""
    loaded, given = asked(sweep, given)
    settings, places = settings_of(given)
    with naming(places):
        options = plan_options(loaded, given)
        found = plan_of(loaded, replace(options, price_per_hour=given["price_per_hour"]))
    code = ExitCode.OVER_BUDGET if found.over_budget else ExitCode.CANNOT_FIT
    own = {*loaded.space}
    for each in loaded.variants:
        own |= {*each.changes, *each.space}
    before = {key: value for key, value in flatten(loaded.base).items() if key not in own}
    rows = [
        {"key": key, "value": value, "set_by": places[key]}
        for key, value in settings.items()
        if key not in before or before[key] != value
    ]
    cells = [[str(cell) for cell in row.values()] for row in rows]
    settings_table = table(("key", "value", "set by"), cells) if given["config"] else []
    return Answer(
        facts={**asdict(found), "changed": rows},
        words=[*settings_table, *words(found)],
        code=ExitCode.DONE if found.fits else code,
    )


def words(plan: PlanResult) -> Sequence[Table | str]:
    """Return a plan for a person."""
    spoiled = f"{plan.spoiled_labels:,} of {plan.labels:,}"
    facts = (
        ("trials", str(plan.trials)),
        ("labels made wrong", f"{spoiled}, for audits" if plan.labels else "-"),
        ("epsilon of a trial", ", ".join(dict.fromkeys(map(shown, plan.epsilons)))),
        ("releases", str(plan.releases)),
        ("epsilon of all together", f"{shown(plan.epsilon_total)} at delta {shown(plan.delta)}"),
        *_hours(plan),
        ("fits", "yes" if plan.fits else "NO"),
    )
    rows = plan.configurations
    last = [key for key in ("trials", "epsilon", "releases") if rows and key in rows[0]]
    keys = [*dict.fromkeys(key for row in rows for key in row if key not in last), *last]
    cells = [(str(n), *(_cell(key, row.get(key)) for key in keys)) for n, row in enumerate(rows, 1)]
    bad = {} if plan.fits else {len(facts) - 1: "bold red"}
    return [
        *table(("#", *keys), cells, title="trials"),
        *table(("sweep", ""), facts, styles=bad),
        *plan.notes,
        *(f"problem: {problem}" for problem in plan.problems),
    ]


def _hours(plan: PlanResult) -> list[tuple[str, str]]:
    """Rows of the hours of a sweep by line, and of their price."""
    if not plan.hours:
        return []
    rows = [(f"hours of {line}", f"{hours:.3g}") for line, hours in plan.hours.items()]
    total = f"{sum(plan.hours.values()):.3g}, {plan.hours_device}"
    rows = [("hours", total), *(rows if len(rows) > 1 else [])]
    return rows if plan.price is None else [*rows, ("price", f"{plan.price:.2f}")]


def _cell(key: str, value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return shown(value) if "epsilon" in key else f"{value:.3g}"
    return str(value)
