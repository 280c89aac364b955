"""verb: performing one prints what came out, or says what went wrong, and tells how it ended."""

import json
from argparse import Namespace
from dataclasses import dataclass
from typing import Any

import pytest

from labeldp.platform.cli.exit_codes import ExitCode
from labeldp.platform.cli.verb import Verb, plain_text
from labeldp.platform.sweep.sweep import CannotFit


@dataclass(frozen=True)
class Found:
    ok: bool
    epsilon: float


def verb(result: Any = None, error: BaseException | None = None) -> Verb:
    def run(options: Namespace) -> Any:
        if error is not None:
            raise error
        return result

    return Verb(name="try", summary="something", run=run)


@pytest.mark.parametrize(("ok", "code"), [(True, 0), (False, 1)])
@pytest.mark.parametrize("kind", [Found, dict])
def test_results(capsys: pytest.CaptureFixture[str], ok: bool, code: int, kind: type) -> None:
    result = kind(ok=ok, epsilon=0.1234567891)
    assert verb(result).perform(Namespace(json=False)) == code
    assert capsys.readouterr().out == f"ok: {ok}\nepsilon: 0.123457\n"
    assert verb(result).perform(Namespace(json=True)) == code
    assert json.loads(capsys.readouterr().out) == {"ok": ok, "epsilon": 0.1234567891}


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ValueError("scale is 0"), 2, "error: scale is 0\n"),
        (CannotFit("a trial needs 64 CPU"), 3, "error: a trial needs 64 CPU\n"),
        (
            MemoryError(),
            2,
            "error: this machine has too little memory for that (no more is said)\n",
        ),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_errors(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int, said: str, as_json: bool
) -> None:
    assert verb(error=error).perform(Namespace(json=as_json)) == code
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", said)


def test_a_defect_is_not_dressed_up_as_bad_input() -> None:
    with pytest.raises(RuntimeError, match="a defect"):
        verb(error=RuntimeError("a defect")).perform(Namespace(json=False))


def test_a_verb_may_say_and_judge_in_its_own_way(capsys: pytest.CaptureFixture[str]) -> None:
    own = Verb(
        name="try",
        summary="something",
        run=lambda options: 1 / options.by,
        text=lambda result: f"it is {result}",
        code=lambda result: ExitCode.OVER_BUDGET,
    )
    assert own.perform(Namespace(json=False, by=4)) == 4
    assert capsys.readouterr().out == "it is 0.25\n"


def test_plain_text_of_what_is_nested() -> None:
    nested = {"a": 1.0, "b": {"c": "x", "d": {}}, "rows": [{"n": 1, "e": 0.5}], "none": []}
    assert plain_text(nested) == "a: 1\nb:\n  c: x\n  d:\nrows:\n  - n 1, e 0.5\nnone: []"
