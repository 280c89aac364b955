"""Which tests run side by side: with `pytest -n 2 --dist loadgroup`, files do.

Files that start Ray come first: they wait more than they compute, and the others fill the gaps.
Those that compare with one undisturbed sweep stay together, so that it runs once.
"""

import pytest


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in this hook too
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file together, and put files that start Ray first."""
    compared = {item.path for item in items if "undisturbed" in getattr(item, "fixturenames", ())}
    with_ray = {item.path for item in items if item.get_closest_marker("ray_cluster")}
    for item in items:
        group = "undisturbed" if item.path in compared else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
    # The longest group first, or it would be left alone at the end.
    items.sort(key=lambda item: (item.path not in compared, item.path not in with_ray))
