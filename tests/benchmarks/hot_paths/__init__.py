"""The hot paths, each a record: what is timed, against which reference, and the mark."""

from tests.benchmarks.hot_paths import (
    accounting,
    audits,
    fixmatch,
    moments,
    noise,
    patches,
    posterior,
    records,
    start,
    sweeps,
    teachers,
    tracking,
    training,
    vault,
    views,
    votes,
)

#: In the order of the table.
BENCHMARKS = (
    *posterior.BENCHMARKS,
    *views.BENCHMARKS,
    *training.BENCHMARKS,
    *fixmatch.BENCHMARKS,
    *patches.BENCHMARKS,
    *noise.BENCHMARKS,
    *vault.BENCHMARKS,
    *moments.BENCHMARKS,
    *accounting.BENCHMARKS,
    *votes.BENCHMARKS,
    *teachers.BENCHMARKS,
    *audits.BENCHMARKS,
    *records.BENCHMARKS,
    *tracking.BENCHMARKS,
    *start.BENCHMARKS,
    *sweeps.BENCHMARKS,
)
