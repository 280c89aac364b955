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

_IN_ORDER = (
    *(posterior, views, training, fixmatch, patches, noise, vault, moments, accounting, votes),
    *(teachers, audits, records, tracking, start, sweeps),
)
BENCHMARKS = tuple(each for module in _IN_ORDER for each in module.BENCHMARKS)
