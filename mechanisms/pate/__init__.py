"""PATE's theory: votes, aggregators, what answers cost and what they leak, without teachers.

| topic | modules |
|---|---|
| votes, how they become answers, the noise for an epsilon | `aggregators` |
| the way out of the vault, the charge | `releases` |
| cost of a decision, for any votes and for these | `decisions` |
| cost of the answers of a run, by published bounds or `decisions` | `accounting` |
| the part of a cost that may be published | `published_cost` |
| leaks of repeated answers | `vote_leakage` |
"""

# isort: off
from labeldp.mechanisms.pate.accounting import (
    confident_gnmax_costs as confident_gnmax_costs,
    gnmax_costs as gnmax_costs,
    log_probability_answered as log_probability_answered,
    log_q_gaussian as log_q_gaussian,
    log_q_laplace as log_q_laplace,
    rdp_gnmax as rdp_gnmax,
    rdp_lnmax as rdp_lnmax,
    rdp_threshold as rdp_threshold,
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
from labeldp.mechanisms.pate.published_cost import (
    local_sensitivity_gnmax as local_sensitivity_gnmax,
    local_sensitivity_threshold as local_sensitivity_threshold,
    release_epsilon as release_epsilon,
    smooth_sensitivity as smooth_sensitivity,
)
from labeldp.mechanisms.pate.releases import (
    NeighborAnswers as NeighborAnswers,
    PateAnswers as PateAnswers,
    PublishedCost as PublishedCost,
)
from labeldp.mechanisms.pate.vote_leakage import (
    answer_log_probabilities as answer_log_probabilities,
    reconstruct as reconstruct,
)

# isort: on
