"""The table of docs/performance.md, made of what `bench` measured."""

from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "performance.md"
BENCH = "bench"


def with_part(name: str, part: str, text: str) -> str:
    """Return the page with something else between the two marks of this name.

    Raises:
        ValueError: The page lacks them.
    """
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    before, begin_there, rest = text.partition(begin)
    _, end_there, after = rest.partition(end)
    if not (begin_there and end_there):
        raise ValueError(f"{PAGE} lacks {begin} or {end}, between which the table belongs")
    return f"{before}{begin}\n{part}\n{end}{after}"


def table_of(report: dict[str, Any]) -> str:
    """Return machine and table."""
    machine, rows = report["machine"], report["rows"]
    loads = [row["load_before"] for row in rows]
    busy = sum(row["busy"] for row in rows)
    about = (
        f"{report['date']}, commit {machine['commit']}: {machine['processor']}, "
        f"{machine['cores']} cores, {machine['memory_gigabytes']} GB, bf16: {machine['bf16']}; "
        f"{machine['versions']}. Load before each between {min(loads):.1f} and {max(loads):.1f}; "
        + (
            f"during {busy} of {len(rows)} others used the machine. "
            if busy
            else "a quiet machine. "
        )
        + f"In all {report['seconds']:.0f} s."
    )
    lines = [
        about,
        "",
        "| name | what is timed | median | ratio | mark |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['name']} | {row['path']} | {_time(row['seconds'])} | {row['ratio']:.3g} | "
            f"{row['mark']:g} |"
        )
    return "\n".join(lines)


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"
