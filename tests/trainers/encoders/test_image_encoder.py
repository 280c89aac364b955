"""Training without labels: it learns, resumes bit for bit, and has no way in for a label."""

import inspect
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from labeldp.platform.cli.models import ridge
from labeldp.platform.settings.configuration import TrialConfig, provenance_of, with_changes
from labeldp.trainers.base import ModelName
from labeldp.trainers.data.labelled_data import LabelledData, Pixels, PublicData, load
from labeldp.trainers.data.preprocessing import as_given
from labeldp.trainers.data.splits import NO_OUTSIDE_DATA
from labeldp.trainers.encoders import embedding, image_encoder
from labeldp.trainers.encoders.encoder import WeightsRefused
from labeldp.trainers.encoders.image_encoder import (
    ImageEncoder,
    Pretraining,
    build,
    coding_rate,
    described,
    pretrain,
    training_images,
    view,
    write_encoder,
)
from labeldp.trainers.methods.priors import prior_features
from labeldp.trainers.methods.settings import PriorSettings, PriorSource
from labeldp.trainers.models.learner import OnLabels
from labeldp.trainers.models.networks import FastCnn
from labeldp.trainers.performance import Precision
from labeldp.trainers.settings.training import (
    LearnerConfig,
    SelfSupervisedConfig,
    SemiSupervisedConfig,
)
from tests.trainers.small_data import ON_CPU as CPU
from tests.trainers.small_data import student_of

IMAGES = torch.randint(
    256, (48, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
)
TINY = SelfSupervisedConfig(width=2, projection=8, epochs=3, batch_size=16)
#: Small enough for seconds, large enough to learn.
DIGITS = SelfSupervisedConfig(width=8, projection=64, epochs=8, batch_size=64, crop=7, flip=False)


def started(config: SelfSupervisedConfig = TINY, images: Tensor = IMAGES) -> Pretraining:
    return Pretraining(config, images=images, seed=3, performance=CPU)


def trained(folder: Path, images: Tensor = IMAGES, **changes: Any) -> dict[str, Any]:
    options = {"config": TINY, "performance": CPU, **changes}
    return pretrain(images, folder / "encoder.pt", **options)


def test_trained_features_of_digits_are_worth_more_than_random_ones() -> None:
    data = load("digits")
    public = data.public
    training = started(DIGITS, public.train_features)

    def worth(labels: int) -> float:
        """Accuracy of ridge regression on the hidden layer alone, of so many labelled digits."""
        encoder = training.encoder()
        assert encoder.units is not None
        rows, others = (
            described(encoder, images, performance=CPU).numpy()[:, -encoder.units :]
            for images in (public.train_features[:labels], public.test_features)
        )
        fitted = ridge().fit(rows, data.train_labels[:labels])
        return float(fitted.score(others, public.test_labels))

    few, all_of_them = worth(100), worth(1438)
    losses = [training.epoch().loss for _ in range(DIGITS.epochs)]
    assert losses[-1] < losses[0] - 5
    # .31 and .57 by random weights; .56 and .79 were seen.
    assert worth(100) > few + 0.15 and worth(1438) > all_of_them + 0.1


def test_no_argument_of_pretraining_is_of_labels() -> None:
    takes = set(inspect.signature(Pretraining.__init__).parameters)
    assert takes == {"self", "config", "images", "seed", "performance"}
    assert set(inspect.signature(Pretraining.epoch).parameters) == {"self"}


def test_half_precision_trains_too() -> None:
    fast = replace(CPU, precision=Precision.BF16, channels_last=True)
    training = Pretraining(TINY, images=IMAGES, seed=0, performance=fast)
    before = described(training.encoder(), IMAGES, performance=fast)
    training.epoch()
    found = described(training.encoder(), IMAGES, performance=fast)
    assert found.dtype == torch.float32 and found.shape == (48, training.encoder().dimensions)
    assert found.isfinite().all() and not torch.allclose(found, before, rtol=0.1)


def test_calls_of_an_epoch_each_make_the_encoder_of_one_call(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    epochs: list[int] = []
    whole = trained(tmp_path / "one", report=lambda metrics, _: epochs.append(metrics.epoch))
    assert whole["finished"]
    assert (whole["epochs"], whole["of"], whole["dimensions"]) == (3, 3, 76)
    ends = [trained(tmp_path, seconds=1e-9) for _ in range(3)]
    assert [(end["epochs"], end["finished"]) for end in ends] == [(1, False), (2, False), (3, True)]
    assert ends[-1]["loss"] == whole["loss"]
    one, other = (build(Path(end["file"])).state_dict() for end in (whole, ends[-1]))
    assert all(torch.equal(one[name], other[name]) for name in one)
    again = trained(tmp_path / "one", report=lambda metrics, _: epochs.append(metrics.epoch))
    assert epochs == [1, 2, 3] and again["finished"] and again["loss"] is None


@pytest.mark.parametrize(
    "changes", [{"seed": 1}, {"images": IMAGES[:40]}, {"config": replace(TINY, epochs=2)}]
)
def test_a_file_of_another_encoder_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    trained(tmp_path, seconds=1e-9)
    with pytest.raises(WeightsRefused, match="of other images, with other settings"):
        trained(tmp_path, **changes)


def test_an_unknown_file_is_replaced_on_request_only(tmp_path: Path) -> None:
    (tmp_path / "encoder.pt").write_bytes(b"of somebody")
    with pytest.raises(WeightsRefused, match="no state beside it"):
        trained(tmp_path)
    assert trained(tmp_path, replace=True)["finished"]
    with pytest.raises(ValueError, match="does not exist; make it first"):
        trained(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="trained on two at least"):
        started(images=IMAGES[:1])


def test_images_for_testing_are_not_trained_on(tmp_path: Path) -> None:
    images = IMAGES.numpy()
    np.savez(tmp_path / "set.npz", train_features=images[:30], test_features=images[30:])
    assert torch.equal(training_images(str(tmp_path / "set.npz")), IMAGES[:30])


@pytest.mark.parametrize("mirrored", [True, False])
def test_an_encoder_in_a_file(tmp_path: Path, mirrored: bool) -> None:
    pixels = Pixels(mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.2))
    encoder = ImageEncoder(shape=(3, 8, 8), width=2, pixels=pixels, mirrored=mirrored, seed=4)
    encoder.fit_first(IMAGES)
    write_encoder(tmp_path / "encoder.pt", encoder.eval())
    assert [path.name for path in tmp_path.iterdir()] == ["encoder.pt"]
    again = build(tmp_path / "encoder.pt")
    with torch.inference_mode():
        found = encoder(IMAGES)
        assert torch.equal(again(IMAGES), found)
        assert torch.allclose(encoder(IMAGES.flip(3)), found, atol=1e-5) is mirrored
    assert found.shape == (48, again.dimensions) == (48, 68 if mirrored else 98)
    with pytest.raises(ValueError, match=r"trained on \(3, 8, 8\).*--image-size"):
        encoder(torch.zeros(2, 3, 16, 16, dtype=torch.uint8))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"format": 1, "model": "fast_cnn"}, "holds no encoder"),
        ({"format": 2}, "of no format"),
        (torch.nn.Linear(2, 2), "can't be read"),  # a whole object, which reading would run
    ],
)
def test_files_without_encoder_are_refused(tmp_path: Path, content: object, message: str) -> None:
    torch.save(content, tmp_path / "encoder.pt")
    with pytest.raises(WeightsRefused, match=message):
        build(tmp_path / "encoder.pt")


def coding_rate_plainly(views: NDArray[Any]) -> float:
    """Nats of each view by its eigenvalues, and cosines with the mean of the image's vectors."""
    _, images, dimensions = views.shape
    units = views / np.linalg.norm(views, axis=2, keepdims=True)
    nats = [
        np.log1p(dimensions / images / 0.2 * np.linalg.svd(rows)[1] ** 2).sum() / 2
        for rows in units
    ]
    means = units.mean(0)
    cosines = np.einsum("vbd,bd->vb", units, means) / np.linalg.norm(means, axis=1)
    # Published: 200 beside the nats of vectors of 1024 numbers.
    return float(25 * (1 - cosines.mean() - np.mean(nats) / dimensions * 1024 / 200))


@pytest.mark.parametrize("shape", [(2, 30, 5), (3, 4, 6)])
def test_the_loss_is_the_papers(shape: tuple[int, ...]) -> None:
    views = 0.5 * torch.randn(shape, generator=torch.Generator().manual_seed(0))
    expected = coding_rate_plainly(views.double().numpy())
    assert float(coding_rate(views)) == pytest.approx(expected, rel=1e-4)


def test_a_crop_shows_pixels_of_the_image_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_encoder, "_JITTER", 0.0)
    monkeypatch.setattr(image_encoder, "_GREY", 0.0)
    numbered = torch.arange(2 * 64, dtype=torch.uint8).view(2, 1, 8, 8)
    generator = torch.Generator().manual_seed(0)
    places = set()
    for _ in range(200):
        views = view(numbered, generator, crop=4, mirrors=False)
        for image, seen in zip(numbered, views, strict=True):
            start = int(seen[0, 0, 0].round()) - int(image[0, 0, 0])
            top, left = divmod(start, 8)
            assert torch.allclose(seen, image[:, top : top + 4, left : left + 4].float(), atol=1e-3)
            places.add((top, left))
    assert places == {(top, left) for top in range(5) for left in range(5)}


def test_a_vector_holds_all_resolutions_and_the_hidden_layer(tmp_path: Path) -> None:
    config = replace(TINY, views=3, crop=4, epochs=1)
    done = trained(tmp_path, config=config)
    assert (done["views"], done["loss"] is not None, done["probe"]) == (3, True, None)
    encoder = build(Path(done["file"]))
    network = encoder.network
    assert encoder.hidden is not None and isinstance(network, FastCnn)

    with torch.inference_mode():
        found = encoder(IMAGES[:2])
        parts: list[list[Tensor]] = [[], [], [], []]
        for inputs in (encoder.normalized(IMAGES[:2]), encoder.normalized(IMAGES[:2].flip(3))):
            first = network.blocks[0](functional.gelu(functional.conv2d(inputs, network.filters)))
            second = network.blocks[1](first)
            assert first.shape[2:] == (4, 4) and second.shape[2:] == (2, 2)
            vectors = network(inputs)
            for part, each in zip(
                parts, (first, second, vectors, encoder.hidden(vectors)), strict=True
            ):
                cells = functional.adaptive_avg_pool2d(each, 3)[..., :2] if each.ndim == 4 else each
                part.append(cells.flatten(1))
    expected = [(one + other) / 2 for one, other in parts]
    assert torch.allclose(found, torch.cat(expected, 1), atol=1e-5)


@pytest.mark.parametrize(("side", "crop", "least"), [(8, 9, 2), (8, 1, 2), (16, 8, 9)])
def test_a_crop_lies_in_the_image_and_feeds_the_network(side: int, crop: int, least: int) -> None:
    images = torch.zeros(2, 3, side, side + 1, dtype=torch.uint8)
    message = f"crop is {crop} for images of {side} x {side + 1} pixels; it must be {least} to"
    with pytest.raises(ValueError, match=message):
        started(replace(TINY, crop=crop), images)
    started(replace(TINY, crop=least, batch_size=2), images).epoch()


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> tuple[PublicData, str]:
    """Images, and an encoder that learned of those to train on."""
    public = PublicData(
        name="photographs",
        num_classes=4,
        train_features=IMAGES,
        test_features=IMAGES[:4],
        test_labels=np.arange(4),
    )
    return public, trained(tmp_path_factory.mktemp("encoder"))["file"]


def test_a_network_starts_from_an_encoder_of_the_same_images(
    photographs: tuple[PublicData, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, file = photographs
    monkeypatch.chdir(Path(file).parent)
    config = LearnerConfig(model=ModelName.FAST_CNN, width=2, encoder="encoder.pt")
    config.check_data(data)
    monkeypatch.chdir("/")  # a trial runs elsewhere
    assert config.encoder == file == PriorSettings(source=PriorSource.MOMENTS, encoder=file).encoder
    given: dict[str, Any] = {"labels": np.arange(48) % 4, "data": data, "seed": 0}
    started = OnLabels(config, **given, performance=CPU).network.state_dict()
    weights = build(Path(file)).network.state_dict()
    assert set(started) - set(weights) == {"head.weight"}
    assert all(torch.equal(started[name], value) for name, value in weights.items())
    with pytest.raises(WeightsRefused, match=r"fast_cnn of width 2, and the trial's is .* width 3"):
        replace(config, width=3).check_data(data)
    with pytest.raises(WeightsRefused, match="of width 3"):  # also by who asks nobody first
        OnLabels(replace(config, width=3), **given, performance=CPU)
    with pytest.raises(WeightsRefused, match="the trial's is small_cnn of width 16"):
        replace(config, model=ModelName.SMALL_CNN, width=None).check_data(data)
    other = replace(data, train_features=IMAGES.flip(0))
    few = SemiSupervisedConfig(model=ModelName.FAST_CNN, width=2, encoder=file)
    for each in (config, few):
        with pytest.raises(WeightsRefused, match="not trained on exactly the training images of"):
            each.check_data(other)
    posterior = np.eye(4)[np.arange(48) % 4]
    student = student_of(few, data, posterior)
    own = student.network.state_dict()
    judge = student.predictor().network.state_dict()
    for name, value in weights.items():
        assert torch.equal(own[name], value) and torch.equal(judge[name], value)
    # The head knows the release before the first step, though images are random. Even
    # probabilities have log 4, and those of a random head more.
    assert torch.equal(own["head.weight"], judge["head.weight"])
    known = student.predict(data.train_features)
    assert -np.log((known * posterior).sum(1)).mean() < math.log(4) - 0.05


def test_a_network_starts_from_another_sets_public_labels_and_says_so(
    photographs: tuple[PublicData, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, _ = photographs
    others = replace(data, name="letters", train_features=255 - IMAGES)
    public = LabelledData(public=others, train_labels=np.arange(48) % 4)
    monkeypatch.setenv(embedding.CACHE, str(tmp_path))
    monkeypatch.setattr(embedding, "load", lambda name: public)
    config = LearnerConfig(model=ModelName.FAST_CNN, width=32, encoder="pretrained:letters")
    config.check_data(data)
    assert not list(tmp_path.iterdir()), "a plan trains nothing"
    started = OnLabels(config, labels=np.arange(48) % 4, data=data, seed=0, performance=CPU)
    (kept,) = tmp_path.glob("pretrained-letters-*.pt")
    weights = build(kept).network.state_dict()
    own = started.network.state_dict()
    assert weights and all(torch.equal(own[name], value) for name, value in weights.items())
    trial = with_changes(TrialConfig(), {"trainer.encoder": "pretrained:letters"})
    stated = provenance_of(trial, NO_OUTSIDE_DATA)
    assert stated.words == (
        "public encoder: pretrained:letters (fine-tuned), trained on letters with its labels, "
        "public by the user's word, by the user, by labeldp"
    )
    assert provenance_of(TrialConfig(), NO_OUTSIDE_DATA) == NO_OUTSIDE_DATA
    # Its own labels are not public, whatever they are called.
    for same, says in (
        (replace(data, name="letters"), "another data set of images"),
        (replace(others, name="copied"), "are in letters too"),
    ):
        with pytest.raises(ValueError, match=says):
            config.check_data(same)
    with pytest.raises(WeightsRefused, match=r"of width 32, and the trial's is .* width 2"):
        replace(config, width=2).check_data(data)


def test_a_prior_is_learned_of_an_encoders_vectors(photographs: tuple[PublicData, str]) -> None:
    data, file = photographs
    settings = PriorSettings(source=PriorSource.MOMENTS, encoder=file)
    vectors = described(build(Path(file)), IMAGES, performance=CPU)
    seen = prior_features(settings, data).features
    correlation = np.corrcoef(seen.numpy().T, vectors.numpy().T)[:76, 76:].diagonal()
    assert seen.shape == vectors.shape and correlation[vectors.std(0) > 1e-3].min() > 0.99
    same = as_given(vectors)
    table = replace(data, train_features=vectors, test_features=vectors[:4], preprocessing=same)
    with pytest.raises(ValueError, match="learned of images, but photographs is tabular here"):
        prior_features(settings, table)
    with pytest.raises(ValueError, match="a prior from uniform is learned of no features"):
        PriorSettings(encoder=file)
