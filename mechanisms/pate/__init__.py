"""PATE's theory: votes, aggregators, what answers cost and what they leak, without teachers.

| question | modules |
|---|---|
| What are votes, and how do they become answers? | `votes`, `aggregators` |
| How do answers leave the vault, what does the ledger charge? | `releases` |
| What does a decision cost, for any votes and for these? | `decisions`, with the table that |
| | `decision_certificate` proves |
| What do the answers of a run cost? | `accounting`, by `published_bounds` or `decisions` |
| Which noise for which epsilon? | `calibration` |
| What of a cost may be published? | `published_cost` |
| What do repeated answers give away? | `vote_leakage` |
"""

# isort: off
from labeldp.mechanisms.pate.accounting import (
    confident_gnmax_costs as confident_gnmax_costs,
    gnmax_costs as gnmax_costs,
)
from labeldp.mechanisms.pate.aggregators import (
    ConfidentGNMax as ConfidentGNMax,
    GNMax as GNMax,
    InteractiveGNMax as InteractiveGNMax,
    LNMax as LNMax,
)
from labeldp.mechanisms.pate.decisions import (
    Accounting as Accounting,
    decision_rdp_gnmax as decision_rdp_gnmax,
    decision_rdp_threshold as decision_rdp_threshold,
    exact_rdp_gnmax as exact_rdp_gnmax,
    exact_rdp_threshold as exact_rdp_threshold,
)
from labeldp.mechanisms.pate.published_bounds import (
    log_probability_answered as log_probability_answered,
    log_q_gaussian as log_q_gaussian,
    log_q_laplace as log_q_laplace,
    rdp_gnmax as rdp_gnmax,
    rdp_lnmax as rdp_lnmax,
    rdp_threshold as rdp_threshold,
)
from labeldp.mechanisms.pate.published_cost import (
    local_sensitivity_gnmax as local_sensitivity_gnmax,
    local_sensitivity_threshold as local_sensitivity_threshold,
    release_epsilon as release_epsilon,
    smooth_sensitivity as smooth_sensitivity,
)
from labeldp.mechanisms.pate.releases import (
    PateAnswers as PateAnswers,
    PublishedCost as PublishedCost,
)
from labeldp.mechanisms.pate.vote_leakage import (
    answer_log_probabilities as answer_log_probabilities,
    reconstruct as reconstruct,
)

# isort: on
