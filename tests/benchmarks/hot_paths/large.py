"""A Parquet file of 40 columns, requested, released and learned in parts."""

import contextlib
import io
from itertools import count
from pathlib import Path

from labeldp.platform.cli.command_line import main
from tests.benchmarks.benchmark import Work, benchmark
from tests.benchmarks.large_table import auc, commands, write

_ROWS, _AT_ONCE = 16_000, 4_000


@benchmark(
    "large-table",
    "request, release and fit of 16,000 rows x 40 columns of Parquet in 4 parts",
    "the same in one part; tests.benchmarks.large_table --rows 10000000 is the full size",
    mark=0.45,
    most_megabytes=250,
    rounds=3,
)
def _large(scratch: Path) -> Work:
    write(scratch, rows=_ROWS)
    runs = count()

    def run(rows_at_once: int | None) -> str:
        to = f"{next(runs)}-"
        for arguments in commands(scratch, rows_at_once=rows_at_once, to=to).values():
            with contextlib.redirect_stdout(io.StringIO()):
                assert main(arguments) == 0
        return f"{to}boosting"

    def check() -> None:
        for rows_at_once in (None, _AT_ONCE):
            assert 0.6 < auc(scratch, model=run(rows_at_once)) < 0.823

    return Work(ours=lambda: run(_AT_ONCE), reference=lambda: run(None), check=check)
