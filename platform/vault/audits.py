"""Every audit of every trained model, and the truth about the canaries that audits need.

Two kinds of canaries are planted before labels are locked away: wrong labels for the memorization
attack, and labels chosen by coins for the one-run audit. Figures that depend on their labels are
the owner's alone and begin with `private/`, except the `epsilon_m_*`, which the contract names
(`accuracy_figures.py`).

Where a model is made of one release, by a mechanism that acted on each label by itself, that
release is audited too: the likelihood ratio is the best attack on it, and one run proves nearly all
there is to prove (`auditing.canaries`).
"""

import hmac
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp import mechanisms
from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import DecisionEvent, GaussianEvent, RandomizedResponseEvent
from labeldp.mechanisms.auditing import (
    Canaries,
    CoinCanaries,
    Curve,
    GaussianCurve,
    PureCurve,
    RandomizedResponseCurve,
    audit_release,
    best_tight_bound,
    candidate_scores,
    f_dp_lower_bound,
    guess_counts,
    memorization_interval_from_pairs,
    one_run_audit,
    right_guesses,
    tight_lower_bound,
)
from labeldp.mechanisms.guess_risk import guess_rise
from labeldp.mechanisms.label_channels import PerLabel
from labeldp.mechanisms.ledger import all_pure
from labeldp.mechanisms.release_store import Charge, ReleaseStore, is_of
from labeldp.platform.settings.configuration import AuditSettings
from labeldp.trainers.data.files import inner_folder, replacing

#: A mechanism that acted on each training label by itself, and its release [N] or [N, K].
OwnRelease = tuple[PerLabel, NDArray[Any]]


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackEvidence:
    """Confidences that attacks saw, sorted by the truth, without any label: for the owner alone."""

    own: NDArray[np.float64]  # confidence in each memorization canary's label [M]
    others: NDArray[np.float64]  # confidences in the other wrong labels [M, K - 2]

    def write(self, path: Path) -> None:
        """Keep it in a file that only its owner may read."""
        for folder in (path.parent.parent, path.parent):
            inner_folder(folder)
        with replacing(path) as file:
            np.savez(file, own=self.own, others=self.others)

    @classmethod
    def read(cls, path: Path) -> "AttackEvidence | None":
        """Return what is kept at `path`; None where there is nothing, or nothing readable."""
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as kept:
                return cls(own=kept["own"], others=kept["others"])
        except Exception:  # damaged files raise many kinds
            return None

    @classmethod
    def pooled(cls, runs: Iterable["AttackEvidence"]) -> "AttackEvidence":
        """Return several runs' evidence as one, as if their canaries had been one run's."""
        every = [vars(run) for run in runs]
        return cls(**{name: np.concatenate([run[name] for run in every]) for name in every[0]})


@dataclass(frozen=True, kw_only=True, eq=False)
class PlantedCanaries:
    """The canaries of a sweep and the truth about them; it never leaves the vault's home."""

    mislabeled: Canaries | None  # for the memorization attack; None if it is off
    coins: CoinCanaries | None  # for the one-run audit, on other examples; None if it is off
    num_classes: int  # K

    @classmethod
    def draw(
        cls,
        labels: NDArray[np.int64],
        *,
        num_classes: int,
        settings: AuditSettings,
        secret: bytes,
    ) -> "PlantedCanaries":
        """Draw both kinds among the true labels [N]; the secret decides the coins."""
        settings = settings.settled(num_labels=len(labels), num_classes=num_classes)
        check_room(settings, num_labels=len(labels))
        mislabeled = None
        coins = None
        if settings.canaries:
            mislabeled = Canaries.draw(
                labels,
                num_classes=num_classes,
                num_canaries=settings.canaries,
                seed=settings.canary_seed,
                block=settings.canary_block or 0,
            )
        if settings.coin_canaries:
            free = np.arange(len(labels))
            if mislabeled is not None:
                free = np.setdiff1d(free, mislabeled.positions)
            drawn = CoinCanaries.draw(
                labels[free],
                num_classes=num_classes,
                num_canaries=settings.coin_canaries,
                generator=_keyed_generator(secret, b"places"),
            )
            # Places and candidates are not secret, so the coins come from a stream of their own.
            tossed = _keyed_generator(secret, b"coins").integers(2, size=settings.coin_canaries)
            coins = CoinCanaries(
                positions=free[drawn.positions], candidates=drawn.candidates, coins=tossed
            )
        return cls(mislabeled=mislabeled, coins=coins, num_classes=num_classes)

    @property
    def positions(self) -> NDArray[np.int64]:
        """Positions of the canaries [M + C], the mislabeled ones first."""
        kinds = [kind.positions for kind in (self.mislabeled, self.coins) if kind is not None]
        return np.concatenate([np.empty(0, dtype=np.int64), *kinds])

    def plant(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a copy of the labels [N] with both kinds in their places."""
        planted = labels.copy()
        for kind in (self.mislabeled, self.coins):
            planted = planted if kind is None else np.asarray(kind.plant(planted))
        return planted

    def audit(
        self,
        confidences: NDArray[Any],
        *,
        confidence: float,
        epsilon: float,
        delta: float,
        curve: Curve | None,
        released: OwnRelease | None = None,
    ) -> tuple[dict[str, float], AttackEvidence]:
        """Audit one model, by its probabilities on `positions` [M + C, K], and its own release.

        (epsilon, delta) is proven for the run; `curve` is the family of its mechanism, if one is
        known, and `released` the model's only input, if that is one release of each label by
        itself. Each bound has the `confidence` by itself. Returns figures by name, and the
        evidence, which stays with the owner of the labels.
        """
        if len(self.positions) == len(confidences) == 0:
            nobody = np.empty(0)
            return dict(_NO_ATTACK), AttackEvidence(own=nobody, others=nobody[:, None])
        rows = _validate.probabilities(
            confidences, name="confidences", num_classes=self.num_classes
        )
        if len(rows) != len(self.positions):
            raise ValueError(
                f"confidences has {len(rows)} rows for {len(self.positions)} canaries; one each"
            )
        size = 0 if self.mislabeled is None else len(self.mislabeled.positions)
        own, others = self._pairs(rows[:size])
        # A guess chooses from K - 1 wrong labels, or from the 2 of a coin.
        candidates = 2 if self.mislabeled is None else max(2, self.num_classes - 1)
        figures = _memorization(own, others, confidence)
        figures["label_inference_bound"] = guess_rise(1 / candidates, epsilon=epsilon, delta=delta)
        accuracy = self._label_inference(rows[:size], rows[size:])
        if accuracy is not None:
            figures["private/label_inference_accuracy"] = accuracy
            # Any guess without the model is as good as the next, on average.
            figures["private/label_inference_advantage"] = accuracy - 1 / candidates
        if self.coins is not None:
            scores = candidate_scores(rows[size:], self.coins.candidates)
            figures |= _one_run(scores, self.coins.coins, delta, confidence, curve)
            if released is not None:
                figures |= release_figures(
                    released, scores, self.coins, delta=delta, confidence=confidence
                )
        return figures, AttackEvidence(own=own, others=others)

    def _pairs(self, rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Confidences in the planted labels [M], and in the other wrong ones [M, K - 2]."""
        if self.mislabeled is None:
            return np.empty(0), np.empty((0, self.num_classes - 2))
        every = np.arange(len(rows))
        other = np.ones(rows.shape, dtype=bool)
        other[every, self.mislabeled.labels] = other[every, self.mislabeled.true_labels] = False
        return rows[every, self.mislabeled.labels], rows[other].reshape(len(rows), -1)

    def _label_inference(
        self, mislabeled: NDArray[np.float64], tossed: NDArray[np.float64]
    ) -> float | None:
        """How often a reader of the model guesses planted labels, knowing which ones are wrong.

        For labels drawn at random the best guess without the model is known, without bias.
        """
        if self.num_classes > 2 and self.mislabeled is not None:
            wrong = mislabeled.copy()
            wrong[np.arange(len(wrong)), self.mislabeled.true_labels] = -1.0
            return float((wrong.argmax(axis=1) == self.mislabeled.labels).mean())
        if self.coins is None:
            return None
        # Of two classes one is wrong: nothing is left to guess.
        both = np.full_like(tossed, -1.0)
        candidates = self.coins.candidates
        np.put_along_axis(both, candidates, np.take_along_axis(tossed, candidates, 1), 1)
        return float((both.argmax(axis=1) == self.coins.labels).mean())


def evidence_path(results: Path, trial: str) -> Path:
    """Where a sweep's results folder keeps the evidence of a trial's audits."""
    return results / "private" / "evidence" / f"{trial}.npz"


def curve_of(charges: Iterable[Charge], *, delta: float) -> Curve | None:
    """Family of trade-off curves that a run's releases belong to; None where none is known."""
    lines = list(charges)
    if not lines or any(line.failure_probability for line in lines):
        return None  # a curve holds for releases that never fail
    events = [line.event for line in lines]
    if len(events) == 1 and isinstance(events[0], RandomizedResponseEvent):
        return RandomizedResponseCurve(num_classes=events[0].num_classes)
    if all_pure(events):
        return PureCurve()
    # Gaussians compose to a Gaussian. Decisions on noisy counts have no Gaussian's curve, though
    # the counts have.
    if all(isinstance(e, GaussianEvent) and not isinstance(e, DecisionEvent) for e in events):
        return GaussianCurve(delta=delta)
    return None


def own_release(
    charges: Iterable[Charge], *, store: ReleaseStore, training: int
) -> OwnRelease | None:
    """Return a model's only input, if that is one release of all training labels by themselves.

    `charges` are the ledger's lines that it read. Labels after the first `training` are held out,
    and pay for estimates of accuracy that no model is made of.
    """
    lines = [line for line in charges if not line.is_beyond(training)]
    if len(lines) != 1:
        return None
    (line,) = lines
    if line.indices is not None and not np.array_equal(line.indices, np.arange(training)):
        return None
    kind = getattr(mechanisms, str(line.mechanism.get("name")), None)
    if not (isinstance(kind, type) and issubclass(kind, PerLabel) and is_of(kind, line.mechanism)):
        return None
    settings = {k: v for k, v in line.mechanism.items() if k not in ("name", "noise")}
    mechanism = kind(**settings)
    values = store.release(line.key)
    # The price has to be ours as well.
    if mechanism.family is None or mechanism.event != line.event or values is None:
        return None
    return mechanism, values


def release_figures(
    released: OwnRelease,
    scores: NDArray[np.float64],  # the model's, of the coins [C]
    coins: CoinCanaries,
    *,
    delta: float,
    confidence: float,
) -> dict[str, float]:
    """Return bounds that a model and its release prove within the family of the release's noise."""
    mechanism, values = released
    stated: dict[str, Any] = {"delta": delta, "confidence": confidence}
    right = right_guesses(scores, coins.coins)
    found = audit_release(values[coins.positions], mechanism=mechanism, coins=coins, **stated)
    stated |= {"family": mechanism.family, "canaries": scores.size}
    tries = [(guesses, int(right[:guesses].sum())) for guesses in guess_counts(scores.size)]
    return {
        "private/epsilon_tight": best_tight_bound(tries, **stated),
        "epsilon_tight_ceiling": tight_lower_bound(
            guesses=scores.size, correct=scores.size, guesses_fixed=True, **stated
        ),
        "private/epsilon_release": found.epsilon_tight,
        "private/epsilon_release_one_run": found.epsilon_low,
        "private/release_guesses": float(found.guesses),
        "private/release_correct": float(found.correct),
        "epsilon_release_ceiling": found.ceiling,
    }


def check_room(settings: AuditSettings, *, num_labels: int) -> None:
    """Refuse more canaries, with those of earlier blocks, than there are examples to be them."""
    canaries = settings.canaries or 0
    block = settings.canary_block or 0
    if max(settings.spoiled, canaries * (block + 1)) > num_labels:
        raise ValueError(
            f"audit.canaries is {canaries} (block {block}) and audit.coin_canaries is "
            f"{settings.coin_canaries}, but there are {num_labels} training examples; each canary, "
            f"also of an earlier block, takes one of its own: request at most {num_labels} in all"
        )


def _keyed_generator(secret: bytes, stream: bytes) -> np.random.Generator:
    # PCG64, though its state can be recovered: places and candidates may reveal the state of their
    # stream, which leads neither to the secret nor to the coins; some coins may reveal the other
    # coins, which are labels made up here and nobody's.
    digest = hmac.digest(secret, b"coin canaries: " + stream, "sha256")
    return np.random.default_rng(int.from_bytes(digest, "big"))


#: epsilon_m without an attack, or without one that could have found anything.
_NO_ATTACK = {
    "epsilon_m_low": 0.0,
    "epsilon_m_high": math.inf,
    "epsilon_m_ceiling": 0.0,
    "epsilon_m_paper_low": 0.0,
    "epsilon_m_paper_high": math.inf,
}


def _memorization(
    own: NDArray[np.float64], others: NDArray[np.float64], confidence: float
) -> dict[str, float]:
    # Of two classes one is wrong: no other wrong label exists to compare it with.
    if own.size == 0 or others.shape[1] == 0:
        return dict(_NO_ATTACK)
    interval = memorization_interval_from_pairs(own, others, confidence)
    return {
        "epsilon_m_low": interval.corrected.epsilon_low,
        "epsilon_m_high": interval.corrected.epsilon_high,
        "epsilon_m_ceiling": interval.ceiling,
        "epsilon_m_paper_low": interval.paper.epsilon_low,
        "epsilon_m_paper_high": interval.paper.epsilon_high,
    }


def _one_run(
    scores: NDArray[np.float64],
    coins: NDArray[np.int64],
    delta: float,
    confidence: float,
    curve: Curve | None,
) -> dict[str, float]:
    found = one_run_audit(scores, coins, delta=delta, confidence=confidence)
    figures = {
        "private/epsilon_one_run": found.epsilon_low,
        "private/one_run_guesses": float(found.guesses),
        "private/one_run_correct": float(found.correct),
        "epsilon_one_run_ceiling": found.ceiling,
    }
    if curve is None:
        return figures
    right = right_guesses(scores, coins)
    size = scores.size
    # As for the one-run audit, each number of guesses that is tried pays its share of the error.
    counts = guess_counts(size)
    each = 1 - (1 - confidence) / len(counts)

    def bound(guesses: int, correct: int, confidence: float) -> float:
        return f_dp_lower_bound(
            canaries=size, guesses=guesses, correct=correct, curve=curve, confidence=confidence
        )

    tried = (bound(guesses, int(right[:guesses].sum()), each) for guesses in set(counts))
    figures["private/epsilon_f_dp"] = max(tried)
    figures["epsilon_f_dp_ceiling"] = bound(size, size, confidence)
    return figures
