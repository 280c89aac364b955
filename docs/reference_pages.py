"""Pages of the site that are generated from the code: keys, verbs, the Python interface.

A hook of mkdocs (`mkdocs.yml`): the pages are written when the site is built, and are in no folder.
A key without a meaning, or a verb without an example, fails the build.
"""

import csv
import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import labeldp
from labeldp.platform.cli.command_line import VERBS, Verb
from labeldp.platform.cli.config_keys import KeyFacts, all_keys

#: Headings of a docstring.
_SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Yields")

#: Promised names of Python: module -> names. Those of `labeldp` are all that it exports.
_PROMISED = {
    "labeldp": tuple(name for name in labeldp.__all__ if not name.startswith("_")),
    "labeldp.trainers.models.trained_model": ("load_model", "TrainedModel"),
    "labeldp.mechanisms.vault": ("LabelVault",),
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages to those that are files."""
    for name, content in pages().items():
        files.append(File.generated(config, f"reference/{name}.md", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Show the table of docs/bench.csv in the page on speed."""
    if page.file.src_uri != "performance.md":
        return markdown
    with Path(__file__).with_name("bench.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    return re.sub(r"<!-- bench\.csv.*-->", "\n".join(lines), markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Let links of a notebook lead to pages of the site, as those of other pages do."""
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    return re.sub(r'(href="(?!\w+:)[^"#]+)\.md(["#])', r"\1.html\2", html)


def pages() -> dict[str, str]:
    """Return the pages by name, in Markdown."""
    return {
        "configuration": _configuration(),
        "command_line": _command_line(),
        "python": _python(),
    }


def _configuration() -> str:
    rows = all_keys()
    unsaid = [facts.key for facts in rows if not facts.meaning]
    if unsaid:
        raise ValueError(f"{unsaid[0]} has no meaning; state it in its field's key()")
    shared = [facts for facts in rows if not facts.methods]
    own: dict[str, list[KeyFacts]] = {}
    for facts in rows:
        for method in facts.methods:
            own.setdefault(method, []).append(facts)
    parts = [
        "# Configuration keys",
        "",
        "Every key of a trial: `key=value` on the command line of a sweep fixes it, `key=[a,b]` "
        "makes it an axis; a [file](../sweeps.md#files-of-settings) (`--config FILE.yaml`) sets "
        "many. `labeldp config METHOD` prints the same tables.",
        "",
        "## Of every trial",
        "",
        *_table(shared),
    ]
    for method, keys in own.items():
        parts += ["", f"## method={method}", "", *_table(keys)]
    return "\n".join(parts) + "\n"


def _table(rows: list[KeyFacts]) -> list[str]:
    head = ["| key | type | default | bounds | meaning |", "|---|---|---|---|---|"]
    cells = ((f"`{f.key}`", f.type, f"`{f.default}`", f.bounds, f.meaning) for f in rows)
    return head + ["| " + " | ".join(_cell(text) for text in row) + " |" for row in cells]


def _cell(text: Any) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def _command_line() -> str:
    parts = ["# Command line", "", "Every verb takes `--json`, which prints one JSON object.", ""]
    for verb in VERBS:
        parts += [f"## labeldp {verb.words}", "", _sentence(verb.summary), ""]
        parts += ["```", f"$ {verb.example}", "```", "", "```", _usage(verb).rstrip(), "```", ""]
    return "\n".join(parts)


def _usage(verb: Verb) -> str:
    name = f"labeldp {verb.words}"
    context = click.Context(verb, info_name=name, terminal_width=88, show_default=True)
    formatter = context.make_formatter()
    verb.format_usage(context, formatter)
    verb.format_options(context, formatter)
    return formatter.getvalue()


def _python() -> str:
    parts = ["# Python interface", "", "[Python](../python.md) shows them at work.", ""]
    for module, names in _PROMISED.items():
        for name in names:
            parts += _described(getattr(import_module(module), name), f"{module}.{name}", level=2)
    return "\n".join(parts) + "\n"


def _described(thing: Any, name: str, *, level: int) -> list[str]:
    """A heading, a signature and a docstring; of a class also its public methods."""
    own = [f"{'#' * level} {name}", ""]
    if not isinstance(thing, property):
        own += ["```python", f"{name.rpartition('.')[2]}{_signature(thing)}", "```", ""]
    own += [_prose(inspect.getdoc(thing) or ""), ""]
    if inspect.isclass(thing):
        for key, member in vars(thing).items():
            if not key.startswith("_") and (callable(member) or isinstance(member, property)):
                own += _described(member, key, level=level + 1)
    return own


def _signature(thing: Any) -> str:
    try:
        return re.sub(r"labeldp(\.\w+)*\.|typing\.|numpy\.", "", str(inspect.signature(thing)))
    except ValueError:  # of a class without a docstring
        return "(...)"


def _prose(text: str) -> str:
    """Sections of a Google docstring as lists: `name: what it is` becomes an item."""
    lines = []
    listing = False
    for line in text.splitlines():
        if line.rstrip(":") in _SECTIONS and line.endswith(":"):
            lines += ["", f"**{line.rstrip(':')}**", ""]
            listing = True
        elif listing and re.match(r"    [*\w][\w*, .]*: ", line):
            term, _, rest = line.strip().partition(": ")
            lines.append(f"- `{term}`: {rest}")
        elif listing and line.strip() and not line.startswith("    "):
            listing = False
            lines.append(line)
        else:
            lines.append(f"  {line.strip()}" if listing and line.strip() else line)
    return "\n".join(lines)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?")) else ".")
