"""A cluster for all tests that need a real one, and which process runs which file."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings

from labeldp.platform.api import paid_fits
from labeldp.platform.api.process_ledger import ProcessLedger

#: Files on the cluster: one process runs them, and starts it and the small sweep once.
ON_CLUSTER = {
    *(f"tests/faults/test_{name}.py" for name in ("gpus", "killed", "limits")),
    "tests/sweeps/test_pate_mnist.py",
}

#: Files and folders that `make test` leaves out, beside all that starts a cluster: the longest.
LONG = (
    "tests/faults",
    "tests/platform/api/test_handed_labels.py",
    "tests/platform/api/test_histograms.py",
    "tests/platform/api/test_label_release.py",
    "tests/platform/api/test_late_labels.py",
    "tests/platform/api/test_numpy_numbers.py",
    "tests/platform/api/test_persons.py",
    "tests/platform/api/test_regressor.py",
    "tests/platform/api/test_rehearsal.py",
    "tests/platform/api/test_text.py",
    "tests/platform/records/test_mlflow_model.py",
    "tests/platform/studies",
    "tests/platform/sweep/test_hours.py",
    "tests/platform/sweep/test_search.py",
    "tests/sweeps",
    "tests/test_commands.py",
    "tests/test_docs.py",
    "tests/test_gpu_campaign.py",
)

#: Those that `make check` leaves out: they start processes too, or take over five seconds.
SLOW = (
    *LONG,
    "tests/benchmarks",
    "tests/infra",
    "tests/mechanisms/auditing/test_memorization.py",
    "tests/mechanisms/pate/test_aggregators.py",
    "tests/mechanisms/pate/test_decision_certificate.py",
    "tests/mechanisms/pate/test_decisions.py",
    "tests/mechanisms/pate/test_published_cost.py",
    "tests/mechanisms/pate/test_vote_leakage.py",
    "tests/mechanisms/test_accuracy_estimate.py",
    "tests/mechanisms/test_amounts.py",
    "tests/mechanisms/test_channels.py",
    "tests/mechanisms/test_drawable_noise.py",
    "tests/mechanisms/test_mechanisms.py",
    "tests/mechanisms/test_refusals.py",
    "tests/mechanisms/test_release_address.py",
    "tests/mechanisms/test_score_histogram.py",
    "tests/mechanisms/test_secure_noise.py",
    "tests/platform/api",
    "tests/platform/cli/test_advise.py",
    "tests/platform/cli/test_command_line.py",
    "tests/platform/cli/test_config_files.py",
    "tests/platform/cli/test_data_sets.py",
    "tests/platform/cli/test_doors.py",
    "tests/platform/cli/test_sweep_command.py",
    "tests/platform/cli/test_tracking_server.py",
    "tests/platform/report/test_page.py",
    "tests/platform/report/test_paper_figures.py",
    "tests/platform/report/test_publish.py",
    "tests/platform/report/test_report.py",
    "tests/platform/settings/test_methods.py",
    "tests/platform/sweep/test_fuzz.py",
    "tests/platform/sweep/test_open_sweep.py",
    "tests/platform/sweep/test_plan.py",
    "tests/platform/vault/test_shared_vault.py",
    "tests/platform/vault/test_signing.py",
    "tests/platform/vault/test_teacher_pool.py",
    "tests/test_",
    "tests/trainers/data/test_data.py",
    "tests/trainers/data/test_own.py",
    "tests/trainers/data/test_written.py",
    "tests/trainers/encoders",
    "tests/trainers/methods",
    "tests/trainers/models/test_learner.py",
    "tests/trainers/models/test_trained_model.py::test_elsewhere",
    "tests/trainers/models/test_training_step.py",
    "tests/trainers/test_extensions.py::test_the_pages",
    "tests/trainers/test_methods.py",
)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files before they are imported, which takes longer than many tests."""
    marks = str(config.option.markexpr)
    left_out = SLOW if "not slow" in marks else LONG if "not long" in marks else ()
    name = collection_path.relative_to(config.rootpath).as_posix()
    return True if name.startswith(left_out) else None


class LedgerOfItsOwn:
    """For each test and docstring, which is a process of its own as far as fits add up."""

    @pytest.fixture(autouse=True)
    def ledger(self, monkeypatch: pytest.MonkeyPatch) -> ProcessLedger:
        made = ProcessLedger()
        monkeypatch.setattr(paid_fits, "LEDGER", made)
        return made


def pytest_configure(config: pytest.Config) -> None:
    """Docstrings lie outside tests/, where fixtures of this file do not reach.

    Nor do tests reach the user's home: vaults are known to a folder that goes with this process.
    """
    state = TemporaryDirectory(prefix="labeldp-state-")
    config.add_cleanup(state.cleanup)
    os.environ["LABELDP_STATE"] = state.name
    config.pluginmanager.register(LedgerOfItsOwn())
    # A busy machine must not fail a property: time limits are those of whole tests.
    settings.register_profile("without_deadline", deadline=None)
    settings.load_profile("without_deadline")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Start a cluster of one node with two cores; tests add nodes with GPUs that are not there."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 2, "num_gpus": 0, "include_dashboard": False}
    started: Any = Cluster(initialize_head=True, head_node_args=head)
    try:
        yield started
    finally:
        started.shutdown()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files that start Ray first, then slow ones: left to the end, they would run alone."""
    with_ray = {item.path for item in items if item.get_closest_marker("ray_cluster")}
    for item in items:
        if item.nodeid.startswith(SLOW) or item.path in with_ray:
            item.add_marker("slow")
        if item.nodeid.startswith(LONG) or item.path in with_ray:
            item.add_marker("long")
    items.sort(
        key=lambda item: (
            _file(item.nodeid) not in ON_CLUSTER,
            item.path not in with_ray,
            item.get_closest_marker("slow") is None,
        )
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each file to one process, and those on the cluster to the same one."""
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class ByFile(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return "the cluster" if _file(nodeid) in ON_CLUSTER else _file(nodeid)

    return ByFile(config, log)


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]
