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

#: Keys of a section that the overview names.
_NAMED = 4
#: A longer signature is broken.
_LINE = 70

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
    return {**_configuration(), "command_line": _command_line(), **_python()}


def _configuration() -> dict[str, str]:
    """An overview, and a page for each section of a trial's keys and for each method."""
    rows = all_keys()
    unsaid = [facts.key for facts in rows if not facts.meaning]
    if unsaid:
        raise ValueError(f"{unsaid[0]} has no meaning; state it in its field's key()")
    parts: dict[str, list[KeyFacts]] = {}
    for facts in rows:
        section = facts.key.partition(".")[0] if "." in facts.key else "a trial"
        for name in [f"method={method}" for method in facts.methods] or [section]:
            parts.setdefault(name, []).append(facts)
    made = {}
    lines = [
        "# Configuration keys",
        "",
        "Every key of a trial: `key=value` on the command line of a sweep fixes it, `key=[a,b]` "
        "makes it an axis; a [file](../sweeps.md#files-of-settings) (`--config FILE.yaml`) sets "
        "many. `labeldp config METHOD --match TEXT` searches them.",
        "",
        "| section | keys |",
        "|---|---|",
    ]
    for name, keys in parts.items():
        page = name.replace("=", "_").replace(" ", "_")
        head = [f"# Configuration: {name}", "", "[All sections](../configuration.md)", ""]
        made[f"configuration/{page}"] = "\n".join([*head, *_listed(keys)]) + "\n"
        words = ", ".join(f"`{facts.key}`" for facts in keys[:_NAMED])
        more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
        lines.append(f"| [{name}](configuration/{page}.md) | {words}{more} |")
    return {"configuration": "\n".join(lines) + "\n", **made}


def _listed(rows: list[KeyFacts]) -> list[str]:
    """An item for each key: a table would break long keys in the middle."""
    found = []
    for facts in rows:
        kind = "; ".join(filter(None, (facts.type, facts.bounds)))
        found += [f"- `{facts.key}` = `{facts.default}`", "", f"    {facts.meaning} *({kind})*", ""]
    return found


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


def _python() -> dict[str, str]:
    """An overview with every function, and a page for each class."""
    overview = ["# Python interface", "", "[Python](../python.md) shows them at work.", ""]
    functions = []
    made = {}
    for module, names in _PROMISED.items():
        for name in names:
            thing = getattr(import_module(module), name)
            title = f"{module}.{name}"
            if not inspect.isclass(thing):
                functions += _described(thing, title, level=2)
                overview.append(f"- [`{title}`](#{re.sub('[^a-z0-9_]', '', title.lower())})")
                continue
            made[f"python/{name}"] = "\n".join(_described(thing, title, level=1)) + "\n"
            first = (inspect.getdoc(thing) or "").partition("\n")[0]
            overview.append(f"- [`{title}`](python/{name}.md): {first}")
    return {"python": "\n".join([*overview, "", *functions]) + "\n", **made}


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
    """Return a signature; of a long one, each parameter has a line."""
    try:
        text = re.sub(r"labeldp(\.\w+)*\.|typing\.|numpy\.", "", str(inspect.signature(thing)))
    except ValueError:  # of a class without a docstring
        return "(...)"
    if len(text) <= _LINE:
        return text
    given, arrow, returns = text.rpartition(") -> ")
    if not arrow:
        given = text.rpartition(")")[0]
    lines = [""]
    for letter in given.removeprefix("("):
        lines[-1] += letter
        whole = lines[-1]
        if letter == "," and all(whole.count(a) == whole.count(b) for a, b in ("[]", "()", "{}")):
            lines.append("")
    return (
        "(\n"
        + "".join(f"    {line.strip().rstrip(',')},\n" for line in lines)
        + (f") -> {returns}" if arrow else ")")
    )


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
