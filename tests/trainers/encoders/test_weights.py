"""weights: read without running anything, and refused where they do not fit."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from labeldp.trainers.encoders.libraries import (
    WeightsRefused,
    digest_of,
    put_in,
    read_weights,
    without_head,
)


def network(classes: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, classes))


def test_files_of_both_kinds(tmp_path: Path) -> None:
    state = network().state_dict()
    torch.save(state, tmp_path / "a.pt")
    torch.save({"epoch": 3, "state_dict": state}, tmp_path / "b.pt")
    torch.save({f"module.{name}": value for name, value in state.items()}, tmp_path / "c.pth")
    save_file(state, tmp_path / "d.safetensors")
    for name in ("a.pt", "b.pt", "c.pth", "d.safetensors"):
        other = network()
        put_in(other, read_weights(tmp_path / name), what=name)
        assert all((other.state_dict()[key] == value).all() for key, value in state.items())


def test_what_is_no_file_of_weights_is_refused(tmp_path: Path) -> None:
    torch.save(network(), tmp_path / "whole.pt")  # a pickle that would run code
    torch.save([1, 2], tmp_path / "list.pt")
    (tmp_path / "cut.pt").write_bytes(b"PK\x03\x04")
    (tmp_path / "cut.safetensors").write_bytes(b"no")
    for name, message in (
        ("whole.pt", "can't be read .* tensors by name and nothing else"),
        ("list.pt", "more than tensors by name"),
        ("cut.pt", "can't be read"),
        ("cut.safetensors", "can't be read"),
        ("nowhere.pt", "No such file"),
    ):
        with pytest.raises(WeightsRefused, match=message):
            read_weights(tmp_path / name)


def test_weights_that_do_not_fit_say_how() -> None:
    weights = dict(network().state_dict())
    del weights["0.bias"]
    weights["further"] = torch.ones(1)
    weights["2.weight"] = torch.ones(7, 5)
    with pytest.raises(
        WeightsRefused,
        match=r"mine do not fit.* 1 that the network has are not in it \(0.bias.* 1 in it are not "
        r"the network's \(further.* 1 are of another shape \(2.weight is \[7, 5\] there",
    ):
        put_in(network(), weights, what="mine")


def test_a_head_of_any_size_is_passed_over_where_the_network_has_none() -> None:
    whole, other = network(), network()
    digest = digest_of(whole)
    assert without_head(other) == "2"
    put_in(other, network(classes=7).state_dict(), what="w", without="2")
    assert other(torch.ones(2, 4)).shape == (2, 5)
    assert digest_of(whole) == digest != digest_of(network()) != digest_of(other)
    with pytest.raises(WeightsRefused, match="no linear layer"):
        without_head(nn.Sequential(nn.ReLU()))
