"""Two parties on Adult: labeldp's folders beside hadal-flow's homomorphic encryption.

    python -m tests.benchmarks.beside_hadal_flow --data DEST --hadal OTHER/bin/python

prints the table of docs/two_parties.md; DEST has adult.data and adult.test. `--hadal` names the
python of an environment with hadal-flow. All sides have the same rows, features, epsilon, delta.
"""

import argparse
import inspect
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.trainers.data.own_data import own_rows
from tests.benchmarks.any_model import adult

_COLUMNS = "side|epsilon|ROC AUC|accuracy|CPU s|wall s|MB to labels|MB to features|peak MB"
_SIDES = "moments/logistic moments/boosting subset/logistic subset/boosting hadal-flow".split()
_EPSILON = 1.0
_ROWS, _EPOCHS = 7 * 4096, 4  # batches of the slots of a ciphertext
_THREADS = "OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"


def hadal_party(folder: str, epochs: int, multiplier: float) -> None:
    """Train logistic regression on encrypted labels; this text runs in the other environment."""
    from importlib import import_module

    np, tf, hadal = (import_module(name) for name in ("numpy", "tensorflow", "hadal_flow"))
    train, targets, test = (np.load(f"{folder}/{n}.npy") for n in ("train", "targets", "test"))
    sent = {to: tf.Variable(0, dtype=tf.int64, trainable=False) for to in ("labels", "features")}

    def context(bits: int, scale: int, reserve: int) -> Any:
        settings = {"scaling_factor": scale, "noise_offset_log2": reserve, "cache_path": folder}
        make = hadal.create_autocontext64
        return lambda cached: make(log2_cleartext_sz=bits, read_from_cache=cached, **settings)

    inputs = tf.keras.Input(train.shape[1:])
    layer = tf.keras.layers.Dense(2, activation="softmax", kernel_initializer="zeros")
    model = import_module("hadal_ml").PostScaleModel(
        inputs=inputs,
        outputs=layer(inputs),
        backprop_context_fn=context(28, 32, 18),
        noise_context_fn=context(29, 1, 0),
        noise_multiplier_fn=lambda _: multiplier,
        cache_path=folder,
    )

    def watch(name: str, last_argument_to: str, result_to: str) -> None:
        step = getattr(model, name)

        def counted(*arguments: Any) -> Any:
            result = step(*arguments)
            for to, values in ((last_argument_to, arguments[-1]), (result_to, result)):
                for value in tf.nest.flatten(values) if to else ():
                    if isinstance(value, hadal.ShellTensor64):
                        size = tf.strings.length(tf.io.serialize_tensor(value._raw_tensor))
                        sent[to].assign_add(tf.cast(size, tf.int64))
            return result

        setattr(model, name, counted)

    watch("compute_grads", "features", "")  # encrypted labels
    watch("mask_gradients", "", "labels")  # of each row
    watch("noise_gradients", "labels", "features")  # encrypted parts of the noise, noisy sums
    optimizer = tf.keras.optimizers.SGD(3.3 / 4096, momentum=0.9)
    model.compile(loss=tf.keras.losses.CategoricalCrossentropy(), optimizer=optimizer)
    data = (tf.data.Dataset.from_tensor_slices(each).batch(1024) for each in (train, targets))
    model.fit(*data, epochs=epochs, steps_per_epoch=len(train) // 4096, verbose=0)
    np.save(f"{folder}/found.npy", model(test, training=False).numpy()[:, 1])
    np.save(f"{folder}/bytes.npy", [int(sent[to]) for to in ("labels", "features")])


def run(folder: Path, *command: str) -> tuple[float, float, float]:
    """Run a command, and return its CPU seconds, wall seconds and peak MB."""
    environment, started, peak = os.environ | dict.fromkeys(_THREADS, "1"), time.perf_counter(), 0
    with (folder / "output").open("w+") as output:
        party = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        status = Path(f"/proc/{party.pid}/status")  # wait4's peak would include this process's
        while not (ended := os.wait4(party.pid, os.WNOHANG))[0]:
            peak = max([peak, *map(int, re.findall(r"VmHWM:\s+(\d+)", status.read_text()))])
            time.sleep(0.02)
        party.returncode = os.waitstatus_to_exitcode(ended[1])
        output.seek(0)
        if party.returncode:
            raise RuntimeError(f"exit code {party.returncode}, {output.read().splitlines()[-1:]}")
    return sum(ended[2][:2]), time.perf_counter() - started, peak / 1e3


def labeldp_side(folder: Path, side: str, epsilon: float) -> tuple[Any, Any, Any]:
    """Return the test rows' probabilities, what each of the four commands used, and bytes."""
    (method, model), to = side.split("/"), Path(tempfile.mkdtemp(dir=folder))
    (to / "labels.parquet").hardlink_to(folder / "labels.parquet")  # a ledger for each side
    rows, ids = f"{folder}/features.parquet", f"--id-column id --epsilon {epsilon}"
    commands = (
        f"request {rows} {ids} --method {method} --classes 0,1 -o {to}/asked",
        f"release {to}/labels.parquet {ids} --label-column label --request {to}/asked -o {to}/got",
        f"fit {rows} --release {to}/got --estimator {model} -o {to}/model",
        f"predict {to}/model {folder}/test.parquet -o {to}/found.parquet",
    )
    tool = f"{sys.executable} -m labeldp.platform.cli.command_line "
    used = [run(folder, *(tool + command).split()) for command in commands]
    sizes = [sum(f.stat().st_size for f in (to / n).iterdir()) for n in ("asked", "got")]
    return pd.read_parquet(to / "found.parquet")["probability_1"].to_numpy(), used, sizes


def hadal_side(folder: Path, python: str, epsilon: float) -> tuple[Any, Any, Any]:
    """Return the same of hadal-flow, both parties in one process."""
    # A label is in one batch per epoch; another label moves a gradient by up to twice its length.
    multiplier = math.sqrt(2 * _EPOCHS) * calibrate_gaussian(epsilon=epsilon, delta=1e-5)
    call = f"hadal_party({str(folder)!r}, {_EPOCHS}, {multiplier})"
    (folder / "party.py").write_text(f"Any = object\n{inspect.getsource(hadal_party)}\n{call}\n")
    used = [run(folder, python, str(folder / "party.py"))]
    return np.load(folder / "found.npy"), used, np.load(folder / "bytes.npy")


def table(folder: Path, options: argparse.Namespace) -> None:
    print(f"| {_COLUMNS.replace('|', ' | ')} |\n{'|---' * (_COLUMNS.count('|') + 1)}|")
    (rows, labels), (tests, truth) = adult(options.data)
    rows, labels = rows[:_ROWS].assign(id=range(_ROWS)), labels[:_ROWS]
    rows.to_parquet(folder / "features.parquet")
    tests.to_parquet(folder / "test.parquet")
    pd.DataFrame({"id": rows["id"], "label": labels}).to_parquet(folder / "labels.parquet")
    np.save(folder / "targets.npy", np.eye(2, dtype=np.float32)[labels])
    splits = own_rows(rows.drop(columns="id"), num_classes=2, keep=())
    assert splits.preprocessing is not None
    tested = np.asarray(splits.preprocessing(tests))
    for file, each in (("train", splits.train_features), ("test", tested)):
        np.save(folder / f"{file}.npy", each / np.linalg.norm(each, axis=1, keepdims=True))
    for side in _SIDES:
        measure, what = (hadal_side, options.hadal) if "/" not in side else (labeldp_side, side)
        try:
            found, used, sizes = measure(folder, what, _EPSILON)
        except (OSError, RuntimeError) as reason:
            print(f"| {side} | did not run: {reason} |", flush=True)
            continue
        cpu, wall, peak = np.transpose(used)
        scores = roc_auc_score(truth, found), np.mean((found > 0.5) == truth)
        cells = [side, f"{_EPSILON:g}", *(f"{score:.3f}" for score in scores)]
        cells += [f"{cpu.sum():.0f}", f"{wall.sum():.0f}", *(f"{each / 1e6:.1f}" for each in sizes)]
        print(f"| {' | '.join(cells)} | {peak.max():.0f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--hadal", required=True, metavar="PYTHON")
    with tempfile.TemporaryDirectory() as name:
        table(Path(name), parser.parse_args())
