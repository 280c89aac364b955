"""Parts of a large table on two nodes of a Ray cluster, beside one process."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from labeldp.platform.api import party_files
from tests.platform.api.test_two_parties import both_tables
from tests.platform.cli.asked import answer as ran
from tests.platform.cli.asked import refusal

# Ray Data sets options of its own that it calls deprecated.
pytestmark = [
    pytest.mark.ray_cluster,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
    pytest.mark.filterwarnings("ignore::ray.util.annotations.RayDeprecationWarning"),
]


@pytest.mark.parametrize("method", ["moments", "subset"])
def test_two_nodes_learn_what_one_process_does(method: str, cluster: Any, tmp_path: Path) -> None:
    features, labels = both_tables(rows=1200)
    features.to_parquet(tmp_path / "features.parquet", index=False, row_group_size=500)
    labels.to_parquet(tmp_path / "labels.parquet", index=False)
    table, node = str(tmp_path / "features.parquet"), cluster.add_node(num_cpus=2)
    plain = f"request {table} --id-column id --method {method} --classes no,yes -o".split()
    asked = [*plain[:-1], "--rows-at-once", "200", "-o"]
    try:
        alone = ran(*asked, str(tmp_path / "alone"))
        found = ran(*asked, str(tmp_path / "shared"), "--address", cluster.address)
        assert (alone["nodes"], found["nodes"]) == (None, 2)
        names = [part.name for part in party_files.parts_of(tmp_path / "alone")]
        assert len(names) == 6
        for name in names:
            pair = (party_files.read_request(tmp_path / to / name) for to in ("alone", "shared"))
            assert len({each.digest for each in pair}) == 1
        owner = f"{tmp_path}/labels.parquet --id-column id --label-column bought --epsilon 3"
        given = ("--request", str(tmp_path / "shared"), "-o", str(tmp_path / "release"))
        ran("release", *owner.split(), *given)
        fit = ("fit", table, "--release", str(tmp_path / "release"), "--estimator", "logistic")
        ran(*fit, "-o", str(tmp_path / "model"))
        found = ran(*fit, "-o", str(tmp_path / "model2"), "--address", cluster.address)
        assert found["nodes"] == 2
    finally:
        cluster.remove_node(node)
    for model in ("model", "model2"):
        out = ("-o", str(tmp_path / f"{model}.csv"))
        ran("predict", str(tmp_path / model), table, *out)
    chances = [pd.read_csv(tmp_path / f"{name}.csv") for name in ("model", "model2")]
    pd.testing.assert_frame_equal(*chances)
    said = refusal(*plain, str(tmp_path / "no"), "--address", cluster.address)
    assert "only a request in parts runs on nodes" in said
