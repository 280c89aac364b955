"""trained_model: every method's model is written, read elsewhere, and predicts the same bits."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.trainers.models.trained_model import ARRAYS, DESCRIPTION, ModelFileError, load_model
from tests.platform.sweep.examples import mode
from tests.source_tree import ROOT
from tests.trainers.trained_examples import examples, small_model

#: What a person runs who has got a model's folder and nothing else.
ELSEWHERE = """
import json, sys
from pathlib import Path
import numpy as np
import pandas as pd
from labeldp.trainers.models.trained_model import load_model

same = {}
# A forest, which is scikit-learn's own, comes last.
for folder in sorted(Path(sys.argv[1]).iterdir(), key=lambda each: "forest" in each.name):
    given = dict(np.load(folder / "given.npz"))
    measured = given.pop("measured")
    rows = given["rows"] if "rows" in given else pd.DataFrame(given)
    found = load_model(folder / "model").predict_proba(rows)
    same[folder.name] = bool((found == measured).all()) and found.dtype == measured.dtype
    if "forest" not in folder.name:
        heavy = [name for name in ("ray", "mlflow", "sklearn") if name in sys.modules]
print(json.dumps({"same": same, "heavy": heavy}))
"""


def test_elsewhere_models_predict_alike(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In a process without Ray, MLflow and scikit-learn."""
    for example in examples(tmp_path_factory.mktemp("data")):
        folder = tmp_path / example.name
        example.model.save(folder / "model")
        np.savez(folder / "given.npz", measured=example.measured, **example.rows)  # type: ignore[arg-type]
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    content = json.loads(done.stdout)
    assert content["heavy"] == []
    assert [name for name, same in content["same"].items() if not same] == []
    assert len(content["same"]) == 18


def test_facts_and_files(tmp_path: Path) -> None:
    model, rows = small_model()
    model.save(tmp_path / "m")
    content = json.loads((tmp_path / "m" / DESCRIPTION).read_text())
    assert {name: content[name] for name in model.facts} == model.facts
    assert content["format"] == 1 and content["architecture"]["kind"] == "network"
    assert (content["epsilon"], content["delta"], content["private"]) == (1.0, 1e-5, True)
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == [DESCRIPTION, ARRAYS]
    for path in (tmp_path / "m").iterdir():
        assert mode(path) == 0o600
    read = load_model(tmp_path / "m")
    assert read.facts == model.facts
    chosen = read.predict(rows)
    assert chosen.tolist() == [read.classes[n] for n in read.predict_proba(rows).argmax(1)]
    assert set(chosen) <= {"small", "middling", "large"}


def written(folder: Path) -> dict[str, Any]:
    model, _ = small_model()
    model.save(folder)
    content: dict[str, Any] = json.loads((folder / DESCRIPTION).read_text())
    return content


def test_a_folder_without_a_model_says_what_a_model_is(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"model\.json is not there; name the folder"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "is of format 2, and this labeldp .* reads format 1"),
        ({"architecture": {"kind": "oracle"}}, "'oracle' is not a kind of Predictor"),
        ({"architecture": {"kind": "network"}}, "holds no complete model .*KeyError"),
        (
            {"preprocessing": {"kind": "preprocessing", "steps": [{"kind": "magic"}]}},
            "'magic' is n",
        ),
        ({"classes": ["one"]}, "1 names for 3 classes"),
        ({"epsilon": "much"}, "epsilon is 'much'"),
        ({"arrays": {}}, "holds no complete model"),
    ],
)
def test_bad_descriptions_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    content = written(tmp_path)
    (tmp_path / DESCRIPTION).write_text(json.dumps({**content, **changes}))
    with pytest.raises(ModelFileError, match=message):
        load_model(tmp_path)


@pytest.mark.parametrize("name", [DESCRIPTION, ARRAYS])
@pytest.mark.parametrize("damage", ["cut", "empty", "a bit", "a folder", "gone"])
def test_damaged_files_are_refused(tmp_path: Path, name: str, damage: str) -> None:
    written(tmp_path)
    path = tmp_path / name
    content = path.read_bytes()
    path.unlink()
    if damage == "a folder":
        path.mkdir()
    elif damage != "gone":
        bit = bytes([content[0] ^ 1]) + content[1:]
        path.write_bytes({"cut": content[:-9], "empty": b"", "a bit": bit}[damage])
    with pytest.raises(ModelFileError, match=name):
        load_model(tmp_path)


def test_a_description_can_not_make_a_network_larger_than_its_arrays(tmp_path: Path) -> None:
    """Sizes are compared before memory is allocated."""
    content = written(tmp_path)
    content["architecture"]["width"] = 10**15
    (tmp_path / DESCRIPTION).write_text(json.dumps(content))
    with pytest.raises(ModelFileError, match=r"Error\(s\) in loading state_dict"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("noise", "epsilon", "private"),
    [
        ("plain", 2.0, True),
        ("secure", 2.0, True),
        ("seeded", 2.0, False),
        ("plain", math.inf, False),
        ("of another version", 2.0, False),
    ],
)
def test_noise_makes_it_private(noise: str, epsilon: float, private: bool, tmp_path: Path) -> None:
    """Older versions wrote `private: true` for noise that anyone with its seed draws again."""
    described = written(tmp_path) | {"noise": noise, "epsilon": epsilon, "private": True}
    (tmp_path / DESCRIPTION).write_text(json.dumps(described))
    assert load_model(tmp_path).facts["private"] is private
