"""Break a line that a guarantee rests on and see whether a test notices; the table, in Markdown.

    python -m tests.benchmarks.mutants [--only WORDS ...] [--check]

Each mutant is applied to a temporary copy of what git tracks, and the tests named beside it are run
there; the checkout is left alone. A mutant is killed if tests fail that pass without it. The exit
status is 1 if one survived, or could not be applied or judged. `--check` applies them only.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.interruption import ended
from tests.benchmarks.mutant import SOURCES, TESTS, Mutant
from tests.benchmarks.mutants_known import KNOWN
from tests.benchmarks.mutants_more import MORE
from tests.benchmarks.mutants_of_audits import AUDITS
from tests.benchmarks.mutants_of_ledgers import LEDGERS
from tests.shared_material import SHARED

ROOT = Path(__file__).resolve().parents[2]
#: For the tests of one mutant; one that makes them hang is noticed too.
TIME_LIMIT_SECONDS = 900.0
PASSED, FAILED = 0, 1


class NotJudged(Exception):
    """A mutant whose text is not there, or tests that fail without it."""


@contextmanager
def copied_tree() -> Iterator[Path]:
    """Copy what git tracks, links as links."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    with tempfile.TemporaryDirectory(prefix="labeldp-mutants-") as folder:
        tree = Path(folder)
        for name in filter(None, listed.stdout.split("\0")):
            target = tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).exists():
                shutil.copy2(ROOT / name, target, follow_symlinks=False)
        yield tree


@contextmanager
def applied(mutant: Mutant, tree: Path) -> Iterator[None]:
    """Change the copy, and change it back.

    Raises:
        NotJudged: The old text does not stand in the file exactly once.
    """
    path = tree / SOURCES[mutant.source]
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise NotJudged(f"its text stands in {path.name} {text.count(mutant.old)} times, not once")
    path.write_text(text.replace(mutant.old, mutant.new))
    try:
        yield
    finally:
        path.write_text(text)


class Judge:
    """Runs tests in the copy, and remembers which ones pass there as it is."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self._sound: set[str] = set()
        # No stored bytecode: a file changed back within a second looks as it did.
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(tree),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LABELDP_SHARED": str(SHARED),
        }
        code = "import labeldp; print(labeldp.__file__)"
        imported = self._run([sys.executable, "-c", code]).stdout.strip()
        assert Path(imported).is_relative_to(tree), f"the tests would import {imported}"

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.tree,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_SECONDS,
        )

    def status_of(self, tests: Sequence[str]) -> int:
        """Return pytest's exit status; tests that do not end have failed."""
        options = ["-x", "-q", "-p", "no:cacheprovider"]
        try:
            return self._run([sys.executable, "-m", "pytest", *options, *tests]).returncode
        except subprocess.TimeoutExpired:
            return FAILED

    def kills(self, mutant: Mutant) -> bool:
        """Whether a test of the mutant's notices it.

        Raises:
            NotJudged: It can't be applied, its tests fail without it, or could not be run at all.
        """
        tests = [TESTS[name] for name in mutant.tests]
        for path in tests:
            if path not in self._sound and self.status_of([path]) != PASSED:
                raise NotJudged(f"{path} does not pass without it")
            self._sound.add(path)
        with applied(mutant, self.tree):
            status = self.status_of(tests)
        if status not in (PASSED, FAILED):
            raise NotJudged(f"pytest ended with status {status}")
        return status == FAILED


def main() -> int:
    """Try the mutants that were asked for, and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=[""], help="words of the mutants to try")
    parser.add_argument("--check", action="store_true", help="see that all can be applied")
    options = parser.parse_args()
    chosen = [
        each
        for each in (*KNOWN, *MORE, *AUDITS, *LEDGERS)
        if any(words in each.what for words in options.only)
    ]
    killed = 0
    print("| change | file | tests | | seconds |\n|---|---|---|---|---|")
    with copied_tree() as tree:
        judge = Judge(tree)
        for mutant in chosen:
            started = time.monotonic()
            try:
                if options.check:
                    with applied(mutant, tree):
                        verdict, good = "can be applied", True
                else:
                    good = judge.kills(mutant)
                    verdict = "killed" if good else "**survived**"
            except NotJudged as error:
                verdict, good = f"**not judged**: {error}", False
            killed += good
            seconds = time.monotonic() - started
            names = ", ".join(mutant.tests)
            print(
                f"| {mutant.what} | {SOURCES[mutant.source]} | {names} | {verdict} | "
                f"{seconds:.0f} |",
                flush=True,
            )
    print(f"\n{killed} of {len(chosen)} {'can be applied' if options.check else 'killed'}.")
    return 0 if killed == len(chosen) else 1


if __name__ == "__main__":
    ended(main)
