"""config_files: files of settings and of sweeps, read exactly, refused by line, never run."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from labeldp.mechanisms.ledger import Budget
from labeldp.platform.settings.configuration import (
    AshaStop,
    ConfigurationError,
    DataSettings,
    TrialConfig,
    config_hash,
    flat_of,
    flatten,
    to_yaml,
    with_changes,
)
from labeldp.platform.settings.methods import METHODS
from labeldp.platform.settings.metrics import ChooseBy
from labeldp.platform.settings.sweep import (
    Choice,
    Grid,
    LogUniform,
    Preset,
    Resources,
    Sweep,
    SweepOptions,
    Uniform,
    Variant,
    plan_trials,
    sized_sweep,
    variants_of,
)
from labeldp.platform.sweep.config_files import (
    MOST_VALUES,
    load_sweep,
    merged,
    parse_overrides,
    read,
    sweep_of,
)
from labeldp.platform.sweep.plan import as_on_disk, plan_of
from labeldp.trainers.data.own_data import ColumnsLeftOut
from labeldp.trainers.data.own_files import HoldOut
from tests.source_tree import ROOT


def written(folder: Path, text: str, name: str = "x.yaml") -> str:
    file = folder / name
    file.write_text(text)
    return str(file)


def settings(folder: Path, text: str, *overrides: str) -> dict[str, Any]:
    return merged([written(folder, text)], parse_overrides(list(overrides)))[0]


def refusal(folder: Path, text: str, *overrides: str) -> str:
    with pytest.raises(ConfigurationError) as refused:
        settings(folder, text, *overrides)
    return str(refused.value)


def planned(changes: dict[str, Any]) -> TrialConfig:
    return Variant(name="a").config(TrialConfig(), changes)


def again(config: TrialConfig, folder: Path) -> TrialConfig:
    """Return what a run of a trial's own config.yaml is planned as."""
    values = settings(folder, to_yaml(config))
    (line,) = variants_of(Sweep(name="again", base=TrialConfig()), values)
    point = {key: axis.values[0] for key, axis in line.space.items() if isinstance(axis, Grid)}
    return line.config(TrialConfig(), point)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_trials_own_file_is_that_trial_again(method: str, tmp_path: Path) -> None:
    config = planned({"method": method, "seed": 3, "noise.seed": 5})
    assert type(config.trainer) is METHODS[method] and config.seed == 3
    assert again(config, tmp_path) == config
    digests = {
        config_hash(each, data_fingerprint="f") for each in (config, again(config, tmp_path))
    }
    assert len(digests) == 1


def test_a_value_that_is_a_list_stays_one(tmp_path: Path) -> None:
    config = with_changes(TrialConfig(), {"method": "lp_mst", "trainer.splits": [0.5, 0.5]})
    assert again(config, tmp_path) == config
    assert settings(tmp_path, "trainer.splits: [[.5, .5], [.4, .6]]") == {
        "trainer.splits": [[0.5, 0.5], [0.4, 0.6]]
    }


@hypothesis.settings(deadline=None, max_examples=60)
@given(
    text=st.one_of(
        st.text(st.characters(exclude_categories=["Cs", "Cc"])),
        st.text(alphabet="\\${}a.:'", max_size=9),
        st.sampled_from(
            [
                *("007", "1:30", "no", "1_000", "0x1f", "1e-3", ".inf", "null", "~", "=", "<<"),
                *("???", r"\${a}", "${a}", r"\\${", "${oc.env", "2020-01-01", " x", "# a", "a: b"),
            ]
        ),
    )
)
def test_any_text_is_read_as_it_was_written(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    config = TrialConfig(data=DataSettings(path=text, name=text))
    assert again(config, folder) == config


def test_values_mean_what_they_mean_on_the_command_line(tmp_path: Path) -> None:
    texts = ("007", "1:30", "2020-01-01", "0x10", "inf", "/a/b=c.npz")
    meant: dict[str, Any] = {text: text for text in texts}
    meant |= {"no": False, "true": True, "null": None, "'5'": "5", "[0.5,1, 2]": [0.5, 1, 2]}
    meant |= {"5": 5, "0.5": 0.5, "1e-3": 1e-3, ".inf": math.inf}
    text = "".join(f"k{n}: {value}\n" for n, value in enumerate(meant))
    typed = parse_overrides([f"k{n}={value}" for n, value in enumerate(meant)])
    for found in (typed, settings(tmp_path, text)):
        assert [*found.values()] == [*meant.values()]
        assert [type(each) for each in found.values()] == [type(each) for each in meant.values()]


@pytest.mark.parametrize("text", ["score #1", "id, phone #", "[a, b] # two", "#5"])
def test_no_part_of_a_typed_value_is_taken_for_a_comment(text: str) -> None:
    with pytest.raises(ConfigurationError, match="# behind a space, which begins a comment"):
        parse_overrides([f"data.drop={text}"])
    kept = ("a#1", "'score #1'", '["a #1", b]')
    typed = parse_overrides([f"k{n}={value}" for n, value in enumerate(kept)])
    assert [*typed.values()] == ["a#1", "score #1", ["a #1", "b"]]


def test_later_files_win_and_the_command_line_last_before_references(tmp_path: Path) -> None:
    first = written(
        tmp_path, "seed: 1\ntrainer: {epochs: 2, batch_size: '${trainer.epochs}'}\n", "a"
    )
    second = written(tmp_path, "trainer.epochs: 3\ntrainer:\n  epsilon: {choice: [1, 2]}\n", "b")
    values, places = merged([first, second], {})
    assert values == {
        **{"seed": 1, "trainer.epochs": 3, "trainer.batch_size": 3},
        "trainer.epsilon": Choice(1, 2),
    }
    assert places["seed"] == f"{first}, line 1" and places["trainer.epsilon"] == f"{second}, line 3"
    typed = parse_overrides(["trainer.epochs=4", "trainer.epsilon=[1,2]", "data.path=${seed}"])
    values, places = merged([first, second], typed)
    assert (values["trainer.epochs"], values["trainer.batch_size"]) == (4, 4)
    assert values["trainer.epsilon"] == [1, 2] and values["data.path"] == "${seed}"
    assert places["trainer.epochs"] == "command line"


def test_axes_and_a_later_axis_of_another_kind(tmp_path: Path) -> None:
    first = written(tmp_path, "a: {loguniform: [1e-3, 1]}\nb: {uniform: [0, 1]}\nc: [x, 2]\n", "a")
    second = written(tmp_path, "a: {choice: [1, 2]}\n", "b")
    found = {"b": Uniform(0, 1), "c": ["x", 2]}
    assert merged([first], {})[0] == {"a": LogUniform(1e-3, 1), **found}
    assert merged([first, second], {})[0] == {"a": Choice(1, 2), **found}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seed: 1\na:\n  b: ${nope}", "line 3: a.b: Interpolation key 'nope'"),
        ("seed: 1\nseed: 2", "line 2: seed is set before, at "),
        ("trainer: {epochs: [1,\n", "is not YAML, line 2: "),
        ("a: &a {b: *a}", "is not YAML (RecursionError)"),
        ("no: 3", "line 1: the key 'no' is no text; quote it"),
        ("seed: !!python/name:os.system", "is not YAML, line 1: could not determine"),
        ("seed: 1\na: !!timestamp foo", "is not YAML, line 2: 'foo' is not a valid timestamp"),
        ("a: !!bool foo", "is not YAML, line 1: 'foo' is not a valid bool"),
        ("a: !!int ''", "is not YAML, line 1: '' is not a valid int"),
        ("seed: ${oc.create:x}", "line 1: ${oc.create:x} is no reference"),
        (r"seed: \${x ${oc.create:x}", "is no reference"),
        ("seed: '${x${oc.env:A}}'", "is no reference"),
        ("seed: '${oc.${k}:A}'\nk: env", "is no reference"),
        ("seed: '${'", "is no reference"),
        ("trainer.epochs: {loguniform: [1], x: 1}", "line 1: trainer.epochs is {'loguniform'"),
        ("trainer.epochs: {loguniform: [1]}", "is not an axis"),
        ("trainer.epsilon: {uniform: [2, 1]}", "low must be below high"),
    ],
)
def test_a_bad_file_is_refused_by_its_line(text: str, said: str, tmp_path: Path) -> None:
    told = refusal(tmp_path, text)
    assert told.startswith(str(tmp_path / "x.yaml")) or "is not an axis" in told
    assert said in told


def test_files_that_fill_the_memory_or_are_none(tmp_path: Path) -> None:
    for first, row in (("[1, 1]", "[{}]"), ("{a: 1}", "{{<<: [{}]}}")):
        rows = [f"a{n}: &a{n} {row.format(', '.join([f'*a{n - 1}'] * 9))}" for n in range(1, 12)]
        bomb = f"a0: &a0 {first}\n" + "\n".join(rows)
        assert f"more than {MOST_VALUES:,} values" in refusal(tmp_path, bomb)
    (tmp_path / "y.yaml").write_bytes(b"a: \xff\xfe")
    for name, said in (
        ("y.yaml", "is not YAML"),
        ("no.yaml", "No such file"),
        (".", "is a folder"),
    ):
        with pytest.raises(ValueError, match=said):
            read(str(tmp_path / name))


def test_no_resolver_of_anybody_runs(tmp_path: Path) -> None:
    OmegaConf.register_resolver("labeldp_test", lambda: 1 / 0)
    try:
        assert "is no reference" in refusal(tmp_path, "seed: ${labeldp_test:}")
        assert settings(tmp_path, r"data.path: \${labeldp_test:}") == {
            "data.path": "${labeldp_test:}"
        }
    finally:
        OmegaConf.clear_resolver("labeldp_test")


# --- the environment ------------------------------------------------------------------------------


def test_texts_of_data_stay_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDER", "/secret/place")
    found = settings(
        tmp_path,
        "data: {path: '${data.root}/x.csv', root: '${oc.env:FOLDER}', name: own}\n",
    )
    assert found == {
        **{"data.path": "${oc.env:FOLDER}/x.csv", "data.root": "${oc.env:FOLDER}"},
        "data.name": "own",
    }
    config = planned(found)
    assert again(config, tmp_path) == config
    digest = config_hash(config, data_fingerprint="")
    monkeypatch.setenv("FOLDER", "/another")
    assert config_hash(config, data_fingerprint="") == digest
    assert "secret" not in to_yaml(config) + json.dumps(flatten(config))
    with config.data.looked_up() as known:
        assert known.path == "/another/x.csv"


@pytest.mark.parametrize(
    "key", ["trainer.encoder", "trainer.epsilon", "data.name", "method", "noise.seed"]
)
def test_what_records_would_hold_takes_no_secret(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "4711")
    told = refusal(tmp_path, f"{key}: ${{oc.env:SECRET}}")
    assert f"x.yaml, line 1: {key} is ${{oc.env:SECRET}}" in told
    assert "4711" not in told


def test_refusals_name_the_variable_and_not_its_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", str(tmp_path / "hunter2/"))
    data = DataSettings(name="own", path="${oc.env:SECRET}/x.csv", classes="2")
    for folder in ("another", "hunter2"):
        (tmp_path / folder).mkdir()
        with pytest.raises(ValueError, match=r"\$\{oc\.env:SECRET\}/x\.csv") as refused:
            as_on_disk(data)
        assert "hunter2" not in str(refused.value)
    data = replace(data, hold_out=HoldOut.NONE)
    rows = "".join(f"{place % 7},u{place},{place % 2}\n" for place in range(60))
    (tmp_path / "hunter2" / "x.csv").write_text(f"a,name,label\n{rows}")
    with pytest.warns(ColumnsLeftOut) as told:
        as_on_disk(data)
    assert "${oc.env:SECRET}/x.csv" in str(told[0].message)
    assert "hunter2" not in str(told[0].message)
    monkeypatch.delenv("SECRET")
    with pytest.raises(ConfigurationError, match="the environment has no SECRET"):
        as_on_disk(data)


# --- sweeps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["quickstart", "search_quickstart"])
def test_the_examples_are_the_sweeps_of_the_same_name(name: str, tmp_path: Path) -> None:
    ours, python = load_sweep(str(ROOT / "examples" / f"{name}.yaml")), load_sweep(name)
    for smoke in (False, True):
        options = SweepOptions(results=tmp_path / "none", smoke=smoke)
        assert plan_of(ours, options) == plan_of(python, options)
        # The same configurations: the same numbers.
        assert plan_trials(sized_sweep(ours, options)) == plan_trials(sized_sweep(python, options))


#: What the examples do not have.
WHOLE = """
name: mine
base: {trainer: {epochs: 9}, audit.canaries: 0}
changes: {trainer.batch_size: '${base.trainer.epochs}'}
samples: 3
presets:
  home: {changes: {trainer.epochs: 2}, samples: 2, resources: {cpu: 2}, lines: [{name: c}]}
resources: {cpu: 2, gpu: .5}
budget: {epsilon: 8, delta: 1e-5}
stop: {grace_epochs: 2, keep_one_in: 3}
choose_by: estimated
needs_gpu: true
"""


def test_a_sweep_has_everything_that_one_in_python_has(tmp_path: Path) -> None:
    keys = {"trainer.epochs": 9, "trainer.batch_size": 9, "audit.canaries": 0}
    home = Preset(
        changes={"trainer.epochs": 2},
        samples=2,
        resources=Resources(cpu=2),
        variants=[Variant(name="c")],
    )
    assert sweep_of(written(tmp_path, WHOLE)) == Sweep(
        name="mine",
        base=with_changes(TrialConfig(), keys),
        samples=3,
        presets={"home": home},
        resources=Resources(cpu=2, gpu=0.5),
        budget=Budget(epsilon=8, delta=1e-5),
        stop=AshaStop(grace_epochs=2, keep_one_in=3),
        choose_by=ChooseBy.ESTIMATED,
        needs_gpu=True,
    )


def test_a_sweep_on_the_base_of_another(tmp_path: Path) -> None:
    text = "name: mine\nbase: quickstart\nchanges: {trainer.epochs: 2}\nlines: [{name: x}]\n"
    found, base = load_sweep(written(tmp_path, text)), load_sweep("quickstart")
    assert found.smoke == base.smoke and [line.name for line in found.variants] == ["x"]
    assert found.base == with_changes(base.base, {"trainer.epochs": 2}) and found.name == "mine"


@pytest.mark.parametrize(
    ("base", "changes", "space"),
    [
        ("quickstart", "trainer.epochs: 5, trainer.epsilon: 0.5", "trainer.epsilon: [0.25, 0.5]"),
        ("lp_mst_cifar100", "trainer.epsilon: 0.5", "trainer.epochs: [2, 3]"),
        ("alibi_cifar100", "trainer.lambda: 2.0", ""),
        ("alibi_fashion_mnist", "data: {name: own, path: mine.csv}", "seed: 1"),
    ],
)
def test_changes_of_a_named_base_are_those_of_a_command_line(
    base: str, changes: str, space: str, tmp_path: Path
) -> None:
    text = f"name: mine\nbase: {base}\nchanges: {{{changes}}}\nspace: {{{space}}}\n"
    found, named = load_sweep(written(tmp_path, text)), load_sweep(base)
    typed = {**flat_of(yaml.safe_load(f"{{{changes}}}")), **yaml.safe_load(f"{{{space}}}")}
    for name in (None, *named.presets):
        for smoke in (False, True):
            size = SweepOptions(results=tmp_path, preset=name, smoke=smoke)
            ours = sized_sweep(found, size)
            theirs = sized_sweep(named, replace(size, overrides=typed))
            assert {x.hash("") for x in plan_trials(ours)} == {
                x.hash("") for x in plan_trials(theirs)
            }
            if not smoke:
                assert [x.name for x in ours.variants] == [x.name for x in theirs.variants]


def test_a_users_file_is_not_spoiled_by_the_numbers_of_a_named_base(tmp_path: Path) -> None:
    text = "name: x\nbase: quickstart\nchanges: {data.name: own}\nlines: [{name: a}]\n"
    assert load_sweep(written(tmp_path, text)).base.audit.canaries is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: x\nlines:\n - name: A\n   changs: 3", "line 4: unknown key 'lines[0].changs'; did"),
        ("name: x\nresource: {cpu: 2}", "line 2: unknown key 'resource'; did you mean resources"),
        (
            "name: x\nbudget: {epsilom: 2}",
            "line 2: unknown key 'budget.epsilom'; did you mean epsil",
        ),
        (
            "name: x\nlines: [{name: A, changes: {\n trainer.epoch: 3}}]",
            "line 3: line 'A': unknown key",
        ),
        ("name: x\ntrainer.epochs: 3", "unknown key 'trainer'; settings of trials go under"),
        ("name: x\nlines:\n - name: A\n   method: pate", "settings of trials go under 'changes'"),
        ("name: x\npresets: {p: {seed: 1}}", "settings of trials go under 'changes'"),
        ("name: x\nsmoke:\n  changes: {trainer.epochs: 0}", "line 3: trainer.epochs is 0"),
        ("name: x\nlines: [3]", "line 2: 'lines[0]' is 3"),
        ("name: x\nsamples: three", "line 2: 'samples' is 'three'"),
        ("name: x\nsamples: true", "line 2: 'samples' is True"),
        ("name: x\nresources: {gpu: true}", "line 2: 'resources.gpu' is True"),
        ("name: x\nbudget: {epsilon: -3}", "line 2: 'budget' is {'epsilon': -3}"),
        ("name: x\nbase: ../evil", "line 2: 'base' is '../evil'"),
        ("name: x\nbase: quikstart", "did you mean quickstart"),
        ("name: x\nchanges: 5", "line 2: 'changes' is 5"),
        ("name: x\nbase: quickstart\nspace: 5", "line 3: 'space' is 5"),
        (
            "name: x\nbase: quickstart\nchanges: {trainer.epoch: 5}",
            "line 3: line 'ALIBI': unknown key",
        ),
        ("name: x\nspace: {\n trainer.epsilon: []}", "line 3: trainer.epsilon is an empty list"),
        ("name: ../x", "a sweep can't be called '../x'"),
        ("name: '${oc.env:HOME}'", "name is ${oc.env:HOME}"),
        ("trainer: {epochs: 3}", "names no sweep"),
        ("name: x\nbase: {trainer: {epsilon: {choice: [1]}}}", "trainer.epsilon is Choice"),
        (
            "name: x\nspace: {trainer.epsilon: {gauss: [1, 2]}}",
            "unknown key 'trainer.epsilon.gauss'",
        ),
    ],
)
def test_a_bad_sweep_is_refused_by_its_line(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit('code ran')")
    with pytest.raises(ConfigurationError) as refused:
        load_sweep(written(tmp_path, text))
    assert said in str(refused.value)
