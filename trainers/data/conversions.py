"""A synthetic log of visits that may end in a purchase: rare labels of a known law, any size.

Twenty columns: counts with heavy tails, prices, an hour, scores of which most say nothing, and four
columns of text with many categories. One visit in 50 ends in a purchase, by a logistic law with
effects of single columns and some of pairs; no model can know more than `probability`.

A person makes 1 to 20 visits, from one country on one device. A purchase has an amount near the
price times one more than the basket, and comes some days after the visit, later if it is dear.

>>> log = conversions(1000, seed=0)
>>> list(log)[:4], len(log.columns), sorted(set(log.bought))
(['id', 'days', 'visits', 'minutes'], 26, ['no', 'yes'])
>>> bool(log.groupby("person").size().between(1, 20).all())
True

In `weeks`, some ids of the first week come again in every later one.

>>> first, *later = weeks(log, 4)
>>> [int(week.id.isin(first.id).sum()) for week in later]
[25, 25, 25]
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

#: Share of visits that end in a purchase.
SHARE = 0.02
#: Columns that are not features.
SECRETS = ("person", "bought", "amount", "delay", "probability")
_COUNTRIES = 20
_CAMPAIGNS = 40
_SCORES = 8
_MOST_VISITS = 20
#: Share of the first week's ids that come again every week.
_REGULARS = 0.1


def conversions(rows: int, *, seed: int) -> pd.DataFrame:
    """Return N visits: `id`, 20 features, `bought` (yes or no), and its `probability`.

    Further columns: `person`, `amount` (0 without a purchase), and `delay`, the days from the visit
    to the purchase (missing without one).
    """
    # The law is the same for every seed, so that one model serves logs of several.
    law = np.random.default_rng(2026)
    draw = np.random.default_rng(seed)

    def category(name: str, effects: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        frequent = 1 / np.arange(1, len(effects) + 1)
        chosen = draw.choice(len(effects), size=rows, p=frequent / frequent.sum())
        names = np.array([f"{name}{number}" for number in range(len(effects))])
        return names[chosen], effects[chosen]

    scores = draw.normal(size=(rows, _SCORES))
    days = draw.exponential(200, rows)
    visits = draw.poisson(draw.lognormal(1, 1, rows))
    minutes = draw.lognormal(5, 2, rows)
    price = draw.lognormal(3, 0.8, rows)
    discount = np.maximum(draw.uniform(-0.5, 0.5, rows), 0).round(2)
    hour = draw.integers(0, 24, rows)
    clicks = draw.poisson(2, rows)
    basket = draw.poisson(0.4, rows)
    device, of_device = category("device", np.array([0.0, 0.5, 0.2]))
    country, of_country = category("country", law.normal(0, 0.4, _COUNTRIES))
    campaign, of_campaign = category("campaign", law.normal(0, 0.5, _CAMPAIGNS))
    channel, of_channel = category("channel", law.normal(0, 0.3, 6))
    logit = (
        0.6 * np.log1p(visits)
        - 0.25 * np.log1p(minutes)
        - 0.3 * np.log(price)
        + 2 * discount * (device == "device0")
        + 1.2 * np.minimum(basket, 2)
        + 0.3 * np.sin(2 * np.pi * hour / 24)
        + 0.5 * scores[:, 0]
        + 0.4 * scores[:, 1] * scores[:, 2]
        + of_device
        + of_country
        + of_campaign
        + of_channel
    )
    shift = brentq(lambda offset: expit(logit + offset).mean() - SHARE, -30, 30)
    probability = expit(logit + shift)
    ids = [f"v{number:09d}" for number in draw.permutation(rows)]
    bought = draw.random(rows) < probability
    # A stream of their own, so that columns that came first keep their numbers.
    later = np.random.default_rng((seed, 1))
    amount = price * (1 + basket) * (1 - discount) * later.lognormal(0, 0.3, rows)
    delay = later.exponential(3 + 0.1 * price)
    return pd.DataFrame(
        {
            "id": ids,
            "days": days,
            "visits": visits,
            "minutes": minutes,
            "price": price,
            "discount": discount,
            "hour": hour,
            "clicks": clicks,
            "basket": basket,
            **{f"score{number}": scores[:, number] for number in range(_SCORES)},
            "device": device,
            "country": country,
            "campaign": campaign,
            "channel": channel,
            "bought": np.where(bought, "yes", "no"),
            "probability": probability,
            "person": _people(country, device, later),
            "amount": np.where(bought, amount, 0.0).round(2),
            "delay": np.where(bought, delay, np.nan).round(2),
        }
    )


def weeks(log: pd.DataFrame, number: int) -> list[pd.DataFrame]:
    """Return a log week by week, with known ids (and persons) among those of later weeks."""
    parts = [log.iloc[rows].copy() for rows in np.array_split(np.arange(len(log)), number)]
    regulars = parts[0][["id", "person"]].iloc[: int(_REGULARS * len(parts[0]))]
    for part in parts[1:]:
        part.loc[part.index[: len(regulars)], ["id", "person"]] = regulars.to_numpy()
    return parts


def _people(
    country: np.ndarray, device: np.ndarray, generator: np.random.Generator
) -> NDArray[np.str_]:
    """Return names of people who make up to 20 visits each, in any order of visits [N]."""
    rows = len(country)
    order = np.lexsort((generator.random(rows), device, country))
    ends = generator.integers(1, _MOST_VISITS + 1, rows).cumsum()
    start = np.isin(np.arange(rows), ends)
    for column in (country[order], device[order]):
        start[1:] |= column[1:] != column[:-1]
    names = np.empty(rows, dtype="U10")
    places = generator.permutation(rows)[start.cumsum() - 1]
    names[order] = [f"p{place:09d}" for place in places]
    return names
