"""Which tests run first, where processes share them: `pytest -n 3 --dist loadfile`."""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files that start Ray first: left to the end, the longest would run alone."""
    with_ray = {item.path for item in items if item.get_closest_marker("ray_cluster")}
    items.sort(key=lambda item: item.path not in with_ray)
