"""MovieLens-1M: who rated which movie with how many stars; the stars are the secret.

Harper and Konstan, "The MovieLens Datasets: History and Context", 2015. Its license forbids passing
it on: whoever wants it takes `ml-1m.zip` from GroupLens and unpacks it below the folder of the data
sets. `ratings.dat` has a line `user::movie::stars::seconds` per rating.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.files import DataFileError, Splits, held_out, read_lines
from labeldp.trainers.data.preprocessing import Places

STARS = ("1", "2", "3", "4", "5")
_COLUMNS = ("user", "movie", "stars", "seconds")
#: What fits into an int64.
_MOST_DIGITS = 18


def read_movielens(folder: Path) -> Splits:
    """Return the ratings of `ratings.dat`, one in five held out for testing.

    A row of features is (user, movie), as places counted from 1 among those of the training rows;
    a user or movie that only testing rows have is 0. Classes are stars less 1.

    Raises:
        DatasetMissing: The file is not there.
        DataFileError: A line that is empty, has a column too few or too many, an id that is no
            number, or a rating that is no whole number of stars.
    """
    path = folder / "ratings.dat"
    ids, stars = _read_ratings(path)
    test = held_out(len(stars))
    fitted = Places.fit(ids[~test])
    return Splits(
        train_features=fitted(ids[~test]),
        train_labels=stars[~test],
        test_features=fitted(ids[test]),
        test_labels=stars[test],
        num_classes=len(STARS),
        class_names=STARS,
        preprocessing=fitted,
    )


def _read_ratings(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return ids of users and movies [N, 2] and stars less 1 [N]."""
    ids: list[tuple[int, int]] = []
    stars: list[int] = []
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split("::")
        if len(fields) != len(_COLUMNS):
            raise DataFileError(f"{path} line {number} {_what_is_wrong(line, fields)}")
        user, movie, rating, _ = fields
        if rating not in STARS:
            raise DataFileError(
                f"{path} line {number} has an unknown rating; MovieLens-1M knows {', '.join(STARS)}"
                " stars: other versions, with half stars, can be loaded as data.name=own"
            )
        if not (user.isascii() and user.isdigit() and movie.isascii() and movie.isdigit()):
            raise DataFileError(
                f"{path} line {number} has user {user!r} and movie {movie!r}; both must be whole "
                "numbers: the file is damaged, get it again"
            )
        if max(len(user), len(movie)) > _MOST_DIGITS:
            raise DataFileError(
                f"{path} line {number} has user {user[:24]} and movie {movie[:24]}; numbers have "
                f"{_MOST_DIGITS} digits at most: the file is damaged, get it again"
            )
        ids.append((int(user), int(movie)))
        stars.append(STARS.index(rating))
    if len(stars) < 2:
        raise DataFileError(f"{path} holds {len(stars)} ratings: get it again")
    return np.array(ids, dtype=np.int64), np.array(stars, dtype=np.int64)


def _what_is_wrong(line: str, fields: list[str]) -> str:
    if not line.strip():
        return "is empty; a line holds one rating, user::movie::stars::seconds: remove it"
    if len(fields) > len(_COLUMNS):
        return f"has {len(fields)} columns; there are {len(_COLUMNS)}, {'::'.join(_COLUMNS)}"
    return (
        f"has {len(fields)} of the {len(_COLUMNS)} columns {'::'.join(_COLUMNS)}; one is missing, "
        "the file is cut off or of another version (those separate columns by commas): get it again"
    )
