"""Some minutes at a time: the encoder of one piece, and no other one's file taken for it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from labeldp.trainers.encoders.image_encoder import (
    EncoderFileRefused,
    read_encoder,
)
from labeldp.trainers.encoders.pretraining import (
    Pretraining,
    PretrainingMetrics,
    PretrainRequest,
    pretrain,
    training_images,
)
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.training import SelfSupervisedConfig

IMAGES = torch.randint(
    256, (48, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
)


def a_request(folder: Path, **changes: Any) -> PretrainRequest:
    request = PretrainRequest(
        images=IMAGES,
        out=folder / "encoder.pt",
        config=SelfSupervisedConfig(width=2, projection=8, epochs=3, batch_size=16),
        performance=Performance(device=Device.CPU),
    )
    return replace(request, **changes)


def silent(metrics: PretrainingMetrics) -> None:
    del metrics


def test_calls_of_an_epoch_each_make_the_encoder_of_one_call(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    whole = pretrain(a_request(tmp_path / "one"), told=silent)
    assert whole.finished and (whole.epochs, whole.of, whole.dimensions) == (3, 3, 8)
    ends = [pretrain(a_request(tmp_path, seconds=1e-9), told=silent) for _ in range(3)]
    assert [(end.epochs, end.finished) for end in ends] == [(1, False), (2, False), (3, True)]
    assert ends[-1].loss == whole.loss
    one, other = (read_encoder(Path(end.file)).state_dict() for end in (whole, ends[-1]))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    told: list[int] = []
    pretrain(a_request(tmp_path), told=lambda metrics: told.append(metrics.epoch))
    again = pretrain(a_request(tmp_path), told=lambda metrics: told.append(metrics.epoch))
    assert told == [1, 2, 3] and again.finished and again.loss is None


@pytest.mark.parametrize(
    "changes", [{"seed": 1}, {"images": IMAGES[:40]}, {"config": SelfSupervisedConfig(epochs=2)}]
)
def test_a_file_of_another_encoder_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    pretrain(a_request(tmp_path, seconds=1e-9), told=silent)
    with pytest.raises(EncoderFileRefused, match="of other images, with other settings"):
        pretrain(a_request(tmp_path, **changes), told=silent)


def test_a_file_of_nobody_knows_what_is_replaced_on_a_word_only(tmp_path: Path) -> None:
    (tmp_path / "encoder.pt").write_bytes(b"of somebody")
    with pytest.raises(EncoderFileRefused, match="nothing beside it says"):
        pretrain(a_request(tmp_path), told=silent)
    assert pretrain(a_request(tmp_path, replace=True), told=silent).finished


def test_a_folder_that_is_not_there_is_said_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no folder"):
        a_request(tmp_path / "nowhere")


def test_images_for_testing_are_not_trained_on(tmp_path: Path) -> None:
    images = IMAGES.numpy()
    np.savez(tmp_path / "set.npz", train_features=images[:30], test_features=images[30:])
    assert torch.equal(training_images(str(tmp_path / "set.npz")), IMAGES[:30])


def test_a_loss_that_does_not_fall_is_told_by_every_later_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls of an epoch each look at the losses of all."""
    trained = Pretraining.epoch

    def of_loss(self: Pretraining) -> PretrainingMetrics:
        metrics = trained(self)
        return replace(metrics, loss=(20.0, 18.0, 21.0)[metrics.epoch - 1])

    monkeypatch.setattr(Pretraining, "epoch", of_loss)
    request = a_request(tmp_path, seconds=1e-9)
    warnings = [pretrain(request, told=silent).warning for _ in range(4)]
    assert warnings[0] is warnings[1] is None
    assert warnings[2] is not None and "20 in epoch 1" in warnings[2]
    assert "18 at its lowest in epoch 2, and is 21 in epoch 3" in warnings[2]
    assert warnings[3] == warnings[2], "all is done, and it is no better for it"
