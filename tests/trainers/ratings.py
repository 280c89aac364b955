"""Ratings made up for tests, in the format of MovieLens-1M; nothing of the real ones is in them."""

from pathlib import Path

import numpy as np


def write_ratings(root: Path, *, users: int = 100, movies: int = 60, ratings: int = 12_000) -> Path:
    """Write `ml-1m/ratings.dat` below `root` and return its path.

    Some users are kinder than others, some movies better, and each user likes some of two kinds of
    movies; ids have gaps, as the real ones have.
    """
    random = np.random.default_rng(0)
    user, movie = random.integers(users, size=ratings), random.integers(movies, size=ratings)
    kindness, quality = random.normal(scale=0.5, size=users), random.normal(scale=0.7, size=movies)
    taste, kind = random.normal(size=(users, 2)), random.normal(scale=0.4, size=(movies, 2))
    liked = kindness[user] + quality[movie] + (taste[user] * kind[movie]).sum(1)
    stars = np.rint(3.5 + liked + random.normal(scale=0.4, size=ratings)).clip(1, 5).astype(int)
    lines = [
        f"{7 * user[i] + 1}::{3 * movie[i] + 2}::{stars[i]}::{978_300_000 + i}\n"
        for i in range(ratings)
    ]
    path = root / "ml-1m" / "ratings.dat"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines))
    return path
