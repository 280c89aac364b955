"""Builds and checks the files of a release, for `make release`.

    python infra/release.py [--to FOLDER] [--python 3.11 --python 3.13] [--key FILE]

Of the last commit: a source archive and a wheel, checked, installed with the pinned packages into
an empty environment of each Python, where examples run. Beside them it writes a list of all
installed packages (CycloneDX), a statement of what was tested (in-toto), and checksums, signed if
an SSH key is given. A tag is set by hand, afterwards.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
#: The oldest and the newest that pyproject.toml allows.
PYTHONS = ("3.11", "3.13")
#: Examples that need neither another sweep's results nor a long time.
EXAMPLES = ("own_csv.py", "own_mechanism.py", "own_network.py", "two_companies.py")
UV = Path(sys.executable).parent / "uv"


def main() -> None:
    """Read the arguments, make the files, and print where they are."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--to", type=Path, default=ROOT / "dist" / "release", metavar="FOLDER")
    parser.add_argument(
        "--python", action="append", metavar="VERSION", help="default: 3.11 and 3.13"
    )
    parser.add_argument("--key", type=Path, help="private SSH key that signs the checksums")
    given = parser.parse_args()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    reasons = refusals(version, changelog=(ROOT / "CHANGELOG.md").read_text(), changes=changes())
    if given.to.exists() and any(given.to.iterdir()):
        reasons.append(f"{given.to} has files already: name an empty folder with --to")
    if reasons:
        raise SystemExit("\n".join(reasons))
    given.to.mkdir(parents=True, exist_ok=True)
    files = build(given.to)
    tested = [try_wheel(files[0], python, given.to) for python in given.python or PYTHONS]
    stated = statement(files, tested, images(version))
    (given.to / "tested.json").write_text(json.dumps(stated, indent=2))
    sign(given.to, given.key)
    print(f"{given.to} has labeldp {version}; set the tag by hand: git tag -s v{version}")


def refusals(version: str, *, changelog: str, changes: str) -> list[str]:
    """Return why `version` can't be released: one sentence for each reason."""
    reasons = []
    if changes:
        reasons.append(
            f"the checkout has changes that no commit has:\n{changes}\nCommit or remove them"
        )
    if not re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE
    ):
        reasons.append(
            f"CHANGELOG.md has no section '## [{version}] - YYYY-MM-DD': rename [Unreleased]"
        )
    return reasons


def changes() -> str:
    """Return what `git status` says of the checkout: empty if a commit has all of it."""
    return run("git", "-C", ROOT, "status", "--porcelain").stdout.rstrip()


def build(folder: Path) -> list[Path]:
    """Build the wheel and the source archive of the last commit, and check them for an index."""
    with tempfile.TemporaryDirectory() as sources:
        # Files that git does not know must not get in.
        archive = Path(sources) / "sources.tar"
        run("git", "-C", ROOT, "archive", "--output", archive, "HEAD")
        run("tar", "-xf", archive, "-C", sources)
        archive.unlink()
        run(UV, "build", "--quiet", "--out-dir", folder, sources)
    (folder / ".gitignore").unlink(missing_ok=True)  # uv's own
    files = [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]
    run(UV, "tool", "run", "--quiet", "twine", "check", "--strict", *files)
    return files


def try_wheel(wheel: Path, python: str, folder: Path) -> dict[str, Any]:
    """Install `wheel` into an empty environment of `python`, run examples, list its packages."""
    print(f"Python {python}: an empty environment, then {len(EXAMPLES)} examples", flush=True)
    with tempfile.TemporaryDirectory() as place:
        environment = Path(place) / "environment"
        run(UV, "venv", "--quiet", "--python", python, environment)
        own = environment / "bin" / "python"
        pins = ROOT / "constraints.txt"
        run(
            UV, "pip", "install", "--quiet", "--python", own, "--constraint", pins, f"{wheel}[jobs]"
        )
        said = run(environment / "bin" / "labeldp", "--version", cwd=place).stdout.strip()
        for example in EXAMPLES:
            run(own, ROOT / "examples" / example, cwd=place, first_on_path=own.parent)
        listed = folder / f"packages-{python}.cdx.json"
        run(UV, "tool", "run", "--quiet", "--from", "cyclonedx-bom", "cyclonedx-py", "environment",
            "--output-file", listed, own)  # fmt: skip
        whole = run(own, "-c", "import sys; print(sys.version)").stdout.strip()
    return {"python": whole, "version": said, "examples": list(EXAMPLES), "packages": listed.name}


def images(version: str) -> list[dict[str, Any]]:
    """Build the images where Docker is, and return their names and digests.

    Elsewhere `tests/infra` reads their files. A base is the newest of its tag; its digest stands
    beside the image's.
    """
    docker = shutil.which("docker")
    # A client may be there without a daemon.
    if docker is None or subprocess.run([docker, "info"], capture_output=True).returncode:
        print("no docker here: images are not built")
        return []
    commit = run("git", "-C", ROOT, "rev-parse", "HEAD").stdout.strip()
    found = []
    for file in ("Dockerfile", "Dockerfile.gpu", "Dockerfile.mlflow"):
        name = f"labeldp{Path(file).suffix.replace('.', '-')}:{version}"
        text = (ROOT / "infra" / "docker" / file).read_text()
        bases = {base for base in re.findall(r"^FROM (\S+)", text, re.M) if "labeldp" not in base}
        for base in sorted(bases):  # by name: `build --pull` leaves no image to inspect
            run("docker", "pull", base)
        of_commit = ["--build-arg", f"GIT_COMMIT={commit}"]
        place = ROOT / "infra" / "docker" / file
        run("docker", "build", "-f", place, "-t", name, *of_commit, ROOT)
        ids = [_inspected("{{.Id}}", name)]
        ids += [_inspected("{{index .RepoDigests 0}}", base) for base in sorted(bases)]
        digests = [each.rpartition(":")[2] for each in ids]
        found += [
            {"name": each, "digest": {"sha256": digest}}
            for each, digest in zip([name, *sorted(bases)], digests, strict=True)
        ]
    return found


def _inspected(what: str, image: str) -> str:
    return run("docker", "image", "inspect", "--format", what, image).stdout.strip()


def statement(
    files: Sequence[Path],
    tested: Sequence[dict[str, Any]],
    images: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Return what was tested, as an in-toto statement with the predicate `test-result`."""
    commit = run("git", "-C", ROOT, "rev-parse", "HEAD").stdout.strip()
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": file.name, "digest": {"sha256": digest(file)}} for file in files],
        "predicateType": "https://in-toto.io/attestation/test-result/v0.1",
        "predicate": {
            "result": "PASSED",
            "configuration": [{"name": "git", "digest": {"gitCommit": commit}}],
            "passedTests": [
                f"{example} on Python {each['python']}"
                for each in tested
                for example in each["examples"]
            ],
            "environments": list(tested),
            "images": list(images),
        },
    }


def sign(folder: Path, key: Path | None) -> None:
    """Write the checksums of all files of `folder`, and their signature if there is a key."""
    lines = [f"{digest(file)}  {file.name}" for file in sorted(folder.iterdir()) if file.is_file()]
    sums = folder / "SHA256SUMS"
    sums.write_text("\n".join(lines) + "\n")
    if key:
        run("ssh-keygen", "-q", "-Y", "sign", "-n", "labeldp-release", "-f", key, sums)


def digest(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def run(
    *command: object, cwd: str | None = None, first_on_path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command; end with all that it said if it fails."""
    words = [str(word) for word in command]
    path = os.pathsep.join([*([str(first_on_path)] if first_on_path else []), os.environ["PATH"]])
    done = subprocess.run(
        words,
        cwd=cwd,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done


if __name__ == "__main__":
    main()
