"""public_values: named values and no others, whatever a record, a method or a person holds."""

import json
import math
from dataclasses import asdict, replace
from typing import Any

import pytest

from labeldp.mechanisms.randomness import NoiseKind
from labeldp.platform.records.trial_record import TrialRecord
from labeldp.platform.report.pareto import points
from labeldp.platform.report.public_values import (
    public_config,
    public_metrics,
    public_record,
    public_trial,
)
from labeldp.platform.sweep.configuration import METHODS, TrialConfig, flatten, with_changes
from labeldp.platform.sweep.figure_names import PUBLIC
from tests.platform.sweep.examples import a_record

SECRET = "s3cr3t-4711"
PLACE = "/home/ada/hiv-study"
#: Every text that a setting of a trial on somebody's own file can hold.
TEXTS: dict[str, Any] = {
    "data.name": "own",
    "data.root": f"{PLACE}/root",
    "data.path": f"{PLACE}/{SECRET}.npz",
    "data.label_column": "hiv_status",
    "data.classes": f"no,{SECRET}",
    "trainer.prior.source": "file",
    "trainer.prior.path": f"{PLACE}/{SECRET}.npy",
}
PRIVATE = {
    "private/epsilon_one_run": 1.2345,
    "private/epsilon_data_dependent": 0.98765,
    "ensemble_accuracy": 0.7654321,
    "vote_label_accuracy": 0.6543219,
    "epsilon_m_paper_low": 0.5432198,
}


def a_secretive_record(**changes: Any) -> TrialRecord:
    record = a_record(
        changes={"method": "alibi_prior", **TEXTS, "audit.canary_seed": 987654},
        figures=PRIVATE,
        epsilon_m_low=0.4321987,
        epsilon_m_high=2.3219876,
        variant=f"study {SECRET}",
        point={"trainer.epsilon": 1.0, "trainer.prior.path": PLACE, "data.path": SECRET},
        release_keys=("fedcba98" * 4,),
    )
    told = {"git_commit": "abc", "environment": {"host": f"{SECRET}.local"}}
    return replace(record, **{**told, **changes})


def everything(value: Any) -> str:
    return json.dumps(asdict(value), default=str)


@pytest.mark.parametrize("public", ["trial", "record"])
def test_no_text_of_a_person_and_no_figure_of_the_owner_comes_through(public: str) -> None:
    record = a_secretive_record()
    if public == "trial":
        trial = public_trial(record, fingerprint="ab" * 32)
        assert not any(SECRET in name or PLACE in name for name in trial.left_out)
        shown = everything(replace(trial, left_out=()))
    else:
        # A page shows the lines' names; those are the sweep file's, and given to be shown.
        shown = everything(replace(public_record(record), variant=""))
    for secret in (SECRET, PLACE, "hiv_status", "987654", "private/", *map(str, PRIVATE.values())):
        assert secret not in shown, secret
    for value in ("0.4321987", "2.3219876"):
        assert value not in shown
    if public == "trial":
        assert record.hash not in shown and "canar" not in shown


def test_what_is_left_out_is_told_by_name_and_never_by_value() -> None:
    left_out = public_trial(a_secretive_record(), fingerprint="").left_out
    for name in ("setting data.path", "setting audit.canary_seed", "figure epsilon_m_low"):
        assert name in left_out
    assert {"environment", "curves", "hash of the trial"} <= set(left_out)
    assert not any(SECRET in each or "987654" in each for each in left_out)


def test_a_key_that_is_no_name_is_not_even_told() -> None:
    record = a_record()
    strange = {**record.config, f"x={SECRET}": 1, f"{PLACE}": 2}
    metrics = {**record.metrics, f"figure of {SECRET}": 1.0}
    trial = public_trial(replace(record, config=strange, metrics=metrics), fingerprint="")
    assert SECRET not in everything(trial) and PLACE not in everything(trial)
    assert any("3 more" in each for each in trial.left_out)


def test_settings_and_figures_that_are_public_come_through() -> None:
    changes = {"trainer.epsilon": 2.0, "data.limit": 500, "audit.canaries": 100}
    record = a_record(changes={**changes, "audit.coin_canaries": 100}, figures={"extra": 1.0})
    trial = public_trial(record, fingerprint="ab" * 32)
    expected = {
        "method": "alibi",
        "data.name": "digits",
        "data.limit": 500,
        "data.features": "as_they_are",
        "seed": 0,
        "noise.secure": None,
        "trainer.epsilon": 2.0,
        "trainer.noise": "laplace",
        "trainer.width": None,
        "trainer.nesterov": True,
    }
    assert {key: trial.config[key] for key in expected} == expected
    assert trial.metrics == {"accuracy": 0.9, "epsilon": 1.0, "delta": 0.0}
    assert (trial.replaced, trial.noise, trial.private) == (200, NoiseKind.PLAIN, True)


@pytest.mark.parametrize("method", METHODS)
def test_every_setting_of_a_method_is_a_number_a_word_of_ours_or_stays(method: str) -> None:
    flat = flatten(with_changes(TrialConfig(), {"method": method}))
    public = public_config(flat)
    words = {key: value for key, value in public.items() if isinstance(value, str)}
    assert words["method"] == method
    numbers = {key for key, value in flat.items() if isinstance(value, int | float)}
    assert {key for key in numbers if key.startswith("trainer.")} <= set(public)
    planted = {key: SECRET if key not in ("method", "data.name") else flat[key] for key in flat}
    assert SECRET not in json.dumps(public_config(planted))
    nested = {key: [SECRET, 1.0] for key in flat if key.startswith("trainer.")}
    assert SECRET not in json.dumps(public_config({**flat, **nested}))


def test_lists_of_numbers_come_through() -> None:
    changes = {"method": "lp_mst", "trainer.splits": [0.5, 0.5]}
    flat = flatten(with_changes(TrialConfig(), changes))
    assert public_config(flat)["trainer.splits"] == [0.5, 0.5]
    assert "trainer.splits" not in public_config({**flat, "trainer.splits": [0.5, True]})


def test_a_number_where_a_truth_value_belongs_stays() -> None:
    flat = flatten(TrialConfig())
    assert "trainer.nesterov" not in public_config({**flat, "trainer.nesterov": 11337})


@pytest.mark.parametrize(("key", "what"), [("method", "method"), ("data.name", "data set")])
def test_what_is_not_known_here_is_refused(key: str, what: str) -> None:
    record = a_record()
    strange = replace(record, config={**record.config, key: SECRET})
    with pytest.raises(ValueError, match=f"has a {what} that is not known here") as refused:
        public_trial(strange, fingerprint="")
    assert SECRET not in str(refused.value)


def test_the_public_name_does_not_let_anybody_check_a_guess() -> None:
    """A trial's hash is made of all settings: who has the rest could try seeds and paths on it."""
    one, other = (
        public_trial(
            a_record(changes={"noise.seed": seed, "data.root": root}), fingerprint="ab" * 32
        )
        for seed, root in ((1, "/a"), (2, "/b"))
    )
    assert one.name == other.name
    assert one.name != public_trial(a_record(changes={"seed": 1}), fingerprint="ab" * 32).name


def test_a_fingerprint_that_is_none_stays() -> None:
    assert public_trial(a_record(), fingerprint=PLACE).fingerprint == ""


def test_keys_that_are_none_stay() -> None:
    found = public_trial(a_record(release_keys=("ab" * 16, PLACE)), fingerprint="")
    assert found.releases == ("ab" * 16,)


def test_how_many_labels_were_replaced_is_said_if_both_numbers_are_known() -> None:
    record = a_record(changes={"audit.canaries": 20, "audit.coin_canaries": 30})
    assert public_trial(record, fingerprint="").replaced == 50
    less = {key: value for key, value in record.config.items() if key != "audit.coin_canaries"}
    assert public_trial(replace(record, config=less), fingerprint="").replaced is None


def test_how_and_when_a_trial_was_run_stays() -> None:
    public = public_record(a_secretive_record())
    assert (public.seconds, public.git_commit, public.environment) == (0.0, "", {})


def test_a_failed_trial_has_no_figures_and_no_reason() -> None:
    record = a_record(finished=False, reason=f"teacher 3 saw {SECRET}")
    assert public_trial(record, fingerprint="").metrics == {}
    assert SECRET not in everything(public_record(record))


def test_public_records_make_tables_that_say_nothing_of_the_attack() -> None:
    (point,) = points([public_record(a_secretive_record())])
    assert (point.accuracy, point.epsilon) == (0.9, 1.0)
    assert (point.epsilon_m_low, point.epsilon_m_high) == (0.0, math.inf)
    assert dict(point.point) == {"trainer.epsilon": 1.0}
    assert all(
        set(epoch) <= {"epoch", "val_accuracy"} for epoch in public_record(a_record()).curves
    )


def test_seeded_noise_stays_seeded_and_its_seed_stays() -> None:
    public = public_record(a_record(changes={"noise.seed": 424242}))
    assert public.noise is NoiseKind.SEEDED and "424242" not in everything(public)


def test_metrics_are_named_one_by_one() -> None:
    assert not any(name.startswith(("private/", "epsilon_m")) for name in PUBLIC)
    assert public_metrics({"accuracy": 0.5, "answered_by_teachers": 3.0}) == {"accuracy": 0.5}
