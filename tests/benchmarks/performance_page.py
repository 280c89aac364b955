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
    machine, rates, rows = report["machine"], report["rates"], report["rows"]
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
        + f"In all {report['seconds']:.0f} s. One core copies {rates['bytes'] / 1e9:.0f} GB and "
        f"multiplies at {rates['operations'] / 1e9:.0f} (bfloat16 "
        f"{rates['bf16_operations'] / 1e9:.0f}) 10^9 operations in a second; 'times its floor' is "
        "the median over the time that the floor takes at these rates."
    )
    lines = [
        about,
        "",
        "| name | what is timed | against | median | ratio | mark | times its floor | MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        peak = "?" if row["peak_megabytes"] is None else f"{row['peak_megabytes']:.0f}"
        lines.append(
            f"| {row['name']} | {row['path']} | {row['reference']} | {_time(row['seconds'])} | "
            f"{row['ratio']:.3g} | {row['mark']:g} | {_above_floor(row)} | {peak} |"
        )
    return "\n".join(lines)


def _above_floor(row: dict[str, Any]) -> str:
    least = row["floor_seconds"]
    return "" if least is None else f"{row['seconds'] / least:.2g}"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"
