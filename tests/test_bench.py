"""`make bench`: its rules with made-up timings, and its smallest benchmark in earnest."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import bench
from tests.benchmarks.bench import chosen, in_this_process, line_of, main, row_of
from tests.benchmarks.benchmark import Benchmark, Figures, Work, judge
from tests.benchmarks.floor import ELEMENTARY, Least, Rates, rates_here
from tests.benchmarks.hot_paths import BENCHMARKS
from tests.benchmarks.machine import bf16_path, this_machine
from tests.benchmarks.performance_page import BENCH, PAGE, part_of, table_of, with_part

SMALLEST = "audit-memorization"
QUIET = Figures(
    seconds=1.0,
    reference_seconds=10.0,
    rounds=5,
    peak_megabytes=3.0,
    waited=0.01,
    load_before=0.5,
    load_after=1.0,
)

RATES = Rates(bytes=1e9, operations=1e10, bf16_operations=1e11)


def a_benchmark(**changes: Any) -> Benchmark:
    made: dict[str, Any] = {
        "name": "made-up",
        "path": "something",
        "reference": "something slower",
        "floor": "nothing.",
        "prepare": lambda scratch: Work(ours=int, reference=int, check=lambda: None),
        "mark": 8.0,
    }
    return Benchmark(**{**made, **changes})


def test_a_ratio_under_its_mark_fails() -> None:
    assert judge(a_benchmark(), QUIET, cores=2).passed
    verdict = judge(a_benchmark(), replace(QUIET, reference_seconds=7.9), cores=2)
    assert not verdict.passed and not verdict.busy
    assert "7.9" in verdict.words and "mark 8" in verdict.words


@pytest.mark.parametrize("limit", [{"most_seconds": 0.9}, {"most_megabytes": 2.9}])
def test_what_takes_too_long_or_too_much_fails(limit: dict[str, float]) -> None:
    assert not judge(a_benchmark(**limit), QUIET, cores=2).passed
    twice = a_benchmark(**{key: 2 * most for key, most in limit.items()})
    assert judge(twice, QUIET, cores=2).passed
    untold = replace(QUIET, peak_megabytes=None)
    assert judge(a_benchmark(most_megabytes=2.9), untold, cores=2).passed


@pytest.mark.parametrize("how", [{"load_before": 2.1}, {"waited": 0.2}])
def test_a_busy_machine_says_so_and_widens_marks_instead_of_failing(how: dict[str, Any]) -> None:
    slow = replace(QUIET, reference_seconds=5.0, **how)
    verdict = judge(a_benchmark(most_seconds=0.6), slow, cores=2)
    assert verdict.passed and verdict.busy and "busy" in verdict.words
    far_below = replace(slow, reference_seconds=3.9)
    assert not judge(a_benchmark(), far_below, cores=2).passed


def test_its_own_load_afterwards_is_not_others() -> None:
    assert not judge(a_benchmark(), replace(QUIET, load_after=3.0), cores=2).busy


@pytest.mark.parametrize("wrong", [{"rounds": 4}, {"mark": 0.0}])
def test_a_benchmark_without_a_median_or_a_mark_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        a_benchmark(**wrong)


def test_every_hot_path_has_a_name_of_its_own_and_says_what_its_floor_is() -> None:
    assert len({each.name for each in BENCHMARKS}) == len(BENCHMARKS)
    assert all(each.floor.endswith(".") and each.path and each.reference for each in BENCHMARKS)
    assert chosen([]) == BENCHMARKS
    with pytest.raises(ValueError, match="no benchmark 'posteriors'; there are posterior"):
        chosen(["posteriors"])


def test_the_smallest_is_timed_and_its_result_compared() -> None:
    (benchmark,) = chosen([SMALLEST])
    figures = in_this_process(benchmark)
    assert figures.rounds == benchmark.rounds
    assert 0 < figures.seconds < figures.reference_seconds
    assert figures.waited >= 0
    row = row_of(benchmark, figures, cores=2, rates=RATES)
    assert row["ratio"] == pytest.approx(figures.ratio) and row["gpu"] == "not run"
    assert SMALLEST in line_of(row)


def test_sides_that_differ_fail_before_anything_is_timed(tmp_path: Path) -> None:
    def check() -> None:
        raise AssertionError("1 is not 2")

    def never() -> None:
        raise AssertionError("timed")

    wrong = a_benchmark(prepare=lambda scratch: Work(ours=int, reference=never, check=check))
    with pytest.raises(AssertionError, match="1 is not 2"):
        in_this_process(wrong)


def run_with(
    found: Figures | str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> tuple[int, dict[str, Any]]:
    monkeypatch.setattr(bench, "in_its_own_process", lambda benchmark: found)
    path = tmp_path / "bench.json"
    code = main(["--only", SMALLEST, "--json", str(path)])
    return code, json.loads(path.read_text())


def test_json_lies_beside_the_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = run_with(QUIET, monkeypatch, tmp_path)
    assert code == 0
    assert {"date", "machine", "rates", "seconds", "rows"} == set(told)
    assert {"processor", "cores", "memory_gigabytes", "bf16", "versions", "commit"} == set(
        told["machine"]
    )
    (row,) = told["rows"]
    keys = {"name", "path", "reference", "floor", "mark", "seconds", "reference_seconds", "ratio"}
    keys |= {
        "rounds",
        "peak_megabytes",
        "load_before",
        "load_after",
        "waited",
        "clock",
        "floor_seconds",
    }
    assert keys | {"floor_seconds", "gpu", "busy", "passed", "words"} == set(row)
    assert SMALLEST in capsys.readouterr().out


@pytest.mark.parametrize(
    "found", [replace(QUIET, reference_seconds=0.1), "AssertionError: 1 is not 2"]
)
def test_a_failure_ends_with_one_and_is_named(
    found: Figures | str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, told = run_with(found, monkeypatch, tmp_path)
    assert code == 1 and not told["rows"][0]["passed"]
    said = capsys.readouterr()
    assert "FAILED" in said.out and SMALLEST in said.err


def test_the_page_is_written_between_its_marks_and_names_every_hot_path() -> None:
    rows = [row_of(each, QUIET, cores=2, rates=RATES) for each in BENCHMARKS]
    machine = {
        "commit": "abc",
        "processor": "P",
        "cores": 2,
        "memory_gigabytes": 8,
        "bf16": "AMX",
        "versions": "V",
    }
    report = {
        "date": "2026-01-02",
        "machine": machine,
        "seconds": 1.0,
        "rows": rows,
        "rates": asdict(RATES),
    }
    text = with_part(BENCH, table_of(report), PAGE.read_text(encoding="utf-8"))
    assert "2026-01-02, commit abc: P" in text and "a quiet machine" in text
    assert with_part(BENCH, table_of(report), text) == text
    now = part_of(BENCH, PAGE.read_text(encoding="utf-8"))
    measured = {each.name for each in BENCHMARKS if f"\n| {each.name} |" in now}
    later = PAGE.read_text(encoding="utf-8").partition("Added since that run")[2].partition("\n\n")
    promised = {each.name for each in BENCHMARKS if f"`{each.name}`" in later[0]}
    assert measured | promised == {each.name for each in BENCHMARKS}, "bench --write is due"
    assert not measured & promised, "strike from the page what is in its table by now"
    with pytest.raises(ValueError, match="lacks"):
        with_part(BENCH, "table", "nothing")


def test_a_processor_says_which_path_bfloat16_takes() -> None:
    assert bf16_path({"amx_bf16", "avx512_bf16"}) == "AMX"
    assert bf16_path({"avx512_bf16"}) == "AVX-512 BF16"
    assert bf16_path(()).startswith("none")
    assert this_machine().cores >= 1


def test_a_floor_is_what_takes_longest_at_the_best_rates() -> None:
    assert Least().seconds(RATES) is None
    assert Least(bytes=2e9).seconds(RATES) == 2.0
    both = Least(bytes=1e9, operations=2e10, bf16_operations=1e11)
    assert both.seconds(RATES) == 3.0
    assert ELEMENTARY > 1
    row = row_of(a_benchmark(least=both), QUIET, cores=2, rates=RATES)
    assert row["floor_seconds"] == 3.0
    here = rates_here()
    # No processor of this century copies less than 100 MB in a second, or more than 10 TB.
    assert 1e8 < here.bytes < 1e13 and 1e8 < here.operations < 1e14
    assert here.bf16_operations > 0
