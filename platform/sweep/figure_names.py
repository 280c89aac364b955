"""Which figures of a trial or a fit are whose: by name, in one place for all who show or hand on.

OWNERS are made of true labels, or of which labels the audits spoiled: outside of every guarantee,
and for the owner of the labels alone. PUBLIC may leave the house. OPEN are made of releases, of
public data and of settings: they betray no label, and nobody has asked for them to be published.

Every figure that the trust boundary hands out is named here. What a trial computes by itself, and a
trainer's own figures (`Trainer.figures`), need no line: they have seen no label, and are open.

>>> is_owners("private/epsilon_one_run"), is_owners("epsilon_m_low"), is_owners("epsilon")
(True, True, False)
"""

#: How names of figures begin that are the owner's alone, unless the contract names them otherwise.
PRIVATE_PREFIX = "private/"
#: What the attack on spoiled labels found.
_OF_THE_ATTACK = "epsilon_m_"
#: The owner's by names that the contract gives them.
OWNERS = (
    "ensemble_accuracy",
    "vote_label_accuracy",
    "epsilon_m_low",
    "epsilon_m_high",
    "epsilon_m_ceiling",
    "epsilon_m_paper_low",
    "epsilon_m_paper_high",
)
#: Measured on public test labels, or part of what was released and paid for.
PUBLIC = (
    "accuracy",
    "accuracy_estimated",
    "accuracy_estimated_error",
    "accuracy_estimated_low",
    "accuracy_estimated_high",
    "accuracy_estimated_sampling_error",
    "accuracy_estimated_count_scale",
    "majority_share",
    "majority_share_by_model",
    "epsilon",
    "delta",
    "epsilon_sanitized",
)
#: Times, what could have been proven at most, and what answers that left cost for any votes.
OPEN = (
    "train_seconds",
    "audit_seconds",
    "processor_seconds",
    "label_inference_bound",
    "epsilon_one_run_ceiling",
    "epsilon_f_dp_ceiling",
    "epsilon_tight_ceiling",
    "epsilon_release_ceiling",
    "epsilon_realised",
    "epsilon_of_counts",
    "answered_by_teachers",
)


def is_owners(name: str) -> bool:
    """Whether a figure is for the owner of the labels alone."""
    return name in OWNERS or name.startswith((PRIVATE_PREFIX, _OF_THE_ATTACK))
