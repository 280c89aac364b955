"""The measurement of a tracking store's size, small."""

import json
from pathlib import Path

from tests.benchmarks.tracking_scale import main


def test_trials_among_others_are_found_again(tmp_path: Path) -> None:
    path = tmp_path / "tracking.json"
    assert main(["--trials", "2", "--among", "0", "30", "--json", str(path)]) == 0
    first, second = json.loads(path.read_text())
    assert (first["others"], second["others"]) == (1, 30)
    assert second["store_megabytes"] >= first["store_megabytes"] > 0
    assert second["reconcile_seconds"] > 0 and second["trials_per_second"] > 0
