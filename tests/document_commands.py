"""The commands that README and docs show: where they stand, and a workshop to run them in."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from labeldp.mechanisms.additive_noise import LaplaceNoise
from labeldp.platform.cli.command_line import VERBS
from labeldp.platform.records.results import ResultsFolder
from tests.platform.report.folders import a_folder, keep_a_model
from tests.platform.sweep.examples import a_record

ROOT = Path(__file__).resolve().parent.parent
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
            found.append(Command(page=where, line=match[1], shown=tuple(shown)))
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
    (folder / "sweeps").symlink_to(ROOT / "sweeps")
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
