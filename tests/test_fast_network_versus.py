"""fast_network_versus: the command makes all tables unless it is asked for one."""

import pytest
import torch

from tests.benchmarks import fast_network_versus
from tests.benchmarks.fast_network import ONE_CORE
from tests.benchmarks.fast_network_versus import speed

TABLES = ["networks", "ways", "speeds"]


@pytest.mark.parametrize(
    ("arguments", "made"),
    [([], TABLES), *(([name], [name]) for name in TABLES)],
)
def test_it_makes_the_tables_that_it_is_asked_for(
    arguments: list[str], made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    monkeypatch.setattr(fast_network_versus, "load_or_refuse", lambda parser, name: name)
    monkeypatch.setattr(fast_network_versus, "part", lambda data, images: (_Judged(), data))
    for name in TABLES:
        monkeypatch.setattr(
            fast_network_versus, f"_{name}", lambda *_, name=name: found.append(name)
        )
    fast_network_versus.main(arguments)
    assert found == made


def test_a_speed_is_of_images() -> None:
    threads = torch.get_num_threads()
    try:
        assert 100 < speed(1, ONE_CORE) < 1e6
    finally:
        torch.set_num_threads(threads)


class _Judged:
    test_labels = (0, 1)
