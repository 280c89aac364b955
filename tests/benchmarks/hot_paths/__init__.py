"""The hot paths, each a record: what is timed, against what, the floor and the mark."""

from tests.benchmarks.hot_paths import (
    accounting,
    audits,
    moments,
    noise,
    posterior,
    records,
    sweeps,
    teachers,
    vault,
    views,
    votes,
)

#: In the order of the table.
BENCHMARKS = (
    *posterior.BENCHMARKS,
    *views.BENCHMARKS,
    *noise.BENCHMARKS,
    *vault.BENCHMARKS,
    *moments.BENCHMARKS,
    *accounting.BENCHMARKS,
    *votes.BENCHMARKS,
    *teachers.BENCHMARKS,
    *audits.BENCHMARKS,
    *records.BENCHMARKS,
    *sweeps.BENCHMARKS,
)
