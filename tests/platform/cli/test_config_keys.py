"""config_keys: keys as JSON and as text."""

import pytest

from tests.platform.cli.asked import answer, refusal, words


def test_a_methods_keys_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    keys = {each["key"]: each for each in answer(capsys, "config", "alibi")["keys"]}
    assert keys["trainer.epsilon"] == {
        "key": "trainer.epsilon",
        "type": "number",
        "default": "1.0",
        "bounds": "above 0",
        "meaning": "Privacy loss per label; NONE does not use it. With LAPLACE it is "
        "2 / lambda, of the paper's scale lambda.",
        "methods": ["alibi"],
    }
    assert "data.limit" in keys and "trainer.sigma1" not in keys


@pytest.mark.parametrize("width", [60, 200])
def test_keys_fit_any_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = words(capsys, "config", "--match", "sigma1")
    assert max(map(len, text.splitlines())) <= width
    assert "trainer.sigma1" in text and "calibrated" in text and "below 1." not in text
    text = words(capsys, "config", "alibi")
    assert "trainer.momentum" in text and "number, at least 0 and below 1." in text


def test_unknown_methods_and_keys_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean alibi" in refusal(capsys, "config", "aliby")
    assert "no key and no meaning" in refusal(capsys, "config", "--match", "zzzz")
