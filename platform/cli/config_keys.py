"""`labeldp config [METHOD]`: every configuration key with type, default, bounds and meaning."""

from dataclasses import asdict
from shutil import get_terminal_size
from textwrap import fill

from labeldp.platform.cli.command import Answer
from labeldp.platform.sweep.key_reference import all_keys, keys_of


def config(*, method: str | None, match: str | None) -> Answer:
    """Return the keys of a method, or of all, whose name or meaning holds a text."""
    found = all_keys() if method is None else keys_of(method)
    text = (match or "").lower()
    keys = [facts for facts in found if text in f"{facts.key} {facts.meaning}".lower()]
    if not keys:
        raise ValueError(f"no key and no meaning holds {match!r}; `labeldp config` lists all keys")
    width, lines = max(60, get_terminal_size((120, 24)).columns), list[str]()
    for facts in keys:
        kind = ", ".join(filter(None, (facts.type, facts.bounds)))
        of = f" [{', '.join(facts.methods)}]" if method is None and facts.methods else ""
        lines.append(f"{facts.key} = {facts.default}")
        for line in (f"{kind}.", facts.meaning + of):
            lines.append(fill(line, width, initial_indent="    ", subsequent_indent="    "))
    return Answer(facts={"keys": list(map(asdict, keys))}, words="\n".join(lines))
