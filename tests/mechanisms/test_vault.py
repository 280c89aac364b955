"""One release is drawn and paid once; a request for other noise is paid again."""

import json
import math
import os
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.accounting import (
    Event,
    GaussianEvent,
    PureEvent,
    RandomizedResponseEvent,
    RenyiEvent,
)
from labeldp.mechanisms.accuracy_estimate import CorrectCount
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.randomness import (
    AnyGenerator,
    NoiseSource,
    OsEntropy,
    SecureEntropy,
    SecureGenerator,
    SeededNoise,
)
from labeldp.mechanisms.release_store import MemoryStore, OtherLabels, read_event, write_event
from labeldp.mechanisms.rr_with_prior import ClusterHistograms
from labeldp.mechanisms.vault import LabelVault
from tests.mechanisms.test_ledger import line

LABELS = np.arange(40) % 4


def vault(**settings: Any) -> LabelVault:
    return LabelVault(labels=LABELS, num_classes=4, **settings)


def rr(epsilon: float = 1.0) -> RandomizedResponse:
    return RandomizedResponse(epsilon=epsilon, num_classes=4)


def test_over_budget_is_refused_and_nothing_is_drawn() -> None:
    home = vault(budget=Budget(epsilon=2.5))
    home.release(rr(2.0))
    with pytest.raises(BudgetExceeded, match=r"budget is epsilon 2\.5.*2 is spent.*make it 3"):
        home.release(rr(1.0))
    assert len(home.charges()) == 1
    home.release(rr(0.5))  # what still fits is granted
    assert home.epsilon(delta=0.0) == 2.5


def test_budget_exceeded_survives_the_way_between_processes() -> None:
    home = vault(budget=Budget(epsilon=0.5))
    with pytest.raises(BudgetExceeded) as caught:
        home.release(rr())
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert (again.spent, again.requested) == (0.0, 1.0)


def test_seeded_noise_repeats_in_another_store() -> None:
    mechanism = LaplaceNoise(epsilon=1.0, num_classes=4)
    one, two = (vault().release(mechanism, noise=SeededNoise(seed=7)) for _ in range(2))
    assert one.key != two.key
    assert (one.values == two.values).all()
    drawn = vault().release(rr(), noise=SeededNoise(seed=7)).values[:12]
    assert drawn.dtype.kind == "i" and drawn.tolist() == [1, 3, 0, 2, 0, 2, 2, 2, 0, 1, 2, 3]


def test_a_release_of_some_rows_is_of_their_labels() -> None:
    rows = np.array([5, 3, 22])
    assert (vault().release(rr(60.0), indices=rows).values == LABELS[rows]).all()


def test_a_store_is_tied_to_the_labels_of_its_first_vault() -> None:
    store = MemoryStore()
    vault(store=store)
    vault(store=store)
    with pytest.raises(OtherLabels, match="other labels"):
        LabelVault(labels=LABELS[::-1], num_classes=4, store=store)


@pytest.mark.parametrize("noise", [None, SecureEntropy(draw=2)])
def test_a_line_can_be_had_before_its_release(noise: NoiseSource | None) -> None:
    home, clusters = vault(), np.arange(40) % 3
    mechanism = ClusterHistograms(epsilon=1.0, num_classes=4)
    known = home.charge_of(mechanism, clusters, noise=noise)
    assert home.charges() == ()
    assert home.release(mechanism, clusters, noise=noise).key == known.key
    assert home.charges() == (known,)


def test_many_threads_that_ask_for_one_release_get_one() -> None:
    home, found = vault(), []
    threads = [threading.Thread(target=lambda: found.append(home.release(rr()))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(found) == 16
    assert len(home.charges()) == 1


def test_readers_cannot_change_releases() -> None:
    home = vault()
    release = home.release(rr())
    for kept in (release.values, home._labels):
        with pytest.raises(ValueError, match="read-only"):
            kept[0] = 3
    assert home.release(LaplaceNoise(epsilon=1.0, num_classes=4)).values.dtype == np.float32


def test_a_reader_cannot_change_the_charged_rows() -> None:
    home, rows = vault(), np.arange(5)
    read = home.release(rr(), indices=rows)
    other = home.release(rr(), indices=np.arange(3, 8))
    rows[:] = np.arange(20, 25)
    assert read.indices is not None
    with pytest.raises(ValueError, match="read-only"):
        read.indices[:] = np.arange(20, 25)
    assert home.epsilon(delta=0.0, keys=[read.key, other.key]) == home.epsilon(delta=0.0) == 2.0


def test_a_store_shows_neither_its_salt_nor_what_it_keeps() -> None:
    store = MemoryStore()
    release = vault(store=store).release(rr())
    assert repr(store) == "MemoryStore()"
    assert release.key not in repr(store) and repr(store.salt()) not in repr(store)


def test_an_unknown_key_is_named_and_not_free() -> None:
    home = vault()
    key = home.release(rr()).key
    assert home.epsilon(delta=0.0, keys=[key]) == 1.0
    assert home.epsilon(delta=0.0, keys=[]) == 0.0
    with pytest.raises(ValueError, match="no release has the key 'nonsense'"):
        home.epsilon(delta=0.0, keys=[key, "nonsense"])
    with pytest.raises(ValueError, match="no release has the key"):
        vault().epsilon(delta=0.0, keys=[key])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_fork_of_a_vault_draws_nothing() -> None:
    home = vault()
    kept = home.release(rr())
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        said = "a release"
        try:
            home.release(rr(2.0))
        except BaseException as error:
            said = str(error)
        os.write(writable, said.encode())
        os._exit(0)
    os.close(writable)
    os.waitpid(child, 0)
    with os.fdopen(readable) as pipe:
        said = pipe.read()
    assert f"belongs to process {os.getpid()}, and process {child} is a fork of it" in said
    assert home.release(rr()).key == kept.key and len(home.charges()) == 1


def test_a_vault_shows_nothing_and_is_not_copied() -> None:
    home = vault()
    assert repr(home) == "LabelVault(num_labels=40, num_classes=4)" and home.num_classes == 4
    with pytest.raises(TypeError, match="can't be copied"):
        pickle.dumps(home)


def test_shards_are_disjoint_and_cover_every_label() -> None:
    shards = vault().partition(7, seed=3)
    rows = np.arange(39, 24, -1)
    among = [(shard.indices, shard.labels) for shard in vault().partition(2, seed=3, among=rows)]
    assert all((labels == LABELS[rows][part]).all() for part, labels in among)
    assert sorted(np.concatenate([part for part, _ in among])) == list(range(15))
    with pytest.raises(ValueError, match=r"index 40 is outside 0\.\.39"):
        vault().partition(2, seed=3, among=np.array([40]))
    assert [len(vault().partition(n, seed=3)) for n in (1, 40)] == [1, 40]
    together = np.concatenate([shard.indices for shard in shards])
    assert sorted(together) == list(range(40))
    assert all((shard.labels == LABELS[shard.indices]).all() for shard in shards)
    assert {len(shard.indices) for shard in shards} == {5, 6}
    again = vault().partition(7, seed=3)
    assert all((a.indices == b.indices).all() for a, b in zip(shards, again, strict=True))
    assert repr(shards[-1]) == "Shard(num_labels=5)"


def test_a_budget_without_delta_refuses_after_an_approximate_release() -> None:
    store = MemoryStore()
    vault(store=store).release(GaussianNoise(noise_std=5.0, num_classes=4))
    later = vault(store=store, budget=Budget(epsilon=3.0))
    with pytest.raises(BudgetExceeded, match="inf is spent and this would make it inf") as refusal:
        later.release(rr())
    assert refusal.value.spent == math.inf
    assert len(later.charges()) == 1


def test_two_vaults_that_draw_at_the_same_time_do_not_overspend_together() -> None:
    class Interrupted(RandomizedResponse):
        def release(self, labels: Any, *, generator: AnyGenerator) -> Any:
            other.release(rr(2.0))  # another vault comes first while this one draws
            return super().release(labels, generator=generator)

    store = MemoryStore()
    one, other = (vault(store=store, budget=Budget(epsilon=3.0)) for _ in range(2))
    with pytest.raises(BudgetExceeded, match="2 is spent and this would make it 4"):
        one.release(Interrupted(epsilon=2.0, num_classes=4))
    assert len(store.charges()) == 1
    assert one.epsilon(delta=0.0) == other.epsilon(delta=0.0) == 2.0


@pytest.mark.parametrize(
    ("mechanism", "public"),
    [
        (LabelMoments(noise_std=1.0, num_classes=3), np.full((4, 2), 0.5)),
        (ClusterHistograms(epsilon=1.0, num_classes=3), np.array([0, 1, 0, 1])),
        (CorrectCount(epsilon=1.0), np.array([0, 1, 0, 1])),
    ],
)
def test_counting_mechanisms_draw_secret_noise_exactly_and_seeded_noise_as_ever(
    mechanism: Any, public: NDArray[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    release = type(mechanism).release

    def watched(self: Any, *given: Any, generator: AnyGenerator) -> Any:
        seen.append(type(generator))
        return release(self, *given, generator=generator)

    monkeypatch.setattr(type(mechanism), "release", watched)
    home = LabelVault(labels=np.array([0, 1, 2, 0]), num_classes=3)
    for noise in (OsEntropy(), SecureEntropy(), SeededNoise(seed=1)):
        home.release(mechanism, public, noise=noise)
    assert seen == [SecureGenerator, SecureGenerator, np.random.Generator]


# release_store: events survive being written down; the store in memory keeps both or neither.


def test_events_are_standard_json() -> None:
    text = write_event(PureEvent(epsilon=math.inf))
    assert "Infinity" not in text
    assert json.loads(text) == {"name": "PureEvent", "epsilon": math.inf}


def test_an_event_of_an_unknown_kind_is_not_read_as_another() -> None:
    with pytest.raises(KeyError, match="NewerEvent"):
        read_event('{"name": "NewerEvent", "epsilon": 1.0}')


@pytest.mark.parametrize(
    ("indices", "beyond"),
    [(None, False), ([0, 1], False), ([3, 4], False), ([4], True), ([4, 9], True)],
)
def test_a_line_of_held_out_labels_touches_none_to_train_on(
    indices: list[int] | None, beyond: bool
) -> None:
    assert line(PureEvent(epsilon=1.0), indices=indices).is_beyond(4) is beyond


@pytest.mark.parametrize(
    ("event", "out"),
    [
        (PureEvent(epsilon=math.inf), True),
        (RandomizedResponseEvent(epsilon=math.inf, num_classes=3), True),
        (PureEvent(epsilon=700.0), False),
        (GaussianEvent(noise_multiplier=1e-9), False),
        # Dear without limit, and no copy of the labels: sums with noise count it.
        (RenyiEvent(orders=(2.0,), rdp=(math.inf,)), False),
    ],
)
def test_a_line_says_whether_labels_left_as_they_are(event: Event, out: bool) -> None:
    assert line(event).hands_out is out
