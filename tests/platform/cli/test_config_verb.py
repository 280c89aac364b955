"""config_verb: keys as JSON and as a table."""

import pytest

from labeldp.platform.cli.command_line import main
from tests.platform.cli.asked import answer, refusal


def test_a_methods_keys_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    keys = {each["key"]: each for each in answer(capsys, "config", "alibi")["keys"]}
    assert keys["trainer.epsilon"] == {
        "key": "trainer.epsilon",
        "type": "number",
        "default": "1.0",
        "bounds": "a finite number above 0",
        "meaning": "Privacy loss per label; NONE does not look at it. With LAPLACE it is "
        "2 / lambda, of the paper's scale lambda, and `trainer.lambda=X` sets it so.",
        "methods": ["alibi"],
    }
    assert "data.limit" in keys and "trainer.sigma1" not in keys


@pytest.mark.parametrize("width", [60, 200])
def test_a_table_holds_each_key_at_any_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["config", "--match", "sigma1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    text = " ".join(lines)
    assert "trainer.sigma1" in text and "calibrated" in text and "[0, 1)" not in text
    main(["config", "alibi"])
    shown = capsys.readouterr().out
    assert "trainer.momentum" in shown and "[0, 1)" in shown


def test_what_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean alibi" in refusal(capsys, "config", "aliby")
    assert "no key and no meaning" in refusal(capsys, "config", "--match", "zzzz")
