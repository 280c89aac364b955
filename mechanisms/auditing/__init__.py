"""All audits in one place. They take scores and counts only: no model, no data.

docs/audits.md says which one answers what, and under which conditions.

A lower bound is proof that a mechanism leaks, with the stated confidence. It is never proof that it
leaks no more: that is the provable epsilon's part. Show a bound with its `ceiling`.
"""

# isort: off
from labeldp.mechanisms.auditing.canaries import (
    Canaries as Canaries,
    CoinCanaries as CoinCanaries,
    ReleaseAudit as ReleaseAudit,
    audit_moments as audit_moments,
    audit_release as audit_release,
)
from labeldp.mechanisms.auditing.memorization import (
    MemorizationAudit as MemorizationAudit,
    memorization_interval as memorization_interval,
    memorization_interval_from_pairs as memorization_interval_from_pairs,
)
from labeldp.mechanisms.auditing.one_run import (
    Curve as Curve,
    GaussianCurve as GaussianCurve,
    ObservationalAudit as ObservationalAudit,
    OneRunAudit as OneRunAudit,
    PureCurve as PureCurve,
    RandomizedResponseCurve as RandomizedResponseCurve,
    best_tight_bound as best_tight_bound,
    canaries_needed as canaries_needed,
    candidate_scores as candidate_scores,
    f_dp_lower_bound as f_dp_lower_bound,
    guess_counts as guess_counts,
    observational_audit as observational_audit,
    one_run_audit as one_run_audit,
    one_run_ceiling as one_run_ceiling,
    one_run_lower_bound as one_run_lower_bound,
    right_guesses as right_guesses,
    tight_lower_bound as tight_lower_bound,
)
from labeldp.mechanisms.label_channels import (
    BitFlipFamily as BitFlipFamily,
    Family as Family,
    GaussianFamily as GaussianFamily,
    LaplaceFamily as LaplaceFamily,
    SubsetFamily as SubsetFamily,
)

# isort: on
