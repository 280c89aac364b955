"""own_encoder: a function of the user's, and what is said where it is none."""

from pathlib import Path

import pytest
import torch

from labeldp.trainers.encoders.embedding import load_encoder
from labeldp.trainers.encoders.encoder import EncoderRequest
from labeldp.trainers.encoders.libraries import WeightsRefused
from labeldp.trainers.encoders.provenance import League
from tests.trainers.encoders.small_encoders import SMALL, Small, some_images

ROOM = SMALL.rpartition(":")[0]


def test_weights_of_a_file_and_of_the_seed(tmp_path: Path) -> None:
    torch.save(Small().state_dict(), tmp_path / "w.pt")
    one, again, other, trained = (
        load_encoder(EncoderRequest(address=SMALL, seed=seed, weights=weights))
        for seed, weights in ((0, None), (0, None), (1, None), (0, str(tmp_path / "w.pt")))
    )
    assert one.weights == again.weights
    assert len({one.weights, other.weights, trained.weights}) == 3
    # What a function of the user's has seen, nobody knows.
    assert one.provenance.league is League.PUBLIC_ENCODER
    assert one(torch.from_numpy(some_images(2))).shape == (2, 6)


def test_a_module_beside_where_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "def flat(weights):\n    return lambda images: images.flatten(1).float()\n"
    Path("encoder_of_this_test.py").write_text(code)
    encoder = load_encoder(EncoderRequest(address="encoder_of_this_test:flat"))
    assert encoder(torch.from_numpy(some_images(2, side=4))).shape == (2, 48)


@pytest.mark.parametrize(
    ("address", "said", "message"),
    [
        ("no_such_module:net", {}, "module no_such_module can't be imported"),
        (f"{ROOM}:no_such", {}, "has no function of that name"),
        (f"{ROOM}:smal", {}, f"did you mean {ROOM}:small?"),
        (f"{ROOM}:fails", {}, "raises RuntimeError: no such thing$"),
        (f"{ROOM}:nothing", {}, "returns 3; it must return what maps a batch"),
        (f"{ROOM}:small", {"weights": "random"}, "leave --weights out"),
        (f"{ROOM}:small", {"weights": "nowhere.pt"}, "nowhere.pt can't be read"),
        (f"{ROOM}:small", {"weights": "V2"}, "weights V2 are not there"),
        ("not a module:net", {}, "named module:Name"),
    ],
)
def test_what_is_none_is_refused(address: str, said: dict[str, str], message: str) -> None:
    with pytest.raises((ValueError, WeightsRefused), match=message):
        load_encoder(EncoderRequest(address=address, **said))  # type: ignore[arg-type]


def test_weights_of_another_network_are_named_on_one_line(tmp_path: Path) -> None:
    torch.save({"other": torch.zeros(3)}, tmp_path / "w.pt")
    with pytest.raises(ValueError, match="raises RuntimeError: ") as refused:
        load_encoder(EncoderRequest(address=SMALL, weights=str(tmp_path / "w.pt")))
    said = str(refused.value)
    assert said.startswith(f"{SMALL}('{tmp_path / 'w.pt'}')") and "\n" not in said
    assert said.endswith(f"is {tmp_path / 'w.pt'} of this encoder? --weights names the file")
