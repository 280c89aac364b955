"""PATE's theory: votes, aggregators, what answers cost and what they leak. No teacher is in here.

| question | modules |
|---|---|
| What does the ledger charge? | `releases` (`PateAnswers.event`), which asks `aggregators`, |
| | and those `decision_events` |
| What are votes? | `votes`, `vote_counts` |
| How do votes become answers? | `aggregators`, `interactive_gnmax`; `answering` for a service |
| How do they leave the vault? | `releases`: answers and their price, as two mechanisms |
| What does an answer cost? | `accounting` on `probabilities`, `renyi_bounds`, `query_costs` |
| ... by its decisions, for any votes? | `decision_events` on `decision_bounds`, `decision_table`, |
| | made by `decision_certificate` with `decision_scores` |
| ... exactly, for given votes? | `exact_costs`, `exact_curves` |
| ... in its three prices? | `pricing`; `many_settings` at once |
| Which noise for which epsilon? | `calibration` |
| What of it may be published? | `smooth_sensitivity` on `answer_price`, `local_sensitivity`, |
| | `secret_cost`, `two_class_costs`; drawn by `publishing_noise` and `publishing_rule` |
| What do repeated answers give away? | `vote_leakage`, measured in `leakage_measurements` |

Names are imported from their modules. `auditing` and this room do not know each other.
"""
