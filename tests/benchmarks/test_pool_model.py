"""The simulated pool against what can be written down: rounds, sums, restarts, maxima."""

import math

import numpy as np
import pytest

from tests.benchmarks.pool_model import Machines, Policy, PoolRun, TaskTimes, simulate

ALONE = Machines(workers=1)


def run(
    teachers: int,
    *,
    batch: int = 1,
    times: TaskTimes | None = None,
    machines: Machines = ALONE,
    policy: Policy | None = None,
    seed: int = 0,
) -> PoolRun:
    return simulate(
        teachers,
        batch,
        times=times or TaskTimes(each=2.0),
        machines=machines,
        policy=policy or Policy(),
        seed=seed,
    )


@pytest.mark.parametrize("ahead", [1, 2])
@pytest.mark.parametrize(("teachers", "workers"), [(7, 1), (7, 3), (9, 3), (100, 1_000)])
def test_equal_teachers_take_whole_rounds(teachers: int, workers: int, ahead: int) -> None:
    found = run(teachers, machines=Machines(workers=workers), policy=Policy(ahead=ahead))
    assert found.makespan == 2.0 * math.ceil(teachers / workers)
    assert found.useful == 2.0 * teachers and found.lost == found.copied == 0
    # Who has nothing left is let go at the end of its last round: all that is paid is work.
    assert found.paid == pytest.approx(found.useful) and found.utilization == pytest.approx(1)


def test_batches_cost_their_fixed_part_once() -> None:
    times = TaskTimes(fixed=10.0, each=1.0)
    assert run(100, batch=1, times=times).makespan == 1_100
    assert run(100, batch=30, times=times).makespan == 4 * 10 + 100  # 30, 30, 30 and 10
    with pytest.raises(ValueError, match="1 or more"):
        run(0)


def test_one_worker_takes_the_sum_of_what_is_drawn() -> None:
    times = TaskTimes(each=2.0, spread=(0.5, 1.0, 1.5), stragglers=0.1, slower=5.0)
    found = run(10_000, times=times)
    assert found.makespan == pytest.approx(found.useful)
    # Mean: 2 s, and in one run of ten 4 x 2 s more.
    deviation = 2 * math.sqrt(np.var(times.factors(10**6, np.random.default_rng(1))) * 10_000)
    assert abs(found.makespan - 10_000 * 2 * 1.4) < 4 * deviation
    assert found == run(10_000, times=times)  # seeded


def test_as_many_workers_as_teachers_take_the_longest_draw() -> None:
    spread, workers = tuple(np.linspace(0.1, 1.9, 19)), 10
    times = TaskTimes(each=1.0, spread=spread)
    found = [
        run(workers, times=times, machines=Machines(workers=workers), seed=seed).makespan
        for seed in range(2_000)
    ]
    below = (np.arange(20) / 19) ** workers  # the largest of ten is one of the first so many
    expected = float(np.sum(spread * np.diff(below)))
    assert abs(np.mean(found) - expected) < 4 * np.std(found) / math.sqrt(len(found))


def test_restarts_under_preemption_take_their_known_mean() -> None:
    """A task of s seconds, deaths at rate r, w seconds of waiting: (1/r + w) (exp(r s) - 1)."""
    seconds, rate, wait, teachers = 1_800.0, 1.0 / 3_600, 180.0, 4_000
    found = run(
        teachers,
        times=TaskTimes(each=seconds),
        machines=Machines(workers=1, deaths_per_hour=1.0, replaced_after=wait),
    )
    one = (1 / rate + wait) * math.expm1(rate * seconds)
    assert found.makespan / teachers == pytest.approx(one, rel=0.05)
    assert found.paid == pytest.approx(found.makespan - wait * found.deaths)
    assert found.deaths / teachers == pytest.approx(math.expm1(rate * seconds), rel=0.05)
    assert found.useful == teachers * seconds and found.given_up == 0


def test_a_pool_that_counts_deaths_gives_up_what_a_long_batch_meets() -> None:
    rate, teachers = 0.5, 20_000
    found = run(
        teachers,
        times=TaskTimes(each=3_600.0),
        machines=Machines(workers=50, deaths_per_hour=rate),
        policy=Policy(tries=3),
    )
    expected = teachers * (-math.expm1(-rate)) ** 3
    assert abs(found.given_up - expected) < 4 * math.sqrt(expected)


def test_a_batch_held_ahead_waits_for_a_straggler() -> None:
    times = TaskTimes(each=1.0, stragglers=0.02, slower=50.0)
    machines = Machines(workers=10)
    waits, goes = (
        [
            run(100, times=times, machines=machines, policy=Policy(ahead=ahead), seed=s).makespan
            for s in range(40)
        ]
        for ahead in (2, 1)
    )
    assert np.mean(goes) < np.mean(waits)


def test_ahead_hides_the_driver_where_batches_are_short() -> None:
    machines = Machines(workers=2, driver=0.5)
    one, two = (
        run(200, times=TaskTimes(each=1.0), machines=machines, policy=Policy(ahead=ahead)).makespan
        for ahead in (1, 2)
    )
    assert one == pytest.approx(150, abs=2)  # each batch waits half a second for the driver
    assert two == pytest.approx(100, abs=2)
    # Beyond its pace more workers buy nothing.
    many = Machines(workers=1_000, driver=0.5)
    assert run(2_000, times=TaskTimes(each=1.0), machines=many).makespan == pytest.approx(1_001)


def test_a_copy_ends_what_a_straggler_began() -> None:
    times = TaskTimes(each=1.0, stragglers=0.02, slower=50.0)
    machines = Machines(workers=20)
    plain, copied = (
        [
            run(200, times=times, machines=machines, policy=Policy(copy_after=limit), seed=s)
            for s in range(40)
        ]
        for limit in (None, 2.0)
    )
    assert np.mean([each.makespan for each in copied]) < 0.6 * np.mean(
        [each.makespan for each in plain]
    )
    assert all(each.copied == 0 for each in plain) and any(each.copied for each in copied)
    # Where nothing straggles nothing is copied.
    assert run(200, machines=machines, policy=Policy(copy_after=2.0)).copied == 0


def test_who_is_not_let_go_is_paid_until_the_end() -> None:
    machines = Machines(workers=3)
    kept = run(7, machines=machines, policy=Policy(release=False))
    assert kept.paid == 3 * kept.makespan and kept.tail == 2.0
    assert run(7, machines=machines).paid == 14


@pytest.mark.parametrize(
    "bad",
    [
        lambda: TaskTimes(each=0.0),
        lambda: TaskTimes(slower=0.5),
        lambda: TaskTimes(stragglers=2.0),
        lambda: TaskTimes(spread=(0.0,)),
        lambda: Machines(workers=0),
        lambda: Machines(workers=1, deaths_per_hour=-1.0),
    ],
)
def test_what_can_not_be_is_refused(bad: object) -> None:
    assert callable(bad)
    with pytest.raises(ValueError, match=r"give|take|share"):
        bad()
