"""Commands that README and docs show: run where that takes seconds, planned or parsed where not.

Commands that are not run stand here with a reason; one that no page has fails.
"""

import importlib.util
import re
import shlex
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest

from labeldp.mechanisms.additive_noise import LaplaceNoise
from labeldp.platform.cli.command import ExitCode
from labeldp.platform.cli.command_line import VERBS, main
from labeldp.platform.cli.sweep_command import command_of, plan_options
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.studies import leakage_study
from labeldp.platform.sweep.config_files import load_sweep
from labeldp.platform.sweep.plan import prepare
from tests.platform.report.folders import a_folder, keep_a_model
from tests.platform.sweep.examples import a_record
from tests.source_tree import ROOT, run

PAGES = [
    page
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("infra/*.md")])
    if page.name != "CHANGELOG.md"  # it tells of what was
]
#: A line of a block that is a command.
_COMMAND = re.compile(
    r"^(?:\$ |    (?:  )?(?:\$ )?)"
    r"((?:labeldp|python|make|ray|docker|kubectl|pip|uv|npm|git|curl|source|export|cd|mlflow|\.) "
    r"[^\n]*|[A-Z_]{4,}=[^\n]*)$",
    re.M,
)
#: Words that stand for what a reader fills in, or for a size: what the workshop has for them.
_FILLED_IN = {
    "RESULTS": "results/quickstart",
    "MODEL_FOLDER": "mine-public/model",
    "HASH": "d31e43",
    "FILE.csv": "mine.csv",
    "data.path=...": "data.path=mine.csv",
    "100000": "10000",  # rows of a log that is made
}


@dataclass(frozen=True, kw_only=True)
class Command:
    """A line of a page's block, lines that go on joined; `shown` is its output on the page."""

    page: str
    line: str
    shown: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """Its words up to a pipe, a comment, or the next command; placeholders filled in."""
        words = shlex.split(self.line, comments=True)
        for end in ("|", ">", "&&", "&", "<"):
            words = words[: words.index(end)] if end in words else words
        return [_FILLED_IN.get(word, word) for word in words]

    @property
    def id(self) -> str:
        return f"{self.page}: {self.line[:70]}"


def commands() -> list[Command]:
    found = []
    for page in PAGES:
        text = re.sub(r" *\\\n\s*", " ", page.read_text())  # lines that go on
        text = re.sub(r"```python\n.*?```", "", text, flags=re.S)
        for match in _COMMAND.finditer(text):
            shown: list[str] = []
            if "$ " in match[0][:8]:
                for line in text[match.end() + 1 :].split("\n"):
                    if not line.startswith("    ") or line.strip().startswith("$"):
                        break
                    shown.append(line.strip())
            where = str(page.relative_to(ROOT))
            # A command that is repeated every week is run in four of them.
            for week in "1234" if "$WEEK" in match[1] else "1":
                line = match[1].replace("$WEEK", week)
                found.append(Command(page=where, line=line, shown=tuple(shown)))
    return found


def examples() -> list[Command]:
    """Return the verbs' own examples, which the reference shows."""
    return [Command(page="reference", line=verb.example) for verb in VERBS]


def inline_commands() -> list[str]:
    """Return what pages name in backticks as a command of ours."""
    ours = r"`((?:labeldp|make|python) [^`\n]*)`"
    return [found for page in PAGES for found in re.findall(ours, page.read_text())]


def workshop(folder: Path) -> None:
    """Put into a folder what the commands name: tables, arrays, results, models, the sweeps."""
    for name in ("sweeps", "examples"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "empty").mkdir()
    _tables(folder)
    _audit_files(folder)
    for name in ("quickstart", "mine", "a", "b"):
        results = folder / "results" / name
        (key,) = a_folder(results, releases=[LaplaceNoise(epsilon=1.0, num_classes=10)], readers=0)
        record = a_record("d31e43" + "0" * 10, release_keys=(key,), point={"trainer.epsilon": 1.0})
        ResultsFolder(results, sweep="small").keep(record)
        model = keep_a_model(results, record)
    (folder / "mine-public").mkdir()
    model.rename(folder / "mine-public" / "model")


def _tables(folder: Path) -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(40, 3)), columns=["a", "b", "c"])
    table["bought"] = table["label"] = np.where(table["a"] > 0, "yes", "no")
    table.to_csv(folder / "mine.csv", index=False)
    patients = pd.DataFrame({"id": [f"p{n}" for n in range(40)], "age": random.normal(size=40)})
    patients["joined"] = pd.date_range("2020-01-01", periods=40)
    patients["outcome"] = np.where(patients["age"] > 0, "well", "relapse")
    patients.to_csv(folder / "patients.csv", index=False)
    rows = pd.DataFrame(random.normal(size=(5, 64)), columns=[f"c{n}" for n in range(64)])
    rows.to_csv(folder / "new.csv", index=False)
    rows.to_csv(folder / "rows.csv", index=False)
    rows.to_parquet(folder / "rows.parquet")
    np.savez(folder / "ROWS.npz", features=rows.to_numpy())
    shop = pd.DataFrame({"age": random.normal(size=40), "spent": random.uniform(0, 500, size=40)})
    shop.to_csv(folder / "shop.csv", index=False)


def _audit_files(folder: Path) -> None:
    """Files of audits: 60 confidences among 5 classes, planted and true labels, scores, counts."""
    random = np.random.default_rng(1)
    true = random.integers(5, size=60)
    arrays = {
        "C": random.dirichlet(np.ones(5), size=60),
        "T": true,
        "Y": true,
        "P": (true + 1) % 5,
        "Q": random.dirichlet(np.ones(5), size=60),
        "S": random.normal(size=60),
        "COINS": random.integers(2, size=60),
        "ANSWERS": np.array([[150, 80, 20]]),
        "VOTES": random.multinomial(250, [0.9, *(0.1 / 9,) * 9], size=500),
    }
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)


COMMANDS = [*commands(), *examples()]
OURS = [each for each in COMMANDS if each.line.startswith("labeldp ")]
SWEEPS = [each for each in COMMANDS if re.search(r"\bpython sweeps/", each.line)]
MODULES = [each for each in COMMANDS if each.line.startswith("python -m ")]
MAKE = [each for each in COMMANDS if each.line.startswith("make ")]
#: Of `labeldp`: only parsed, by how the line begins.
PARSED_ONLY = (
    # They serve pages until they are stopped; tests/platform/cli has both.
    "labeldp ui",
    "labeldp watch",
    # Needs the sweep's tracking store; tests/platform/records/test_mlflow_model.py has one.
    "labeldp publish results/quickstart --trial best --to outbox --register",
    # Loads a data set from the network.
    "labeldp data fetch",
    # Are of an encoder and a sweep on it; tests/test_encoders_page.py runs them together.
    "labeldp embed",
    "labeldp report results/moments_on_embeddings",
    "labeldp predict results/moments_on_embeddings",
    "labeldp publish results/moments_on_embeddings",
    # Are run by the page on two parties, with files that it makes.
    "labeldp request features.",
    "labeldp release labels.",
    "labeldp fit features.",
    # Need pairs and choices; tests/platform/api/test_preferences.py makes them.
    "labeldp request pairs.",
    "labeldp release choices.",
    "labeldp fit pairs.",
    "labeldp predict model answers.",
    # Need a database; tests/platform/api/test_databases.py makes them.
    "labeldp release duckdb:",
    "labeldp release postgresql:",
    # Need counts of another party; tests/platform/api/test_histograms.py makes them.
    "labeldp buckets features.",
    "labeldp fit log/features.parquet --histograms",
    # Needs a signature; tests/platform/vault/test_signing.py signs and verifies.
    "labeldp verify",
    # Train or start Ray; tests/platform/cli and tests/sweeps have them.
    "labeldp self-supervise",
    "labeldp sweep",
    "labeldp doctor",
)
#: Other commands that are not run, by how the line begins, and why.
NOT_RUN = {
    ". .venv/bin/activate": "changes the shell",
    "export ": "changes the shell",
    "pip install ": "installs a wheel; tests/test_slim.py does",
    "cd infra/mlflow ": "makes a server's secrets; tests/infra/test_kubernetes.py starts one",
    "python docs/": "draws a figure of a page; tests/mechanisms has its numbers",
    "docker ": "needs Docker; tests/infra/test_images.py reads what it builds",
    "kubectl ": "needs a cluster; tests/infra/test_kubernetes.py reads the manifests",
    "ray ": "needs a cluster; tests/infra/test_kubernetes.py reads the launcher's files",
    "MLFLOW_TRACKING_": "is of a tracking server; tests/infra/test_kubernetes.py uses it",
}
#: Exit codes other than 0, and text of the output.
OTHER_ENDS = {
    "labeldp plan sweeps/alibi_cifar100.py": (ExitCode.CANNOT_FIT, "labeldp data fetch cifar100"),
    "labeldp plan sweeps/alibi_cifar10.py --price-per-hour 3.5": (
        ExitCode.CANNOT_FIT,
        "labeldp data fetch cifar10",
    ),
    "labeldp data check mine.csv": (ExitCode.NOT_OK, "data.classes"),
    "labeldp data check patients.csv --label-column outcome": (
        ExitCode.NOT_OK,
        "data.classes=NAME,NAME",
    ),
}


def begins(line: str, beginnings: Iterable[str]) -> bool:
    return any(line.startswith(each) for each in beginnings)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workshop")
    workshop(folder)
    return folder


@pytest.mark.parametrize("command", OURS, ids=lambda each: each.id)
def test_commands_of_the_pages_do_what_they_are_shown_for(
    command: Command,
    bench: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = command.words[1:]
    if begins(command.line, PARSED_ONLY):
        # Files that a page makes step by step are not there.
        monkeypatch.setattr(click.Path, "convert", lambda self, value, param, ctx: value)
        (verb,) = (
            each for each in VERBS if f"{command.line} ".startswith(f"labeldp {each.words} ")
        )
        assert verb.make_context("labeldp", words[len(verb.words.split()) :])
        return
    monkeypatch.chdir(bench)
    monkeypatch.setenv("LABELDP_DATA", str(bench / "empty"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for option in ("--to", "--out"):  # a folder that is made anew; others' models stay
        if option in words and words[words.index(option) + 1] in ("outbox", "public"):
            shutil.rmtree(bench / words[words.index(option) + 1], ignore_errors=True)
    if "mine-public" in words:
        words[words.index("mine-public")] = "mine-public-again"
    code, said = OTHER_ENDS.get(shlex.join(command.words), (ExitCode.DONE, ""))
    assert main(words) == code
    printed = capsys.readouterr().out
    assert said in printed
    for line in command.shown:
        pattern = ".*".join(map(re.escape, line.split("...")))
        assert any(re.fullmatch(pattern, each.strip()) for each in printed.splitlines()), line


@pytest.mark.parametrize("command", SWEEPS, ids=lambda each: each.id)
def test_sweeps_of_the_pages_can_be_planned(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = command.words
    words = words[words.index("python") + 1 :]
    path = ROOT / words[0]
    if path.name == "vote_leakage.py":  # a study, with a command line of its own

        def parsed(*anything: object, **named: object) -> None:
            raise ValueError("it was asked for")

        monkeypatch.setattr(leakage_study, "run_study", parsed)
        ended = leakage_study.main(None, None, name="s", arguments=words[1:])  # type: ignore[arg-type]
        assert ended == ExitCode.BAD_INPUT
        return
    sweep = load_sweep(str(path))
    given = command_of(sweep).make_context("sweep", words[1:]).params
    asked = plan_options(sweep, given)
    # Without a key or a line that could be wrong the small size says as much, ten times faster.
    named = asked.overrides or asked.only
    assert prepare(sweep, replace(asked, smoke=asked.smoke or not named))[1]


@pytest.mark.parametrize("command", MODULES, ids=lambda each: each.id)
def test_modules_that_pages_run_are_there_with_their_options(command: Command) -> None:
    module, *words = command.words[2:]
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None
    if module == "pytest":
        assert all((ROOT / word).exists() for word in words if word.startswith("tests/"))
        return
    file = Path(spec.origin)
    text = (file.with_name("__main__.py") if file.name == "__init__.py" else file).read_text()
    assert '__name__ == "__main__"' in text
    assert all(f'"{word}"' in text for word in words if word.startswith("--"))


@pytest.mark.parametrize("line", sorted({*inline_commands(), *(each.line for each in MAKE)}))
def test_commands_within_sentences_and_targets_are_there(line: str) -> None:
    """`labeldp epsilon pate|rr` names two verbs; options that are named are those verbs'."""
    tool, *words = line.split()
    if tool == "make":
        run("make", "-n", words[0])
        return
    if tool == "python":
        there = ROOT / words[0] if words[0] != "-m" else importlib.util.find_spec(words[1])
        assert there is not None and (not isinstance(there, Path) or there.exists())
        return
    if words[0] in ("VERB", "--help"):
        return
    verbs = {verb.words: verb for verb in VERBS}
    group = any(verb.startswith(f"{words[0]} ") for verb in verbs)
    if group and not words[1:]:
        return
    for each in words[1].split("|") if group else [""]:
        verb = verbs[f"{words[0]} {each}".strip()]
        help_text = verb.get_help(click.Context(verb))
        assert all(word in help_text for word in words if word.startswith("--"))


def test_each_missing_row_has_a_reason_and_a_command() -> None:
    checked = {each.line for each in [*OURS, *SWEEPS, *MODULES, *MAKE]}
    rest = [each.line for each in COMMANDS if each.line not in checked]
    assert [line for line in rest if not begins(line, NOT_RUN)] == []
    lines = [each.line for each in COMMANDS]
    for beginning in [*NOT_RUN, *PARSED_ONLY]:
        assert any(line.startswith(beginning) for line in lines), f"no page has {beginning!r}"
    filled = {shlex.join(each.words) for each in OURS}
    assert set(OTHER_ENDS) <= filled


def test_files_that_commands_name_are_there() -> None:
    named = {
        word
        for each in COMMANDS
        for word in re.findall(r"\b(?:infra|tests|sweeps)/[\w./-]+\w", each.line)
    }
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []
