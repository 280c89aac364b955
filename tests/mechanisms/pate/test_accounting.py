"""PATE accounting: golden values of two published programs, and composition."""

import itertools
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import norm

from labeldp.mechanisms.accounting import ORDERS, Conversion, epsilon_from_rdp
from labeldp.mechanisms.pate.accounting import (
    CheckNoise,
    QueryCosts,
    confident_gnmax_costs,
    gnmax_costs,
    lnmax_costs,
    log1mexp,
    log_probability_answered,
    log_probability_answered_per_class,
    log_q_gaussian,
    log_q_laplace,
    log_surprise,
    rdp_gnmax,
    rdp_lnmax,
    rdp_threshold,
)
from labeldp.mechanisms.pate.decisions import Accounting, decision_rdp_gnmax
from labeldp.mechanisms.pate.vote_leakage import answer_log_probabilities
from tests.shared_material import shared_path

CASES = (
    "real_mnist_c10_n250 real_svhn_c10_n250 edge_c2_n250 edge_c10_n250 edge_c100_n1000 "
    "edge_c150_n5000 high_c10_n250 low_c10_n250 mix_c10_n250 mix_c2_n250 mix_c100_n1000 "
    "mix_c150_n5000 small_c10_n20"
).split()
ANTIPODES = (
    "t3_c10_high t3_c10_low t3_c100_med t3_c10_med_b t3_c100_high_b t3_c100_low_b binary_T100 "
    "confident_T250_c10 short_T50_c5"
).split()
close = np.testing.assert_allclose


def golden(case: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    accounting = json.loads(shared_path("oracle", "pate", "accounting.json").read_text())
    with np.load(shared_path("oracle", "pate", f"{case}.npz")) as arrays:
        return accounting[case], dict(arrays)


def check_curve(
    rdp: NDArray[np.float64], orders: NDArray[np.float64], rows: dict[str, Any]
) -> None:
    assert len(rows) == 3
    for delta, row in rows.items():
        for conversion in Conversion:
            epsilon, order = epsilon_from_rdp(orders, rdp, float(delta), conversion)
            assert epsilon == pytest.approx(row[f"eps_{conversion}"], rel=1e-9)
            assert order == row[f"order_{conversion}"]


def check_epsilons(costs: QueryCosts, orders: NDArray[np.float64], rows: dict[str, Any]) -> None:
    check_curve(costs.rdp(orders), orders, rows)
    cost = costs.cost(delta=1e-6, orders=orders)
    assert cost.epsilon == pytest.approx(rows["1e-06"]["eps_improved"], rel=1e-9)
    assert cost.order == rows["1e-06"]["order_improved"]


@pytest.mark.parametrize("case", CASES)
def test_confident_gnmax_as_the_code_of_pate_2018(case: str) -> None:
    row, arrays = golden(case)
    votes, small, long = (arrays[name] for name in ("votes", "orders_small", "orders_long"))
    for i, setting in enumerate(row["params"]):
        noise, sigma1, threshold = (setting[name] for name in ("sigma", "sigma1", "threshold"))
        log_q = log_q_gaussian(votes, noise)
        close(log_q, arrays[f"p{i}_logq"], rtol=1e-9)
        close(rdp_gnmax(log_q, noise, small), arrays[f"p{i}_rdp_gnmax"], rtol=1e-9)
        log_p = log_probability_answered(votes, threshold, sigma1)
        close(log_p, arrays[f"p{i}_logpr"], rtol=1e-9)
        close(rdp_threshold(log_p, sigma1, small), arrays[f"p{i}_rdp_thresh"], rtol=1e-9)

        plain = gnmax_costs(votes, noise_std=noise)
        close(plain.rdp(long), arrays[f"p{i}_cum_gnmax"], rtol=1e-9)
        check_epsilons(plain, long, setting["gnmax"])
        costs = confident_gnmax_costs(votes, threshold=threshold, sigma1=sigma1, sigma2=noise)
        nothing = np.zeros(len(votes), dtype=bool)
        close(costs.rdp(long, answered=nothing), arrays[f"p{i}_cum_thresh"], rtol=1e-9)
        close(costs.rdp(long), arrays[f"p{i}_cum_confident"], rtol=1e-9)
        check_epsilons(costs, long, setting["confident_gnmax"])
        answered = costs.cost(delta=1e-5).answered
        assert answered == pytest.approx(setting["expected_answered"], rel=1e-9)
        check_curve(costs.rdp(long, answered=nothing), long, setting["threshold_step"])


@pytest.mark.parametrize("case", CASES)
def test_lnmax_as_the_code_of_pate_2018(case: str) -> None:
    row, arrays = golden(case)
    votes, small, long = (arrays[name] for name in ("votes", "orders_small", "orders_long"))
    for j, setting in enumerate(row["lnmax"]):
        log_q = log_q_laplace(votes, setting["lmbd"])
        close(log_q, arrays[f"l{j}_logq"], rtol=1e-9)
        close(rdp_lnmax(log_q, setting["lmbd"], small), arrays[f"l{j}_rdp"], rtol=1e-9)
        costs = lnmax_costs(votes, scale=setting["lmbd"])
        close(costs.rdp(long), arrays[f"l{j}_cum"], rtol=1e-9)
        check_epsilons(costs, long, setting["eps"])


def test_lnmax_as_the_moments_accountant_of_pate_2017() -> None:
    """Its orders are moments plus 1, its conversion is Mironov's, noise_eps is 1 / scale."""
    rows = json.loads(shared_path("oracle", "pate", "lnmax2017.json").read_text())
    assert len(rows) == 27
    for row in rows:
        _, arrays = golden(row["case"])
        votes, scale = arrays["votes"][: row["first_rows"]], 1 / row["noise_eps"]
        moments = np.array(row["moments"])
        close(np.exp(log_q_laplace(votes, scale))[:8], row["q_first"][:8], rtol=1e-9)
        costs = lnmax_costs(votes, scale=scale)
        rdp = costs.rdp(moments + 1)
        # It takes the log of numbers that round to 1: an error of one unit in the last place a row
        round_off = len(votes) * 2.0**-52
        close(moments * rdp, row["log_mgf_sum"], rtol=1e-9, atol=round_off)
        for delta, epsilon in row["eps"].items():
            cost = costs.cost(delta=float(delta), orders=moments + 1, conversion=Conversion.MIRONOV)
            assert cost.epsilon == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("case", [case for case in CASES if case[:3] in ("rea", "mix")])
def test_interactive_gnmax_as_the_code_of_pate_2018(case: str) -> None:
    row, arrays = golden(case)
    setting = row["interactive"]
    left = arrays["votes"] - arrays["inter_baseline"]
    threshold, sigma1 = setting["threshold"], setting["sigma1"]
    log_p = log_probability_answered(left, threshold, sigma1)
    close(log_p, arrays["inter_logpr"], rtol=1e-9)
    costs = confident_gnmax_costs(
        arrays["votes"],
        threshold=threshold,
        sigma1=sigma1,
        sigma2=setting["sigma"],
        check_counts=left,
    )
    close(costs.rdp(arrays["orders_long"]), arrays["inter_cum"], rtol=1e-9)
    check_epsilons(costs, arrays["orders_long"], setting["eps"])
    assert np.exp(log_p).sum() == pytest.approx(setting["expected_answered"], rel=1e-9)


def test_a_grid_of_extremes() -> None:
    with np.load(shared_path("oracle", "pate", "grid_rdp.npz")) as grid:
        log_q, noise, orders = -grid["neglogq"], grid["sigma"], grid["orders"]
        for k, noise_std in enumerate(noise):
            close(rdp_gnmax(log_q, noise_std, orders), grid["rdp_gnmax"][:, k], rtol=1e-9)
            laplace = grid["rdp_pure_eps_with_eps_2_over_sigma"][:, k]
            close(rdp_lnmax(log_q, noise_std, orders), laplace, rtol=1e-9)


def test_conversions_of_curves() -> None:
    rows = json.loads(shared_path("oracle", "pate", "rdp_to_dp.json").read_text())
    checked = 0
    for row in rows:
        for conversion in Conversion:
            if f"eps_{conversion}" in row and not row.get("official_raised"):
                epsilon, order = epsilon_from_rdp(
                    row["orders"], row["rdp"], row["delta"], conversion
                )
                assert epsilon == pytest.approx(row[f"eps_{conversion}"], rel=1e-9, abs=1e-12)
                assert order == row[f"order_{conversion}"] or epsilon == 0
                checked += 1
    assert checked >= 200


def test_adult_row_of_table_1_from_real_votes() -> None:
    """Paper: 524 answered at epsilon 1.90, with other teachers of the same kind."""
    with np.load(shared_path("data", "votes", "adult_votes_250.npz")) as arrays:
        votes = arrays["not_phd"][:1500]
    row = json.loads(shared_path("oracle", "pate", "adult_votes_c2_n250.json").read_text())
    with np.load(shared_path("oracle", "pate", "adult_votes_c2_n250.npz")) as arrays:
        long, cum_thresh = arrays["orders_long"], arrays["cum_thresh"]
        cum_gnmax = arrays["cum_gnmax_weighted"]
        assert (votes == arrays["votes"]).all()
    costs = confident_gnmax_costs(votes, threshold=300, sigma1=200.0, sigma2=40.0)
    close(costs.rdp(long, answered=np.zeros(1500, dtype=bool)), cum_thresh, rtol=1e-9)
    close(costs.rdp(long), cum_thresh + cum_gnmax, rtol=1e-9)
    check_epsilons(costs, long, row["eps"])
    paper = costs.cost(delta=1e-5, conversion=Conversion.MIRONOV)
    assert (round(paper.answered, 1), round(paper.epsilon, 3)) == (530.3, 1.768)


@pytest.mark.parametrize("name", ANTIPODES)
def test_curves_of_the_antipodes_accountant(name: str) -> None:
    rows = json.loads(shared_path("oracle", "antipodes", "accountant.json").read_text())
    row = next(row for row in rows if row["name"] == name)
    with np.load(shared_path("oracle", "antipodes", "votes.npz")) as arrays:
        votes = arrays[row["votes_key"]]
    with np.load(shared_path("oracle", "antipodes", "accountant_curves.npz")) as arrays:
        curves = {key: arrays[key] for key in arrays if key.startswith((f"{name}__", "orders"))}
    orders, delta = curves["orders"], row["delta"]
    costs = confident_gnmax_costs(
        votes, threshold=row["threshold"], sigma1=row["sigma1"], sigma2=row["sigma2"]
    )
    for count in np.linspace(1, len(votes), 25, dtype=int).tolist():
        part = costs.head(count).cost(delta=delta, orders=orders)
        assert part.epsilon == pytest.approx(curves[f"{name}__eps_total"][count - 1], rel=1e-9)
        assert part.answered == pytest.approx(curves[f"{name}__answered"][count - 1], rel=1e-9)
        assert part.order == pytest.approx(curves[f"{name}__order_opt"][count - 1], abs=1e-9)
    nothing = np.zeros(len(votes), dtype=bool)
    close(costs.rdp(orders, answered=nothing), curves[f"{name}__rdp_select_cum_all"], rtol=1e-9)
    for key in curves:
        if "rdp_cum_after_" in key:
            count = int(key.rsplit("_", 1)[1])
            close(costs.head(count).rdp(orders), curves[key], rtol=1e-9)
    stopped = costs.until(row["n_samples"]).cost(delta=delta, orders=orders)
    assert stopped.epsilon == pytest.approx(row["eps_at_stop"], rel=1e-9)
    assert stopped.answered == pytest.approx(row["expected_answered_at_stop"], rel=1e-9)
    first = votes[: row["gnmax_first500"]["n"]]
    for plain, setting in (
        (gnmax_costs(first, noise_std=row["sigma2"]), row["gnmax_first500"]),
        (lnmax_costs(first, scale=row["sigma2"]), row["lnmax_first500"]),
    ):
        cost = plain.cost(delta=delta, orders=orders)
        assert cost.epsilon == pytest.approx(setting["eps"], rel=1e-9)


def test_single_votes_also_where_the_published_accountant_crashes() -> None:
    content = json.loads(shared_path("oracle", "antipodes", "accountant_unit.json").read_text())
    orders, crashed = content["orders"], 0
    lossy = []
    for case in content["cases"]:
        votes = [case["votes"]]
        log_q = log_q_gaussian(votes, case["sigma2"])
        log_p = log_probability_answered(votes, case["threshold"], case["sigma1"])
        close(log_q, [float(case["logq_gnmax"])], rtol=1e-9)
        close(log_p, [float(case["logpr_answered"])], rtol=1e-9)
        close(log_q_laplace(votes, case["sigma2"]), [float(case["logq_laplace"])], rtol=1e-9)
        close(rdp_gnmax(log_q, case["sigma2"], orders)[0], case["rdp_step2"], rtol=1e-9)
        check = rdp_threshold(log_p, case["sigma1"], orders)[0]
        assert np.isfinite(check).all() and (check >= 0).all()
        if "step1_error" in case:
            crashed += 1
            continue
        published = float(case["logq_step1"])
        close(log_surprise(log_p), [published], rtol=1e-9)
        same = rdp_gnmax([published], math.sqrt(2) * case["sigma1"], orders)[0]
        close(same, case["rdp_step1"], rtol=1e-9)
        if math.isclose(log_surprise(log_p)[0], published, rel_tol=1e-12):
            close(check, case["rdp_step1"], rtol=1e-9)
        else:  # p is nearly 1, and 1 - exp(log p) has lost half its digits there: see below
            lossy.append(case["votes"])
    assert lossy == [[999, 1]]
    assert crashed > 0


def test_realised_charges_every_check_and_every_answer_in_full() -> None:
    votes = np.array([[90, 10], [60, 40], [55, 45], [100, 0]])
    costs = confident_gnmax_costs(votes, threshold=70, sigma1=30.0, sigma2=20.0)
    answered = np.array([True, False, False, True])
    checks = rdp_threshold(log_probability_answered(votes, 70, 30.0), 30.0, ORDERS)
    answers = rdp_gnmax(log_q_gaussian(votes, 20.0), 20.0, ORDERS)
    by_hand = checks.sum(0) + answers[[0, 3]].sum(0)
    close(costs.rdp(answered=answered), by_hand, rtol=1e-12)


def test_noise_on_every_class_saves_no_answer() -> None:
    votes = np.array([[90, 10], [50, 50]])
    below = norm.cdf((70 - votes) / 30.0).prod(axis=1)
    log_p = log_probability_answered_per_class(votes, 70, 30.0)
    close(np.exp(log_p), 1 - below, rtol=1e-12)
    assert (log_p > log_probability_answered(votes, 70, 30.0)).all()


@pytest.mark.parametrize("accounting", Accounting)
@pytest.mark.parametrize("check_noise", CheckNoise)
def test_checks_and_answers_are_paid_by_one_accounting(
    accounting: Accounting, check_noise: CheckNoise
) -> None:
    votes = np.array([[90, 10, 0], [50, 45, 5], [40, 30, 30]])
    noise: Any = {"threshold": 60.0, "sigma1": 20.0, "sigma2": 10.0, "check_noise": check_noise}
    costs = confident_gnmax_costs(votes, **noise, accounting=accounting)
    checks, every = (costs.rdp(answered=np.full(3, given)) for given in (False, True))
    answers = gnmax_costs(votes, noise_std=10.0, accounting=accounting).rdp(answered=[True] * 3)
    assert every - checks == pytest.approx(answers, rel=1e-9)
    if check_noise is CheckNoise.PER_CLASS:  # the price of any votes
        decision = accounting is Accounting.DECISION
        one = decision_rdp_gnmax(20.0, ORDERS) if decision else ORDERS / 20.0**2
        assert checks == pytest.approx(3 * one, rel=1e-9)
    given = [True, False, True]
    cost = costs.cost(delta=1e-5, answered=given)
    assert cost.epsilon == epsilon_from_rdp(ORDERS, costs.rdp(answered=given), 1e-5)[0]
    assert cost.answered == 2.0 and costs.cost(delta=1e-5).answered != 2.0
    always = gnmax_costs(votes, noise_std=10.0)
    assert [len(always.until(most)) for most in (1, 3, None)] == [1, 3, 3]


# Published bounds, against exact divergences and probabilities, and hard input


def test_probability_of_the_rarer_outcome_is_exact_where_it_is_tiny() -> None:
    # 999 votes, threshold 100, sigma1 160: 1 - p is 1e-8, and 1 - exp(log p) keeps half its digits
    log_p = log_probability_answered([[999, 1]], 100, 160.0)
    close(log_surprise(log_p), [norm.logsf(899 / 160)], rtol=1e-14)


def test_the_bound_covers_exact_probabilities_of_a_surprise() -> None:
    rows = json.loads(shared_path("oracle", "pate", "histogram_logQ.json").read_text())
    for row in rows:
        votes = [row["histogram"]]
        noise_std = float(row["sigma"])
        bound = log_q_gaussian(votes, noise_std)[0]
        assert bound == pytest.approx(row["log_union_bound"], rel=1e-9)
        assert row["log_1m_Qmax"] <= bound + 1e-9 * abs(bound)


def test_rows_cost_alone_what_they_cost_together() -> None:
    """Those included whose sums of chances underflow, by tables of whole gaps and without."""
    shares = np.array([[53, 47, 0], [50, 50, 0], [100, 0, 0], [96, 3, 1]])
    for compute in (log_q_gaussian, log_q_laplace):
        for rows in (30 * shares, 90 * shares):
            alone = [compute(row[None], 4.0)[0] for row in rows]
            close(compute(rows, 4.0), alone, rtol=1e-14)
            assert min(alone) < math.log(1e-280)


def test_log_of_one_less_an_exponential_is_exact_at_both_ends() -> None:
    close(
        log1mexp(np.array([0.0, -1e-20, -math.log(2), -50.0])),
        [-math.inf, math.log(1e-20), -math.log(2), -math.exp(-50)],
        rtol=1e-14,
    )


def exact_divergence(
    p: NDArray[np.float64], q: NDArray[np.float64], orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Renyi divergence of two finite distributions, given as logs [K], at orders [A]."""
    terms = orders[:, None] * p + (1 - orders[:, None]) * q
    return np.asarray(logsumexp(terms, axis=1) / (orders - 1))


def after_one_move(row: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Votes after every move of one vote."""
    one = np.eye(len(row), dtype=np.int64)
    for source, target in itertools.permutations(range(len(row)), 2):
        if row[source]:
            yield row - one[source] + one[target]


def test_costs_bound_the_exact_divergence_between_neighbors() -> None:
    """Against the true distributions of answers, by quadrature, after every move of one vote."""
    orders = np.array([1.5, 3.0, 10.0, 25.0])
    rows = np.array(
        [[30, 29, 1, 0], [40, 12, 8, 0], [52, 5, 2, 1], [60, 0, 0, 0], [15, 15, 15, 15]]
    )
    caught = 0
    for noise_std, row in itertools.product((3.0, 8.0), rows):
        bound = rdp_gnmax(log_q_gaussian([row], noise_std), noise_std, orders)[0]
        for other in after_one_move(row):
            p, q = (answer_log_probabilities(votes, noise_std) for votes in (row, other))
            assert (exact_divergence(p, q, orders) <= bound + 1e-9).all()
            p, q = (answer_log_probabilities(votes, noise_std / 2) for votes in (row, other))
            caught += bool((exact_divergence(p, q, orders) > bound).any())
    assert caught >= 4  # half the noise is noticed


def test_hard_input_gives_finite_monotone_costs() -> None:
    unanimous = [[5000, 0]]
    for noise_std in (1e-3, 0.1, 4.0, 60.0):
        log_q = log_q_gaussian(unanimous, noise_std)
        assert np.isfinite(log_q).all()
        curve = rdp_gnmax(log_q, noise_std, ORDERS)[0]
        assert np.isfinite(curve).all() and (curve >= 0).all() and (np.diff(curve) >= 0).all()
    assert log_q_gaussian(unanimous, 4.0)[0] < -10_000
    log_q = -np.logspace(-3, 6, 400)
    for curves in (rdp_gnmax(log_q, 40.0, ORDERS), rdp_lnmax(log_q, 20.0, ORDERS)):
        assert np.isfinite(curves).all() and (curves >= 0).all()
        assert (np.diff(curves, axis=1) >= -1e-15).all()  # in the order
        assert (np.diff(curves, axis=0) <= 1e-15).all()  # the surer, the cheaper
    assert (rdp_gnmax([-np.inf], 4.0, ORDERS) == 0).all()
    sure = log_probability_answered([[10**6, 0]], 10, 1.0)
    assert (sure == 0).all() and np.isfinite(rdp_threshold(sure, 1.0, ORDERS)).all()
