"""What the rules of the rooms let pass, each with its reason; `tests/test_rooms.py` reads it.

A line that is no longer needed fails as well as one that is missing: the tables only get shorter.
"""

from dataclasses import dataclass

#: Who outside of `platform/trusted/` may import what from it: names of modules or of what is in
#: them. It sees true labels and votes; every other file that wants something from it is refused.
TRUSTED = {
    # The run: opens the home, trains missing teachers, and looks whether the vault is the one that
    # earlier starts released from.
    "platform/sweep_price.py": {"audits.check_room"},
    "platform/open_sweep.py": {
        "vault_home",
        "vault_home.HomePlaces",
        "vault_home.SecretLabels",
        "vault_store.SqliteStore",
    },
    "platform/driver.py": {"ensembles.train_missing"},
    "platform/earlier_starts.py": {"vault_store.SqliteStore", "vault_identity.refuse_if_gone"},
    # What everybody has of the home: the types of its answers.
    "platform/home_handle.py": {
        "answer_desk.DeskAnswers",
        "answer_desk.EnsembleFile",
    },
    # What leaves the house: the ledger's lines, without what was released.
    "platform/publishing/folder_ledger.py": {"kept_ledger.KeptLedger", "kept_ledger.read_ledger"},
    # Fits in this process: labels come from the user, and go into the vault at once.
    "platform/api/classifier.py": {
        "near_labels.NearLabels",
        "near_labels.NearSecrets",
        "shared_vault.PublicSide",
        "shared_vault.SharedVault",
    },
    "platform/api/fitting.py": {"near_labels.NearLabels"},
    # The one door of reports and studies: evidence that was kept for the labels' owner, without
    # labels in it.
    "platform/reports/audit_figures.py": {"audits.AttackEvidence"},
    "platform/reports/audit_report.py": {"audits.AttackEvidence", "audits.evidence_path"},
    "platform/studies/block_check.py": {"audits.AttackEvidence", "audits.evidence_path"},
}


@dataclass(frozen=True, kw_only=True)
class CoveredBy:
    """A module without a test file of its own: which file tests it, and why that one."""

    test: str
    reason: str


#: The modules that no test file mirrors.
UNMIRRORED = {
    module: CoveredBy(test=f"tests/{test}", reason=reason)
    for module, test, reason in (
        ("mechanisms/_arrays.py", "mechanisms/test_posterior.py", "tensors in, tensors out"),
        ("mechanisms/_validate.py", "mechanisms/test_vault.py", "every refusal's words"),
        ("mechanisms/pate_accounting.py", "test_rooms.py", "a door"),
        ("mechanisms/smooth_sensitivity.py", "test_rooms.py", "a door"),
        ("mechanisms/vote_leakage.py", "test_rooms.py", "a door"),
        (
            "mechanisms/auditing/__init__.py",
            "platform/trusted/test_audits.py",
            "hands on names; each module has its test",
        ),
        (
            "mechanisms/pate/probabilities.py",
            "mechanisms/pate/test_accounting.py",
            "golden values of log q",
        ),
        (
            "mechanisms/pate/query_costs.py",
            "mechanisms/pate/test_accounting.py",
            "sums over queries",
        ),
        (
            "mechanisms/pate/publishing_noise.py",
            "mechanisms/pate/test_smooth_sensitivity.py",
            "noise of what is published",
        ),
        (
            "mechanisms/pate/secret_cost.py",
            "mechanisms/pate/test_smooth_sensitivity.py",
            "against brute force",
        ),
        (
            "mechanisms/pate/decision_table.py",
            "mechanisms/pate/test_decision_certificate.py",
            "rows are certified again",
        ),
        (
            "mechanisms/pate/exact_curves.py",
            "mechanisms/pate/test_exact_costs.py",
            "the same costs, of many queries",
        ),
        ("trainers/learner.py", "trainers/test_alibi.py", "under the trainers around it"),
        ("trainers/two_branch.py", "trainers/test_recommender.py", "the network of ratings"),
        *(
            (f"trainers/settings/{name}.py", f"trainers/{test}.py", "with the trainer it is for")
            for name, test in (
                ("alibi", "test_alibi"),
                ("alibi_prior", "test_alibi_prior"),
                ("bit_flip", "test_bit_flip"),
                ("consensus", "test_consensus"),
                ("convex", "test_convex"),
                ("ensemble", "pate/test_teachers"),
                ("forest", "pate/test_forests"),
                ("learner", "test_alibi"),
                ("lp_mst", "test_lp_mst"),
                ("model_name", "test_models"),
                ("noise", "test_targets"),
                ("pate", "pate/test_pate_fm"),
                ("recommender", "test_recommender"),
                ("self_supervised", "self_supervised/test_pretraining"),
                ("staged_moments", "test_staged_moments"),
                ("student", "pate/test_students"),
            )
        ),
        (
            "trainers/data_sets/checks.py",
            "trainers/data_sets/test_set_size.py",
            "in the same words wherever data are read",
        ),
        ("trainers/data_sets/catalog.py", "trainers/test_data.py", "every set by its name"),
        (
            "trainers/data_sets/downloads.py",
            "trainers/data_sets/test_fetch.py",
            "what fetch does, without a network",
        ),
        ("trainers/data_sets/files.py", "trainers/test_data.py", "missing and damaged files"),
        ("trainers/data_sets/layouts.py", "trainers/test_data.py", "every layout that is read"),
        (
            "trainers/data_sets/own_parquet.py",
            "trainers/data_sets/test_own_data.py",
            "one door for both kinds of file",
        ),
        (
            "trainers/data_sets/own_columns.py",
            "trainers/data_sets/test_own_csv.py",
            "what all tables share",
        ),
        (
            "trainers/data_sets/own_description.py",
            "platform/cli/test_own_check.py",
            "what people see of it",
        ),
        (
            "trainers/data_sets/mapped_rows.py",
            "trainers/test_mapped_features.py",
            "files, as they are used",
        ),
        (
            "trainers/data_sets/own_rows.py",
            "trainers/data_sets/test_own_data.py",
            "one door for both kinds of file",
        ),
        ("platform/data_loading.py", "sweeps/test_own_labels.py", "a whole sweep on a user's file"),
        ("platform/evaluation_settings.py", "platform/test_evaluation.py", "with what it decides"),
        ("platform/model_settings.py", "platform/test_configuration.py", "one switch"),
        ("platform/noise_settings.py", "platform/test_configuration.py", "with what it decides"),
        ("platform/overrides.py", "platform/test_configuration.py", "settings as people give them"),
        ("platform/vault_owner.py", "sweeps/test_quickstart.py", "needs a home in Ray"),
        ("platform/records/json_files.py", "platform/records/test_results.py", "what records are"),
        (
            "platform/records/trial_record.py",
            "platform/records/test_results.py",
            "read and refused",
        ),
        (
            "platform/reports/method_styles.py",
            "platform/reports/test_trade_off_chart.py",
            "with what it colors",
        ),
        (
            "platform/reports/histograms.py",
            "platform/reports/test_stage_charts.py",
            "with what it draws",
        ),
        ("platform/reports/edition.py", "platform/reports/test_page.py", "two words"),
        ("platform/reports/glossary.py", "platform/reports/test_page.py", "a page's part"),
        ("platform/reports/result_table.py", "platform/reports/test_page.py", "a page's part"),
        ("platform/reports/trial_cards.py", "platform/reports/test_page.py", "a page's part"),
        (
            "platform/reports/wording.py",
            "platform/reports/test_page.py",
            "doctests, and every number of a page",
        ),
        ("platform/endings.py", "platform/cli/test_exit_codes.py", "errors, and how each ends"),
        ("platform/cli/predicting.py", "platform/cli/test_predict_verb.py", "as people call it"),
        ("platform/cli/pate_prices.py", "platform/cli/test_pate_verbs.py", "as people call it"),
        (
            "platform/cli/tracked_report.py",
            "platform/reports/test_report.py",
            "with what it rebuilds",
        ),
        ("platform/records/checkpoints.py", "faults/test_states.py", "states kept, torn, hostile"),
        (
            "platform/reports/audit_figures.py",
            "platform/reports/test_audit_report.py",
            "with the page that shows them",
        ),
        ("platform/reports/figures.py", "platform/reports/test_pareto.py", "with what it draws"),
    )
}


@dataclass(frozen=True, kw_only=True)
class Long:
    """A function over the limits: its lines and parameters today, which may only sink, and why."""

    lines: int
    parameters: int
    reason: str


#: Functions longer than 60 lines or with more than 7 parameters, docstrings included.
LONG = {
    name: Long(lines=lines, parameters=parameters, reason=reason)
    for name, lines, parameters, reason in (
        (
            "mechanisms/pate/calibration.py:calibrate_confident_gnmax",
            60,
            9,
            "a target, two parts that may be given, and the ways to price that its siblings take",
        ),
        (
            "platform/api/classifier.py:LabelPrivateClassifier.__init__",
            30,
            11,
            "scikit-learn's convention: every parameter by itself, for get_params and searches",
        ),
        (
            "mechanisms/pate/smooth_sensitivity.py:release_epsilon",
            59,
            12,
            "a promised signature (both releases' settings and the publishing noise)",
        ),
    )
}
