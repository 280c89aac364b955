"""The order and the guess that PATE's published costs are drawn by: a rule that sees no votes.

A guess of the smooth sensitivity is a share of the most by which one vote in every query could
change the cost. It decides how much noise is drawn, not whether the bound holds.

>>> asked = {"queries": 1500, "answers": 600, "noise_std": 40.0, "check": (300.0, 200.0)}
>>> more = {"teachers": 250, "classes": 2, "delta": 1e-5}
>>> order, guess = public_rule(**asked, **more)
>>> order, round(guess, 3)
(9.5, 0.013)
"""

from dataclasses import replace

from labeldp.mechanisms.pate.answer_price import AnswerPrice
from labeldp.mechanisms.pate.local_sensitivity import threshold_changes, threshold_prices
from labeldp.mechanisms.pate.publishing_noise import (
    EXACT_GUESS_SHARE,
    GUESS_SHARE,
    best_order,
    public_order,
)
from labeldp.mechanisms.pate.two_class_costs import ExactTables


def public_rule(
    *,
    queries: int,
    answers: int,
    noise_std: float,
    check: tuple[float, float] | None,
    teachers: int,
    classes: int,
    delta: float,
) -> tuple[float, float]:
    """Return the Renyi order, and a guess of the smooth sensitivity at it.

    Args:
        queries: How many will be checked.
        answers: How many are planned; not how many were given.
        noise_std: Of the answers.
        check: Threshold and sigma1 of the check; None without one.
        teachers: T.
        classes: K; two have exact costs.
        delta: In (0, 1).
    """
    threshold, sigma1 = check or (None, None)
    if classes == 2:
        tables = ExactTables(
            num_teachers=teachers,
            noise_std=noise_std,
            order=2.0,
            threshold=threshold,
            sigma1=sigma1,
        )
        # At order 2 the cost per unit of order, of which a run takes about a third.
        slope = tables.flat(checked=queries, answered=answers) / 2
        order = best_order(expected_slope=slope / 3, delta=delta)
        largest = replace(tables, order=order).largest_change(checked=queries, answered=answers)
        return order, EXACT_GUESS_SHARE * max(largest, 1e-12)
    order = public_order(
        num_queries=queries, num_answers=answers, noise_std=noise_std, sigma1=sigma1, delta=delta
    )
    price = AnswerPrice(noise_std=noise_std, num_classes=classes, order=order)
    largest = answers * price.largest_change
    if threshold is not None and sigma1 is not None:
        prices = threshold_prices(
            num_teachers=teachers, threshold=threshold, sigma1=sigma1, order=order
        )
        largest += queries * float(threshold_changes(prices).max())
    return order, GUESS_SHARE * max(largest, 1e-12)
