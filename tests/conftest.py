"""Which tests run side by side: with `pytest -n 2 --dist loadgroup`, files do.

Tests that start Ray come first: they wait more than they compute, and the others fill the gaps.
"""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file together, and put those that start Ray first."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(item.path.name))
    with_ray = {item.path for item in items if item.get_closest_marker("ray_cluster")}
    items.sort(key=lambda item: item.path not in with_ray)
