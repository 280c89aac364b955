"""Certifies the table of `decisions`: upper bounds on a supremum, not the best point found.

Counts are in units of the noise. A changed vote moves them along a direction s; outcome i has
probability f_i and *score* t_i, the derivative of log f_i along s. For a check of one noisy count
f = Phi(x), s = 1. For an answer, m is the largest noisy count of the classes that the vote does not
move, X ~ N(u, 1) and Y ~ N(v, 1) are the other two less m, and s = (1, -1): the first wins if X > 0
and X > Y, the second if Y > 0 and Y > X, another if X < 0 and Y < 0. Then

    C(kappa) = the largest value anywhere of sum_i f_i w(t_i),
    w(t) = (exp(kappa t) - 1 - kappa t) / kappa^2.

Everything is bounded by analysis, in floating point with an allowance for rounding. Check: f and t
are monotone, so over a cell each term is at most its larger factors. Answer: on a grid of step h

    sum_i f_i w(t_i)  +  h^2 / 8 (a bound on minus the second derivatives near that point),

which log-concavity provides, and outside of the grid comparisons with simpler decisions. The
docstrings below have these bounds.

Proof of the statement of docs/decision_accounting.md, whose names are used here. P is at z + d s
and Q at z; g_i = log f_i. Revealing m and its class cannot lower the divergence, and the law of m
does not depend on the vote, so the largest divergence at a given m is a bound. With two classes an
answer is a check of X - Y, with sqrt(2) d in place of d. Where every class has noise in a check,
reveal the other classes' noisy maximum. If it is below the threshold, let the threshold be m: the
check shows whether the third outcome happened.

1. Log-concavity. f_i(z) = Pr(z + Z in A_i), Z standard normal and A_i convex: a half-line, or the
   three sets above. By Prekopa g_i is concave. Its Hessian is H = Cov(Z | z + Z in A_i) - I. The
   covariance is at most I (Brascamp and Lieb 1976), so -I <= H <= 0. Its third derivative along s
   is the third central moment of s.Z given A_i, a log-concave variable of variance at most |s|^2.
   Such a moment is at most 2 variance^(3/2) in absolute value (Bubeck and Eldan, "The entropic
   barrier", arXiv:1412.1587, lemma 2). So |g_i'''| <= M = 2 |s|^3: 2 for a check, 4 sqrt(2) for
   an answer.
2. The pair. Choose c = z + lambda d s, lambda = sqrt(a) / (sqrt(a) + sqrt(a - 1)), between them,
   and expand a g(c + (1 - lambda) d s) - (a - 1) g(c - lambda d s) around c. The constant is
   g(c). The factor of g'(c) is d (a (1 - lambda) + (a - 1) lambda) = d sqrt(a (a - 1)) = kappa.
   The factor of g''(c) is d^2 (a (1 - lambda)^2 - (a - 1) lambda^2) / 2 = 0 by the choice of
   lambda. The third-order remainder is at most M d^3 (a (1 - lambda)^3 + (a - 1) lambda^3) / 6 =
   R. So sum_i p_i^a q_i^(1-a) <= e^R sum_i f_i(c) exp(kappa t_i(c)).
3. One function. Since sum_i f_i = 1 and sum_i f_i t_i = 0, the last sum is 1 + kappa^2 F with F =
   sum_i f_i w(t_i), and C(kappa) is the largest F at any c. The bound holds in both directions,
   because exchanging the two classes (answer), or x and -x (check), reverses s.
4. Between nodes. w(t) is t^2 times the integral of (1 - r) exp(r kappa t) over r from 0 to 1, a
   mixture of exponentials in kappa. Positive sums of those are log-convex in kappa, and so are
   their suprema. log C is therefore convex, and a straight line between two nodes of the table
   lies above it. kappa^2 C(kappa) is convex with its least value 0 at 0, so it and the bound
   increase.

    python -m tests.mechanisms.pate.decision_certificate     # makes the table again, in a minute

>>> bound = certified_check(0.0, step=1e-3)
>>> bool(1 / np.pi <= bound < 1.005 / np.pi)
True
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from labeldp.mechanisms._validate import Floats

#: Positive quadrature of a density of width 1 or less in a window of 18: right to 12 digits.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_WINDOW = 9.0
_ROOT_TWO = math.sqrt(2)
#: Below this exponents are expanded: expm1(y) - y loses digits there.
_SMALL = 1e-2
#: Relative allowance for rounding: a million times its error at the points that are tested.
ROUNDING = 1e-7
#: Points whose quadrature is held in memory at once.
_CHUNK = 2**14
#: Steps of the table's grids, each up to a kappa.
_STEPS = ((0.5, 0.01), (1.0, 0.015), (2.0, 0.02), (4.0, 0.025), (8.0, 0.03))
#: Below this closed forms of tails cancel; tails are convex in kappa, so both ends bound them.
_SMALL_KAPPA = 0.25
#: Of a unit vector along a coordinate and s = (1, -1): (|s| + e.s) / 2, the most that e.H.s can be
#: for a symmetric H between -I and 0.
_ONE_COORDINATE = (math.sqrt(2) + 1) / 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """One outcome of a decision at P places of the counts."""

    probability: Floats  # f [P]
    score: Floats  # t [P]
    steepness: Floats  # length of the whole gradient of log f [P]


def density(x: Floats) -> Floats:
    return np.asarray(np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi))


def excess(score: Floats, kappa: float) -> Floats:
    """w(t) = (exp(kappa t) - 1 - kappa t) / kappa^2, which is t^2 / 2 at kappa = 0."""
    y = kappa * score
    small = np.abs(y) < _SMALL
    series = score**2 * (1 / 2 + y / 6 + y**2 / 24 + y**3 / 120 + y**4 / 720)
    if small.all():
        return np.asarray(series)
    with np.errstate(over="ignore"):  # a bound of infinity is a bound
        whole = (np.expm1(y) - y) / kappa**2
    return np.where(small, series, whole)


def check_outcomes(x: Floats) -> tuple[Outcome, Outcome]:
    passes, fails = ndtr(x), ndtr(-x)
    up, down = density(x) / passes, density(x) / fails
    return (
        Outcome(probability=passes, score=up, steepness=up),
        Outcome(probability=fails, score=-down, steepness=down),
    )


def first_wins(u: Floats, v: Floats) -> Floats:
    """Probability that X > 0 and X > Y [P]: the integral over x > 0 of phi(x - u) Phi(x - v)."""
    mode = np.maximum(0.0, np.where(u > v, u, (u + v) / 2))
    low = np.maximum(0.0, mode - _WINDOW)
    half = (mode + _WINDOW - low) / 2
    x = low[..., None] + half[..., None] * (_NODES + 1)
    return np.asarray(half * ((density(x - u[..., None]) * ndtr(x - v[..., None])) @ _WEIGHTS))


def answer_outcomes(u: Floats, v: Floats) -> tuple[Outcome, Outcome, Outcome]:
    """The first class wins, the second, or another; X ~ N(u, 1), Y ~ N(v, 1), u and v [P]."""
    first, second, neither = first_wins(u, v), first_wins(v, u), ndtr(-u) * ndtr(-v)
    # Mass that moves where X = Y > 0, where X = 0 > Y and where Y = 0 > X.
    tie = density((u - v) / _ROOT_TWO) / _ROOT_TWO * ndtr((u + v) / _ROOT_TWO)
    enters, leaves = density(u) * ndtr(-v), density(v) * ndtr(-u)
    up, down = density(u) / ndtr(-u), density(v) / ndtr(-v)
    return (
        Outcome(
            probability=first,
            score=(enters + 2 * tie) / first,
            steepness=np.hypot(enters + tie, tie) / first,
        ),
        Outcome(
            probability=second,
            score=-(leaves + 2 * tie) / second,
            steepness=np.hypot(leaves + tie, tie) / second,
        ),
        Outcome(probability=neither, score=down - up, steepness=np.hypot(up, down)),
    )


def answer_sum(outcomes: tuple[Outcome, ...], kappa: float) -> Floats:
    terms = [each.probability * excess(each.score, kappa) for each in outcomes]
    return terms[0] + sum(terms[1:], np.zeros_like(terms[0]))


def certified_check(kappa: float, *, step: float = 2e-5) -> float:
    """Upper bound on C(kappa) of a check; looser by about 2.4 steps of its grid, relative.

    The terms are Phi(x) w(-r(x)), r = phi / Phi falling, and Phi(-x) w(m(x)), m(x) = r(-x) rising.
    On a cell [x0, x1] their sum is at most Phi(x1) w(-r(x0)) + Phi(-x0) w(m(x1)). Cells reach up to
    kappa + 4; beyond, `_rare_bit` bounds it.
    """
    edge = kappa + 4
    x = np.linspace(-edge, edge, math.ceil(2 * edge / step) + 1)
    passes, fails = check_outcomes(x)
    # Phi and the score of failing increase with x, the other two decrease.
    inside = passes.probability[1:] * excess(-passes.score[:-1], kappa)
    inside += fails.probability[:-1] * excess(-fails.score[1:], kappa)
    return float(max(inside.max(), _rare_bit(kappa, edge))) * (1 + ROUNDING)


@dataclass(frozen=True, kw_only=True)
class Edges:
    """Where the grid of an answer ends, and comparisons take over."""

    low: float  # u and v above minus this
    high: float  # the larger of u and v below this, unless they are within `apart`
    both: float  # the smaller of u and v below this
    apart: float  # u and v differ by less than this, unless both are below `high`

    @classmethod
    def of(cls, kappa: float) -> "Edges":
        """Edges wide enough for scores that are weighted with exp(kappa t)."""
        return cls(low=kappa + 3.5, high=kappa + 3.5, both=5.0, apart=2 * kappa + 5)


def certified_answers(kappas: Floats, *, step: float) -> Floats:
    """Upper bounds on C(kappa) of an answer among any number of classes [M], on one grid.

    They are looser by about 3 squared steps of the grid, relative.
    """
    edges = Edges.of(float(kappas.max()))
    best = np.zeros(len(kappas))
    for u, v in _grid(edges, step):
        outcomes = answer_outcomes(u, v)
        for m, kappa in enumerate(kappas.tolist()):
            best[m] = max(best[m], _near(outcomes, kappa, step).max())
    outside = [beyond_the_grid(kappa, edges) for kappa in kappas.tolist()]
    return np.maximum(best, outside) * (1 + ROUNDING)


def _grid(edges: Edges, step: float) -> Iterator[tuple[Floats, Floats]]:
    """Yield points u, v of a grid whose cells cover all that no comparison does."""
    ticks = np.arange(-edges.low - step, edges.both + edges.apart + 2 * step, step)
    rows = max(1, _CHUNK // len(ticks))
    for start in range(0, len(ticks), rows):
        u, v = (each.ravel() for each in np.meshgrid(ticks[start : start + rows], ticks))
        inner = np.minimum(u, v) <= edges.both + step
        inner &= (np.maximum(u, v) <= edges.high + step) | (np.abs(u - v) <= edges.apart + 2 * step)
        if inner.any():
            yield u[inner], v[inner]


def _near(outcomes: tuple[Outcome, ...], kappa: float, step: float) -> Floats:
    """Bound on F = sum_i f_i w(t_i) in the cells around each point [P].

    If F_uu >= -N_u and F_vv >= -N_v on a square of side h, F is at most its largest corner plus
    h^2 (N_u + N_v) / 8: F + N_u u^2 / 2 is convex along u, so F exceeds the larger end by at most
    N_u h^2 / 8; likewise along v. Along a coordinate's unit vector e, with g_i = log f_i,

        F_ee = sum_i f_i ((g_e^2 + g_ee) w + 2 g_e w' t_e + w'' t_e^2 + w' t_ee).

    Since (w')^2 <= 2 w max(w'', 1), the terms g_e^2 w + 2 g_e w' t_e + w'' t_e^2 are at least
    -t_e^2 max(w'', 2). Next g_ee >= -1. t_e = e.H s lies within (|s| + |e.s|) / 2, because
    H = -(I + J) / 2 with |J| <= 1. t_ee is a mixed third cumulant, and a symmetric trilinear form
    is largest on its diagonal (Banach 1938), so |t_ee| <= 2 |s| = 2 sqrt(2). Together

        N_u + N_v <= sum_i f_i (2 w + 2 ((sqrt(2) + 1) / 2)^2 max(w'', 2) + 4 sqrt(2) |w'|),

    each factor taken at its largest within h sqrt(2) of a grid point. There f_i grows by at most
    exp(h sqrt(2) |grad g_i|) by concavity, and t_i changes by at most sqrt(2) h sqrt(2), since
    |H s| <= |s|.
    """
    reach = math.sqrt(2) * step
    bend = np.zeros_like(outcomes[0].score)
    for each in outcomes:
        most = each.probability * np.exp(reach * each.steepness)
        low, high = each.score - math.sqrt(2) * reach, each.score + math.sqrt(2) * reach
        value = np.maximum(excess(low, kappa), excess(high, kappa))
        slope = np.maximum(np.abs(_slope(low, kappa)), np.abs(_slope(high, kappa)))
        with np.errstate(over="ignore"):
            curve = np.maximum(2.0, np.exp(kappa * high))
        bend += most * (2 * value + 2 * _ONE_COORDINATE**2 * curve + 4 * math.sqrt(2) * slope)
    return answer_sum(outcomes, kappa) + step**2 / 8 * bend


def _slope(score: Floats, kappa: float) -> Floats:
    return np.expm1(kappa * score) / kappa if kappa else score


def beyond_the_grid(kappa: float, edges: Edges) -> float:
    """Upper bound on sum_i f_i w(t_i) outside of the grid, by three comparisons.

    Splitting an outcome cannot lower F, because f w(f' / f) is convex and homogeneous in f and f'.
    If all of (X, Y) is revealed on an event E, it contributes the mean of w(Z1 - Z2) over E, Z1 and
    Z2 standard normal.
    """
    return max(_one_is_far_below(kappa, edges), _two_classes(kappa, edges), _one_wins(kappa, edges))


def _one_is_far_below(kappa: float, edges: Edges) -> float:
    """One of u and v below -low: the other's sign decides, almost.

    Reveal both signs, and everything where the far one is above 0. Signs are independent, so
    1 + kappa^2 F multiplies: F <= C + B + kappa^2 C B + E[w(Z1 - Z2); Z1 > low], with C of a check
    and B of a rare bit. (The same mean with Z1 < -low is smaller.)
    """
    other, bit = certified_check(kappa, step=1e-3), _rare_bit(kappa, edges.low)
    # Independent bits multiply: ((1 + k^2 C)(1 + k^2 C') - 1) / k^2.
    return other + bit + kappa**2 * other * bit + _rare_pair(kappa, edges.low)


def _two_classes(kappa: float, edges: Edges) -> float:
    """Both u and v above `both`, less than `apart` from each other: a check of X - Y, almost.

    The winner is the larger of X and Y unless both are below 0. There reveal everything, which adds
    at most E[w(Z1 - Z2); Z1 < -both]. The rest of {X > Y} lost at most the share e = Phi(-both) of
    its probability, since X > Y makes X < 0 less likely. Where it lost it, the score was above
    -(u - v), and (u - v) Phi(-u) <= phi(u). So its score is at most (t + phi(both)) / (1 - e) <=
    t + shift. Here t is that of {X > Y}, shift = (phi(both) + e t_max) / (1 - e), and t_max =
    sqrt(2) m(apart / sqrt(2)); likewise for {Y > X}. For t > 0, w(t + shift) <=
    e^(kappa shift) w(t) + w(shift) + t (e^(kappa shift) - 1) / kappa and w(-t - shift) <=
    w(-t) + shift (t + shift). The sum of f |t| over one side is at most 1 / sqrt(pi). So F is
    within those terms of 2 C(sqrt(2) kappa) of a check.
    """
    tail = float(ndtr(-edges.both))
    gap = edges.apart / math.sqrt(2)
    largest = math.sqrt(2) * float(density(np.array(gap)) / ndtr(-gap))
    shift = (float(density(np.array(edges.both))) + tail * largest) / (1 - tail)
    growth = math.expm1(kappa * shift) / kappa if kappa else shift
    mean = 1 / math.sqrt(math.pi)  # the most that f |t| can be: sqrt(2) phi(0)
    return (
        math.exp(kappa * shift) * 2 * certified_check(math.sqrt(2) * kappa, step=1e-4)
        + float(excess(np.array(shift), kappa))
        + mean * growth
        + shift * (mean + shift)
        + _rare_pair(kappa, edges.both, sign=-1)
    )


def _one_wins(kappa: float, edges: Edges) -> float:
    """The larger above `high` and `apart` from the other: its win is almost certain.

    Reveal everything where the larger is below 0, and where the other is larger. The latter is the
    mean of w over Z1 - Z2 > apart, a normal variable of standard deviation sqrt(2): 2 B of a rare
    bit at sqrt(2) kappa and apart / sqrt(2). The winner is left, with probability at least
    p = 1 - Phi(-high) - Phi(-apart / sqrt(2)). Its f |t| is at most
    q = phi(high) + sqrt(2) phi(apart / sqrt(2)), so it adds at most q^2 / (2 p) exp(kappa q / p).
    """
    gap = edges.apart / math.sqrt(2)
    flow = float(density(np.array(edges.high)) + math.sqrt(2) * density(np.array(gap)))
    sure = 1 - float(ndtr(-edges.high) + ndtr(-gap))
    win = flow**2 / (2 * sure) * math.exp(kappa * flow / sure)
    # X - Y has standard deviation sqrt(2): its own score, sqrt(2) Z, is that of a rare bit.
    upset = 2 * _rare_bit(math.sqrt(2) * kappa, gap)
    return win + upset + _rare_pair(kappa, edges.high)


def _rare_bit(kappa: float, edge: float) -> float:
    """Bound on the sum of a check whose rarer outcome is `edge` away: reveal Z where Z > edge.

    F <= E[w(Z); Z > edge] + w(phi(edge) / Phi(edge)), where w(-t) <= w(t) for t > 0.
    """
    mills = float(density(np.array(edge)) / ndtr(edge))

    def tail(k: float) -> float:
        phi, beyond = float(density(np.array(edge))), float(ndtr(-edge))
        if k == 0:
            return (edge * phi + beyond) / 2
        return (math.exp(k**2 / 2) * float(ndtr(k - edge)) - beyond - k * phi) / k**2

    return _convex(tail, kappa) + float(excess(np.array(mills), kappa))


def _rare_pair(kappa: float, edge: float, *, sign: int = 1) -> float:
    """The mean of w(Z1 - Z2) where sign Z1 > edge, both standard normal."""

    def tail(k: float) -> float:
        phi, beyond = float(density(np.array(edge))), float(ndtr(-edge))
        if k == 0:
            return (edge * phi + 2 * beyond) / 2
        return (math.exp(k**2) * float(ndtr(sign * k - edge)) - beyond - sign * k * phi) / k**2

    return _convex(tail, kappa)


def _convex(tail: Callable[[float], float], kappa: float) -> float:
    return tail(kappa) if kappa >= _SMALL_KAPPA else max(tail(0.0), tail(_SMALL_KAPPA))


def table_nodes() -> Floats:
    """Where the table holds C: evenly up to 1, then in equal ratios up to 8 [M]."""
    return np.concatenate([np.arange(32) / 32, 2.0 ** (np.arange(73) / 24)])


def step_at(kappa: float) -> float:
    """The grid's step for the table: finer where orders and noise of practice fall."""
    return next(step for top, step in _STEPS if kappa <= top)


def table_rows() -> list[tuple[float, float, float]]:
    """Certify every node anew: (kappa, C of a check, C of an answer)."""
    kappas = table_nodes()
    steps = np.array([step_at(kappa) for kappa in kappas.tolist()])
    answers = np.empty(len(kappas))
    for step in np.unique(steps):
        answers[steps == step] = certified_answers(kappas[steps == step], step=float(step))
    checks = [certified_check(kappa) for kappa in kappas.tolist()]
    return list(zip(kappas.tolist(), checks, answers.tolist(), strict=True))


def _print_table() -> None:
    print("kappa,check,answer")
    for kappa, check, answer in table_rows():
        print(f"{kappa!r},{check * (1 + 1e-8):.8e},{answer * (1 + 1e-8):.8e}")


if __name__ == "__main__":
    _print_table()
