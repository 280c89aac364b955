"""attribute_inference: the attack against hand-made votes, and on a small file like Adult."""

from pathlib import Path

import numpy as np
import pytest

from labeldp.trainers.data.files import DatasetMissing
from labeldp.trainers.methods.attribute_inference import AdultEnsemble, adult_votes, infer_attribute


def test_the_rule_and_the_ranking_by_hand() -> None:
    phd = np.array([[60, 40], [30, 70], [10, 90]])  # consensus .6, .7, .9
    others = np.array([[80, 20], [5, 95], [75, 25], [90, 10]])  # .8, .95, .75, .9
    found = infer_attribute(phd, others)
    assert found.consensus_phd == pytest.approx(1 / 3)
    assert found.consensus_others == pytest.approx(3 / 4)  # .75 itself is low
    assert found.balanced_accuracy == pytest.approx((2 / 3 + 3 / 4) / 2)
    # pairs with the PhD holder below: 4 + 4 + 1 of 12, and one tie
    assert found.auc == pytest.approx((9 + 0.5) / 12)


def write_adult(folder: Path, *, rows: int = 400) -> None:
    """People whose income follows their age; PhD holders work long hours and earn anything."""
    generator = np.random.default_rng(0)
    folder.mkdir()
    for name, end in (("adult.data", ""), ("adult.test", ".")):
        lines = []
        for _ in range(rows):
            phd = generator.random() < 0.1
            age = int(generator.integers(20, 70))
            rich = generator.random() < 0.5 if phd else age > 45
            lines.append(
                f"{age}, Private, {generator.integers(10**5)}, {'Doctorate' if phd else 'HS-grad'},"
                f" {16 if phd else 9}, Divorced, Sales, Unmarried, White, Female, 0, 0, "
                f"{70 if phd else 40}, Cuba, {'>50K' if rich else '<=50K'}{end}"
            )
        (folder / name).write_text("\n".join(lines) + "\n")


def test_bad_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetMissing, match=r"adult\.data"):
        adult_votes(tmp_path, AdultEnsemble())
    write_adult(tmp_path / "adult", rows=30)
    with pytest.raises(ValueError, match="teachers is 31, but Adult has 30"):
        adult_votes(tmp_path / "adult", AdultEnsemble(teachers=31))
    with pytest.raises(ValueError, match="the same K classes"):
        infer_attribute(np.ones((2, 2)), np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"others \(0, 2\)"):
        infer_attribute(np.ones((2, 2)), np.ones((0, 2)))
