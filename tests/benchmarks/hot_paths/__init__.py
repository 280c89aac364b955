"""The hot paths: each module adds its own to `BENCHMARKS`, in this order."""

from importlib import import_module

for _name in ("mechanisms", "training", "platform", "large"):
    import_module(f"{__name__}.{_name}")
