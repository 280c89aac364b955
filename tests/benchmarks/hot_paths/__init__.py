"""The hot paths: each module adds its own to `BENCHMARKS`, in this order."""

from importlib import import_module

for _name in (
    *("posterior", "views", "training", "patches", "noise", "vault", "moments"),
    *(
        "accounting",
        "votes",
        "teachers",
        "audits",
        "records",
        "tracking",
        "start",
        "sweeps",
        "large",
    ),
):
    import_module(f"{__name__}.{_name}")
