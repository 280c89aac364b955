"""The pages by the rules that screen readers need: axe-core in a headless Chromium, light and dark.

axe-core is not part of this project. Install it anywhere (`npm install axe-core`), and name its
file in LABELDP_AXE, or have it in `node_modules` of this folder; Chromium is Debian's package.
"""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from labeldp.platform.report.report import write_report
from tests.platform.report.test_page import comparison
from tests.platform.report.test_report import audited
from tests.source_tree import ROOT

AXE = Path(os.environ.get("LABELDP_AXE", ROOT / "node_modules" / "axe-core" / "axe.min.js"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
#: What hinders people; lesser ones are told by axe as minor or moderate.
HINDERING = {"serious", "critical"}
_RUN = """
addEventListener("load", async () => {
  document.querySelectorAll("details").forEach((fold) => { fold.open = true; });
  const found = await axe.run();
  const said = document.createElement("pre");
  said.id = "axe-said";
  said.textContent = JSON.stringify({
    violations: found.violations.map((v) => ({
      rule: v.id, impact: v.impact, where: v.nodes.map((n) => n.html.slice(0, 200))})),
    passes: found.passes.length,
  });
  document.body.append(said);
});
"""

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not there (LABELDP_AXE)"),
]


def said_of(page: Path, folder: Path, *, dark: bool) -> dict[str, Any]:
    """What axe says of a page."""
    script = f"<script>{AXE.read_text()}</script><script>{_RUN}</script>"
    copy = folder / "audited.html"
    copy.write_text(page.read_text().replace("</body>", f"{script}</body>"))
    found: dict[str, Any] = answered(copy, folder, dark=dark)
    return found


def answered(page: Path, folder: Path, *, dark: bool = False) -> Any:
    """What a page's own script has left in it when it is done."""
    command = [
        *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
        f"--user-data-dir={folder / 'browser'}",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        *("--window-size=400,900", "--virtual-time-budget=20000", page.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    match = re.search(r'<pre id="axe-said">(.*?)</pre>', done.stdout, re.DOTALL)
    assert match, "nobody answered"
    return json.loads(html.unescape(match[1]))


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_hinders_a_reader(dark: bool, tmp_path: Path) -> None:
    records = [*comparison(), audited("a")]
    ledger = {"releases": 3, "epsilon_total": 5.0, "delta": 1e-5}
    written = write_report(records, folder=tmp_path, title="small", ledger=ledger)
    for page in (written.html, written.private[0]):
        found = said_of(page, tmp_path, dark=dark)
        assert found["passes"] > 20, "axe has looked at little"
        assert not [v for v in found["violations"] if v["impact"] in HINDERING], page.name


def test_heads_sort_by_keyboard_and_say_so(tmp_path: Path) -> None:
    written = write_report(comparison(), folder=tmp_path, title="small")
    script = """<script>
      const head = [...document.querySelectorAll("th")].find((h) => h.textContent == "accuracy, %");
      const first = () => document.querySelector("tbody tr").cells[1].textContent;
      const seen = [first()];
      for (const _ of [1, 2]) {
        head.querySelector("button").click();
        seen.push(first(), head.getAttribute("aria-sort"));
      }
      seen.push(document.querySelector("[role=status]").textContent, head.tabIndex,
        head.querySelector("button").tabIndex);
      document.body.innerHTML = `<pre id="axe-said">${JSON.stringify(seen)}</pre>`;
    </script>"""
    copy = tmp_path / "sorted.html"
    copy.write_text(written.html.read_text().replace("</body>", f"{script}</body>"))
    assert answered(copy, tmp_path) == [
        *("81.25± 0.35", "81.25± 0.35", "ascending", "97.00", "descending"),
        *("Sorted by accuracy, %, descending.", -1, 0),
    ]


def test_axe_finds_what_is_wrong(tmp_path: Path) -> None:
    """Else a page that it never saw would pass."""
    page = tmp_path / "bad.html"
    page.write_text("<!doctype html><html><body><img src='data:,'><p>words</p></body></html>")
    rules = {v["rule"] for v in said_of(page, tmp_path, dark=False)["violations"]}
    assert {"image-alt", "html-has-lang"} <= rules
