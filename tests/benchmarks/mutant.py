"""What a mutant is, and where the files that mutants change and the tests that kill them lie."""

from dataclasses import dataclass

#: Short name -> source file. Files that move are followed here and nowhere else.
SOURCES = {
    "accounting": "mechanisms/accounting.py",
    "additive_noise": "mechanisms/additive_noise.py",
    "aggregators": "mechanisms/pate/aggregators.py",
    "answer_desk": "platform/trusted/answer_desk.py",
    "audits": "platform/trusted/audits.py",
    "canaries": "mechanisms/auditing/canaries.py",
    "cluster_prior": "mechanisms/cluster_prior.py",
    "correct_count": "mechanisms/correct_count.py",
    "decision_events": "mechanisms/pate/decisions.py",
    "descriptions": "mechanisms/descriptions.py",
    "exact_digits": "mechanisms/exact_digits.py",
    "figure_book": "platform/trusted/figure_book.py",
    "interactive_gnmax": "mechanisms/pate/aggregators.py",
    "label_channels": "mechanisms/auditing/label_channels.py",
    "label_moments": "mechanisms/label_moments.py",
    "learned_sweeps": "platform/publishing/learned_sweeps.py",
    "ledger": "mechanisms/ledger.py",
    "memorization": "mechanisms/auditing/memorization.py",
    "noise_settings": "platform/noise_settings.py",
    "observational": "mechanisms/auditing/observational.py",
    "one_run": "mechanisms/auditing/one_run.py",
    "partition": "trainers/partition.py",
    "pate_release": "mechanisms/pate/releases.py",
    "plan": "platform/cost.py",
    "priors": "trainers/priors.py",
    "public_ledger": "platform/publishing/public_ledger.py",
    "randomized_response": "mechanisms/randomized_response.py",
    "randomness": "mechanisms/randomness.py",
    "release_address": "mechanisms/release_address.py",
    "release_figures": "platform/trusted/release_figures.py",
    "release_store": "mechanisms/release_store.py",
    "rr_with_prior": "mechanisms/rr_with_prior.py",
    "secret_cost": "mechanisms/pate/sensitivity.py",
    "secure_noise": "mechanisms/secure_noise.py",
    "selection": "mechanisms/selection.py",
    "shared_vault": "platform/trusted/shared_vault.py",
    "smooth_sensitivity": "mechanisms/pate/published_cost.py",
    "staged_moments": "trainers/settings/staged_moments.py",
    "stand_ins": "platform/search/stand_ins.py",
    "tight_one_run": "mechanisms/auditing/tight_one_run.py",
    "total_ledger": "platform/publishing/total_ledger.py",
    "trainer": "trainers/trainer.py",
    "two_class_costs": "mechanisms/pate/sensitivity.py",
    "validate": "mechanisms/_validate.py",
    "vault": "mechanisms/vault.py",
    "vault_client": "platform/vault_client.py",
    "vault_home": "platform/trusted/vault_home.py",
    "vault_part": "mechanisms/vault_part.py",
    "vault_store": "platform/trusted/vault_store.py",
}

#: Short name -> test file.
TESTS = {
    "accounting": "tests/mechanisms/test_accounting.py",
    "aggregators": "tests/mechanisms/pate/test_aggregators.py",
    "answer_desk": "tests/platform/trusted/test_answer_desk.py",
    "audits": "tests/platform/trusted/test_audits.py",
    "canaries": "tests/mechanisms/auditing/test_canaries.py",
    "cluster_prior": "tests/mechanisms/test_cluster_prior.py",
    "configuration": "tests/platform/test_configuration.py",
    "correct_count": "tests/mechanisms/test_correct_count.py",
    "decision_events": "tests/mechanisms/pate/test_decisions.py",
    "evaluation": "tests/platform/test_evaluation.py",
    "descriptions": "tests/mechanisms/test_descriptions.py",
    "exact_digits": "tests/mechanisms/test_exact_digits.py",
    "figure_book": "tests/platform/trusted/test_figure_book.py",
    "interactive_gnmax": "tests/mechanisms/pate/test_aggregators.py",
    "label_channels": "tests/mechanisms/auditing/test_label_channels.py",
    "label_moments": "tests/mechanisms/test_label_moments.py",
    "learned_sweeps": "tests/platform/publishing/test_learned_sweeps.py",
    "ledger": "tests/mechanisms/test_ledger.py",
    "memorization": "tests/mechanisms/auditing/test_memorization.py",
    "noise_distributions": "tests/mechanisms/test_additive_noise.py",
    "observational": "tests/mechanisms/auditing/test_observational.py",
    "one_run": "tests/mechanisms/auditing/test_one_run.py",
    "partition": "tests/trainers/test_partition.py",
    "pate_release": "tests/mechanisms/pate/test_releases.py",
    "plan": "tests/platform/test_cost.py",
    "planted_canaries": "tests/platform/test_planted_canaries.py",
    "priors": "tests/trainers/test_priors.py",
    "privacy_loss": "tests/mechanisms/test_privacy_loss.py",
    "public_ledger": "tests/platform/publishing/test_public_ledger.py",
    "randomized_response": "tests/mechanisms/test_randomized_response.py",
    "randomness": "tests/mechanisms/test_randomness.py",
    "release_address": "tests/mechanisms/test_release_address.py",
    "release_figures": "tests/platform/trusted/test_release_figures.py",
    "release_store": "tests/mechanisms/test_release_store.py",
    "rr_with_prior": "tests/mechanisms/test_rr_with_prior.py",
    "secure_noise": "tests/mechanisms/test_secure_noise.py",
    "selection": "tests/mechanisms/test_selection.py",
    "shared_vault": "tests/platform/trusted/test_shared_vault.py",
    "smooth_sensitivity": "tests/mechanisms/pate/test_published_cost.py",
    "staged_moments": "tests/trainers/test_staged_moments.py",
    "stand_ins": "tests/platform/search/test_stand_ins.py",
    "tails": "tests/mechanisms/test_declared_failures.py",
    "tight_one_run": "tests/mechanisms/auditing/test_tight_one_run.py",
    "total_ledger": "tests/platform/publishing/test_total_ledger.py",
    "trainer": "tests/trainers/test_trainer.py",
    "two_class_costs": "tests/mechanisms/pate/test_sensitivity.py",
    "vault": "tests/mechanisms/test_vault.py",
    "vault_client": "tests/platform/test_vault_client.py",
    "vault_part": "tests/mechanisms/test_vault_part.py",
    "vault_store": "tests/platform/trusted/test_vault_store.py",
}


@dataclass(frozen=True)
class Mutant:
    """A change that voids or weakens a guarantee, and the tests that ought to notice.

    Attributes:
        what: The change, in words.
        source: A key of `SOURCES`.
        old: Text that stands in the file exactly once.
        new: What takes its place.
        tests: Keys of `TESTS`.
    """

    what: str
    source: str
    old: str
    new: str
    tests: tuple[str, ...]
