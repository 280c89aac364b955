"""fast_network_versus: the command makes both tables unless it is asked for one."""

import pytest

from tests.benchmarks import fast_network_versus


@pytest.mark.parametrize(
    ("arguments", "made"),
    [([], ["networks", "ways"]), (["networks"], ["networks"]), (["ways"], ["ways"])],
)
def test_it_makes_the_tables_that_it_is_asked_for(
    arguments: list[str], made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    monkeypatch.setattr(fast_network_versus, "load", lambda name: name)
    monkeypatch.setattr(fast_network_versus, "part", lambda data, images: (_Judged(), data))
    monkeypatch.setattr(fast_network_versus, "_networks", lambda *_: found.append("networks"))
    monkeypatch.setattr(fast_network_versus, "_ways", lambda *_: found.append("ways"))
    fast_network_versus.main(arguments)
    assert found == made


class _Judged:
    test_labels = (0, 1)
