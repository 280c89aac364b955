"""Fitted objects in a stranger's model: read if their types are named, and otherwise not run."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io
from scipy.sparse import csr_matrix
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity, KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, LabelEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from labeldp.trainers.data.preprocessing import SklearnStep
from labeldp.trainers.data.stored import packed, unpacked
from labeldp.trainers.methods.any_model import fit_to_soft_labels
from labeldp.trainers.settings.trainer import AmountPredictor, EstimatorPredictor

ROWS = np.abs(np.random.default_rng(0).normal(size=(60, 4)))
LABELS = (ROWS[:, 0] > 0.6).astype(int)
SCHEMA = json.loads(zipfile.ZipFile(io.BytesIO(skops.io.dumps([1]))).read("schema.json"))


def node(loader: str, name: str, content: Any = None, **more: Any) -> dict[str, Any]:
    module, _, kind = name.rpartition(".")
    found = {"__class__": kind, "__module__": module, "__loader__": loader, "__id__": next(NUMBERS)}
    return {**found, "content": content, **more}


NUMBERS = iter(range(1, 10**6))


def text(value: Any) -> dict[str, Any]:
    return node("JsonNode", "builtins.str", json.dumps(value), is_json=True)


def listed(*parts: Any, kind: str = "Tuple") -> dict[str, Any]:
    return node(f"{kind}Node", f"builtins.{kind.lower()}", list(parts))


def mapping(**parts: Any) -> dict[str, Any]:
    keys = node("ListNode", "builtins.list", [node("TypeNode", "builtins.str") for _ in parts])
    return node("DictNode", "builtins.dict", parts, key_types=keys)


def file_of(content: dict[str, Any], **changes: Any) -> Any:
    facts = {**content, **{key: SCHEMA[key] for key in ("protocol", "_skops_version")}, **changes}
    with zipfile.ZipFile(made := io.BytesIO(), "w") as archive:
        archive.writestr("schema.json", json.dumps(facts))
    return np.frombuffer(made.getvalue(), dtype=np.uint8)


def write_a_file() -> dict[str, Any]:
    return text("open('ran', 'w').close()")


def hostile() -> dict[str, Any]:
    """Name -> content of a file that runs code, or would with a list of libraries."""
    measure = "numpy.testing.measure"
    run = node("FunctionNode", measure)
    partial = {
        "func": run,
        "args": listed(write_a_file()),
        "kwds": mapping(),
        "namespace": mapping(),
    }
    shell = node("FunctionNode", "os.system")
    scaler = node("ObjectNode", "sklearn.preprocessing._data.StandardScaler", mapping())
    method = {"obj": scaler, "func": "get_params"}
    keys = node("ListNode", "builtins.list", [node("TypeNode", measure)])
    old = {"module_path": "numpy.testing", "function": "measure"}
    return {
        "constructor": node("ConstructorFromReduceNode", measure, listed(write_a_file())),
        "loadtxt": node("ConstructorFromReduceNode", "numpy.loadtxt", listed(text("/etc/hosts"))),
        "fetch": node(
            "ConstructorFromReduceNode", "sklearn.datasets._base.load_files", listed(text("."))
        ),
        "scipy": node("ConstructorFromReduceNode", "scipy.io.loadmat", listed(text("x.mat"))),
        "f2py": node("ConstructorFromReduceNode", "numpy.f2py.compile", listed(text("x"))),
        "list": node("ListNode", measure, [write_a_file()]),
        "tuple": node("TupleNode", measure, [write_a_file()]),
        "set": node("SetNode", measure, [write_a_file()]),
        "keys": node("DictNode", "builtins.dict", {"open('ran','w')": text(1)}, key_types=keys),
        "array": node("NdArrayNode", measure, [], type="json", shape=text([0])),
        "partial": node("PartialNode", "functools.partial", partial),
        "system": listed(shell),
        "function": node("FunctionNode", measure),
        "old function": {**node("FunctionNode", "builtins.function", old), "protocol": 0},
        "method": node("MethodNode", "sklearn.preprocessing._data.StandardScaler", method),
        "operator": node(
            "OperatorFuncNode", "operator.methodcaller", attrs=listed(text("__init__"))
        ),
        "loss": node("LossNode", measure, mapping(), __reduce__={"args": listed(write_a_file())}),
        "object": node("ObjectNode", "numpy.ctypeslib.ndpointer", mapping()),
        "another loader": listed(node("ListNode", "sklearn.tree._tree.Tree", [text(1)])),
        "generator": node(
            "RandomGeneratorNode",
            "numpy.random._generator.Generator",
            {"bit_generator": mapping(bit_generator=text("seed")), "seed_seq": mapping()},
        ),
    }


@pytest.mark.parametrize("name", hostile())
def test_a_stranger_s_object_runs_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever kind of model it is in."""
    monkeypatch.chdir(tmp_path)
    content = hostile()[name]
    given = {"skops": file_of(content, **({"protocol": 0} if name == "old function" else {}))}
    for kind, described in (
        (EstimatorPredictor, {"kind": "estimator", "num_classes": 2}),
        (AmountPredictor, {"kind": "amounts", "bounds": [0, 1]}),
        (SklearnStep, {"kind": "sklearn"}),
    ):
        with pytest.raises(ValueError, match=r"can't be saved in a model or read|older format"):
            kind.restored(described, given)
    assert not (tmp_path / "ran").exists()


def test_the_refusal_names_the_type() -> None:
    with pytest.raises(ValueError, match=r"^numpy\.testing\.measure \(ConstructorFromReduceNode\)"):
        unpacked(file_of(hostile()["constructor"]))
    for value in (FunctionTransformer(func=print), StandardScaler().fit_transform):
        with pytest.raises(ValueError, match=r"can't be saved in a model"):
            packed(value)


def fitted(estimator: Any) -> Any:
    return estimator.fit(ROWS, LABELS)


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(3),
        HistGradientBoostingClassifier(max_iter=3, max_features=0.5),
        make_pipeline(StandardScaler(), SelectKBest(k=2), CalibratedClassifierCV(cv=2)),
        GridSearchCV(LogisticRegression(), {"C": [1, 2]}, scoring="roc_auc", cv=2),
    ],
    ids=lambda each: type(each).__name__,
)
def test_fitted_estimators_come_back(estimator: Any) -> None:
    fitted(estimator)
    again = unpacked(packed(estimator))
    np.testing.assert_array_equal(again.predict_proba(ROWS), estimator.predict_proba(ROWS))


@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(), make_pipeline(StandardScaler(), RandomForestClassifier(3))],
    ids=lambda each: type(each).__name__,
)
def test_the_mean_of_several_draws_comes_back(estimator: Any) -> None:
    """Few rows have a vote of clones, which holds a `LabelEncoder`."""
    soft = np.stack([1 - LABELS, LABELS], axis=1) * 0.8 + 0.1
    mean = fit_to_soft_labels(estimator, ROWS, soft, seed=0)
    again = unpacked(packed(mean))
    assert isinstance(mean, VotingClassifier) and isinstance(again.le_, LabelEncoder)
    np.testing.assert_array_equal(again.predict_proba(ROWS), mean.predict_proba(ROWS))
    np.testing.assert_array_equal(again.predict(ROWS), mean.predict(ROWS))


@pytest.mark.parametrize("classes", [["no", "yes"], np.array(["no", "yes"], dtype=object), [3, 7]])
def test_an_encoder_of_labels_comes_back(classes: Any) -> None:
    again = unpacked(packed(LabelEncoder().fit(classes)))
    assert again.transform(classes).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("field", "to"), [("left_child", 2**40), ("right_child", 0), ("feature", 4), ("feature", -1)]
)
def test_trees_with_indices_out_of_range_are_refused(field: str, to: int) -> None:
    forest = fitted(RandomForestClassifier(3, max_depth=3))
    boosted = fitted(HistGradientBoostingClassifier(max_iter=3))
    own = {"left_child": "left", "right_child": "right", "feature": "feature_idx"}[field]
    tree = forest.estimators_[1].tree_
    state = tree.__getstate__()
    nodes = state["nodes"].copy()
    nodes[field][0] = to
    tree.__setstate__({**state, "nodes": nodes})
    boosted._predictors[1][0].nodes[own][0] = to % 2**32
    for estimator in (forest, boosted):
        data = np.frombuffer(skops.io.dumps(estimator), np.uint8)
        with pytest.raises(ValueError, match="indices that are out of range"):
            unpacked(data)


def test_trees_of_another_width_than_their_forest_are_refused() -> None:
    forest = fitted(RandomForestClassifier(2))
    forest.estimators_[1] = DecisionTreeClassifier().fit(np.hstack([ROWS, ROWS]), LABELS)
    with pytest.raises(ValueError, match="indices that are out of range"):
        unpacked(np.frombuffer(skops.io.dumps(forest), np.uint8))
    bagged = fitted(BaggingClassifier(DecisionTreeClassifier(), 3, max_features=0.5))
    unfitted = GridSearchCV(RandomForestClassifier(2), {"max_depth": [2]}, cv=2)
    for each in (bagged, fitted(GradientBoostingClassifier(n_estimators=2)), fitted(unfitted)):
        np.testing.assert_array_equal(
            unpacked(packed(each)).predict_proba(ROWS), each.predict_proba(ROWS)
        )


@pytest.mark.parametrize("algorithm", ["kd_tree", "ball_tree"])
def test_trees_of_neighbors_are_built_anew(algorithm: str) -> None:
    estimator = fitted(KNeighborsClassifier(3, algorithm=algorithm))
    true = estimator.predict_proba(ROWS)
    state = list(estimator._tree.__getstate__())
    state[1] = np.full_like(np.asarray(state[1]), 2**40)
    estimator._tree.__setstate__(tuple(state))
    again = unpacked(np.frombuffer(skops.io.dumps(estimator), np.uint8))
    np.testing.assert_array_equal(again.predict_proba(ROWS), true)
    with pytest.raises(ValueError, match="KDTree outside of nearest neighbors can't be saved"):
        packed(KernelDensity().fit(ROWS))


def test_an_object_larger_than_its_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = skops.io.dumps(np.zeros(10**6), compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match=r"holds 8,00.* labeldp writes it uncompressed"):
        unpacked(np.frombuffer(zeros, dtype=np.uint8))
    # One member in many places is read for each; a matrix is an archive of its own.
    many = skops.io.dumps([np.zeros(1000)])
    archive = zipfile.ZipFile(io.BytesIO(many))
    facts = json.loads(archive.read("schema.json"))
    array = facts["content"][0]
    facts["content"] = [{**array, "__id__": number} for number in range(2000)]
    with zipfile.ZipFile(made := io.BytesIO(), "w") as changed:
        changed.writestr("schema.json", json.dumps(facts))
        changed.writestr(array["file"], archive.read(array["file"]))
    memory, ones = 2 * 15_000_000, np.ones(2_000_000)
    monkeypatch.setattr("labeldp.trainers.data.files.memory_bytes", lambda: memory)
    sparse = skops.io.dumps(csr_matrix((ones, np.zeros(2_000_000, np.int32), [0, 2_000_000])))
    assert max(len(made.getvalue()), len(sparse)) < 1_000_000
    for data in (made.getvalue(), sparse):
        with pytest.raises(ValueError, match=r"bytes when unpacked"):
            unpacked(np.frombuffer(data, dtype=np.uint8))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 something else", b"x" * 200])
def test_damaged_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="is damaged"):
        unpacked(np.frombuffer(content, dtype=np.uint8))
