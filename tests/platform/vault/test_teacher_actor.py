"""teacher_actor: a member hands on what it was made with, and loads nothing for it."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.vault import Shard
from labeldp.platform.vault.teacher_actor import TeacherActor


def vote(teachers: Sequence[int], shards: Sequence[Shard], data: Any) -> NDArray[np.uint8]:
    """The label of each shard for the first query, the teacher's number for the second."""
    rows = [(shard.labels[0], id) for id, shard in zip(teachers, shards, strict=True)]
    return np.array(rows, dtype=np.uint8) + np.uint8(data)


def test_a_batch_is_trained_on_its_own_shards_and_the_data_of_all() -> None:
    before = torch.get_num_threads()
    try:
        actor = TeacherActor(vote, 100, threads=before + 1)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)
    shards = [Shard(indices=np.array([each]), labels=np.array([each + 5])) for each in (3, 1)]
    assert actor.train([3, 1], shards).tolist() == [[108, 103], [106, 101]]


def test_a_member_whose_teachers_need_no_torch_does_not_load_it() -> None:
    code = (
        "import sys\n"
        "from labeldp.platform.vault.teacher_actor import TeacherActor\n"
        "TeacherActor(lambda *batch: batch, None, threads=1)\n"
        "print(sorted({'torch', 'mlflow', 'matplotlib', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
