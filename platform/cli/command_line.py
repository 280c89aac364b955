"""`labeldp VERB ...`: finds the verb, and has it performed.

Nothing heavy is imported before a verb runs, so that `--help` answers at once.
"""

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

from labeldp.platform.cli.exit_codes import ExitCode
from labeldp.platform.cli.verb import Verb


def main(arguments: list[str] | None = None) -> int:
    """Perform one verb and return the exit code, which `ExitCode` explains."""
    options = _parsed(arguments)
    if not hasattr(options, "verb"):
        options.parser.print_help()
        return ExitCode.BAD_INPUT
    verb: Verb = options.verb
    return verb.perform(options)


def _parsed(arguments: list[str] | None) -> argparse.Namespace:
    """Parse arguments; `key=value` may stand anywhere among the others of a verb that takes it."""
    top = parser()
    options, rest = top.parse_known_args(arguments)
    settings = [each for each in rest if "=" in each and not each.startswith("-")]
    if hasattr(options, "overrides") and len(settings) == len(rest):
        options.overrides += settings
    elif rest:
        top.error(f"unrecognized arguments: {' '.join(rest)}")
    return options


def all_verbs() -> list[Verb]:
    """Return the verbs of all files here that hold some, in the order of the alphabet."""
    stems = sorted(path.stem for path in Path(__file__).parent.glob("*_verb*.py"))
    files = [importlib.import_module(f"labeldp.platform.cli.{stem}") for stem in stems]
    return sorted((verb for file in files for verb in file.VERBS), key=lambda verb: verb.words)


def parser() -> argparse.ArgumentParser:
    """Return the whole command line."""
    top = argparse.ArgumentParser(
        prog="labeldp",
        description="Label differential privacy: what it costs, how accurate, how leaky.",
    )
    top.set_defaults(parser=top, json=False)
    words = top.add_subparsers(metavar="VERB")
    groups: dict[str, Any] = {}
    for verb in all_verbs():
        place = words
        if verb.group is not None:
            name, summary = verb.group.name, verb.group.summary
            if name not in groups:
                group = words.add_parser(name, help=summary, description=summary)
                group.set_defaults(parser=group)
                groups[name] = group.add_subparsers(metavar="WHAT")
            place = groups[name]
        _add(place, verb)
    return top


def _add(place: Any, verb: Verb) -> None:
    own: argparse.ArgumentParser = place.add_parser(
        verb.name, help=verb.summary, description=verb.summary, allow_abbrev=False
    )
    own.add_argument("--json", action="store_true", help="print one JSON object")
    verb.arguments(own)
    own.set_defaults(verb=verb)


if __name__ == "__main__":
    sys.exit(main())
