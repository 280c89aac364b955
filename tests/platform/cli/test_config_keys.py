"""config_keys: keys as JSON and as text."""

import pytest

from tests.platform.cli.asked import answer, refusal, words


def test_keys_of_a_method(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {each["key"]: each for each in answer(capsys, "config", "alibi")["keys"]}
    assert keys["trainer.epsilon"] == {
        "key": "trainer.epsilon",
        "type": "number",
        "default": "1.0",
        "bounds": "above 0",
        "meaning": "Privacy loss per label; noise `none` ignores it. With `laplace` it is 2 / "
        "lambda, where lambda is the paper's noise scale; `trainer.lambda=X` sets lambda.",
        "methods": ["alibi"],
    }
    assert "data.limit" in keys and "trainer.sigma1" not in keys
    monkeypatch.setenv("COLUMNS", "60")
    text = words(capsys, "config", "alibi")
    assert "trainer.momentum" in text and "number, at least 0 and below 1." in text
    text = words(capsys, "config", "--match", "sigma1")
    assert max(map(len, text.splitlines())) <= 60 and "[pate]" in text
    assert "did you mean alibi" in refusal(capsys, "config", "aliby")
    assert "no key and no meaning" in refusal(capsys, "config", "--match", "zzzz")
