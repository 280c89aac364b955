"""All audits in one place. They take scores and counts only: no model, no data.

| question | audit | answer |
|---|---|---|
| What do published tables report as epsilon_m? | `memorization_interval(...).paper` | estimate |
| What do the same confidences prove? | `memorization_interval(...).corrected` | bound at delta 0 |
| What does a run with coin canaries prove? | `one_run_audit`, `one_run_lower_bound` | lower bound |
| ... if the mechanism's own curve is known? | `f_dp_lower_bound` | tighter lower bound |
| ... if each label got noise of a known family? | `tight_lower_bound` | tightest lower bound |
| What does a release prove, without any model? | `audit_release` | lower bounds |
| Is the noise of moment labels as charged? | `audit_moments` | lower bound |
| What shows without spoiling a label, given how wrong a proxy is? | `observational_audit` | ... |
| How much better than chance can any attack guess labels? | `advantage_bound` | upper bound |
| What do repeated PATE answers give away? | `mechanisms.pate.vote_leakage` | vote histograms |

A lower bound is proof that a mechanism leaks, with the stated confidence. It is never proof that it
leaks no more: that is the provable epsilon's part. Show a bound with its `ceiling`.
"""

from labeldp.mechanisms.auditing.canaries import Canaries, CoinCanaries
from labeldp.mechanisms.auditing.label_inference import advantage_bound
from labeldp.mechanisms.auditing.memorization import (
    EpsilonInterval,
    MemorizationAudit,
    memorization_interval,
    memorization_interval_from_pairs,
)
from labeldp.mechanisms.auditing.observational import ObservationalAudit, observational_audit
from labeldp.mechanisms.auditing.one_run import (
    OneRunAudit,
    canaries_needed,
    candidate_scores,
    guess_counts,
    one_run_audit,
    one_run_ceiling,
    one_run_lower_bound,
    right_guesses,
)
from labeldp.mechanisms.auditing.release_audit import (
    MomentsAudit,
    ReleaseAudit,
    audit_moments,
    audit_release,
)
from labeldp.mechanisms.auditing.tight_one_run import (
    Curve,
    GaussianCurve,
    PureCurve,
    RandomizedResponseCurve,
    best_tight_bound,
    f_dp_lower_bound,
    tight_lower_bound,
)
from labeldp.mechanisms.label_channels import (
    BitFlipFamily,
    Family,
    GaussianFamily,
    LaplaceFamily,
    SubsetFamily,
)

__all__ = [
    "BitFlipFamily",
    "Canaries",
    "CoinCanaries",
    "Curve",
    "EpsilonInterval",
    "Family",
    "GaussianCurve",
    "GaussianFamily",
    "LaplaceFamily",
    "MemorizationAudit",
    "MomentsAudit",
    "ObservationalAudit",
    "OneRunAudit",
    "PureCurve",
    "RandomizedResponseCurve",
    "ReleaseAudit",
    "SubsetFamily",
    "advantage_bound",
    "audit_moments",
    "audit_release",
    "best_tight_bound",
    "canaries_needed",
    "candidate_scores",
    "f_dp_lower_bound",
    "guess_counts",
    "memorization_interval",
    "memorization_interval_from_pairs",
    "observational_audit",
    "one_run_audit",
    "one_run_ceiling",
    "one_run_lower_bound",
    "right_guesses",
    "tight_lower_bound",
]
