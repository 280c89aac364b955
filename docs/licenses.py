"""Every package that labeldp needs, with its version and license.

    python docs/licenses.py    # prints the page of the site that lists them

A hook of mkdocs (`mkdocs.yml`): the page is in no folder.

Licenses are those that the installed packages state. Packages of the `dev` extra alone are left
out: nobody who uses labeldp installs them.
"""

import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
_HEAD = """# Licenses of dependencies

labeldp is under the Apache License 2.0. Its dependencies state these licenses. "For" is empty for
packages that every installation has. Others come with the extra that is named there.

| package | version | license | for |
|---|---|---|---|
"""


def needed() -> dict[str, set[str]]:
    """Return each package that is needed with the extras that bring it, "" for all."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {"": project["dependencies"], **project["optional-dependencies"]}
    del extras["dev"]
    found: dict[str, set[str]] = {}

    def follow(text: str, extra: str, wanted: frozenset[str]) -> None:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": each}) for each in wanted | {""}):
            return
        name = canonicalize_name(requirement.name)
        own = frozenset(requirement.extras)
        if extra in found.setdefault(name, set()) and not own:
            return
        found[name].add(extra)
        try:
            required = distribution(name).requires or []
        except PackageNotFoundError:
            required = []
        for each in required:
            follow(each, extra, own)

    for extra, requirements in extras.items():
        for text in requirements:
            follow(text, extra, frozenset())
    return found


def license_of(package: Distribution) -> str:
    """Return the license that a package states: an SPDX expression, classifiers, or a line."""
    facts = package.metadata
    classifiers = [
        line.rpartition(" :: ")[2]
        for line in facts.get_all("Classifier") or ()
        if line.startswith("License ::") and line != "License :: OSI Approved"
    ]
    lines = "".join(facts.get_all("License") or [""]).strip().splitlines() or [""]
    files = [each for each in package.files or () if each.name.upper().startswith("LICENSE")]
    text = (files[0].read_text() if files else "").splitlines()
    stated = [*(facts.get_all("License-Expression") or ()), "; ".join(classifiers), lines[0]]
    stated += [line for line in text if "License" in line]
    return next((each.strip() for each in stated if each.strip()), "not stated")


def page() -> str:
    """Return the page, in Markdown."""
    rows = []
    for name, extras in sorted(needed().items()):
        where = "" if "" in extras else ", ".join(sorted(extras))
        try:
            package = distribution(name)
        except PackageNotFoundError:
            rows.append(f"| {name} | not installed here | | {where} |")
        else:
            rows.append(f"| {name} | {package.version} | {license_of(package)} | {where} |")
    return _HEAD + "\n".join(rows) + "\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page to those of the site."""
    files.append(File.generated(config, "reference/licenses.md", content=page()))
    return files


if __name__ == "__main__":
    print(page(), end="")
