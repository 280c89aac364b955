"""Tables of amounts and logs of advertisements: small files of the published formats.

The files themselves could not be fetched where these tests were written.
"""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from labeldp.trainers.data.catalog import FetchFailed, fetch, find, from_archive
from labeldp.trainers.data.conversions import SECRETS, conversions
from labeldp.trainers.data.files import DataFileError
from labeldp.trainers.data.labelled_data import load
from labeldp.trainers.data.published import BANK_NUMBERS, BANK_TEXTS
from labeldp.trainers.data.splits import held_out

ROWS = 40
#: Columns of Criteo's attribution log, as its first line has them.
ATTRIBUTION = (
    "timestamp uid campaign conversion conversion_timestamp conversion_id attribution click "
    "click_pos click_nb cost cpo time_since_last_click cat1 cat2 cat3 cat4 cat5 cat6 cat7 cat8 cat9"
).split()
BANK = [
    *("age", "job", "marital", "education", "default", "balance", "housing", "loan"),
    *("contact", "day", "month", "duration", "campaign", "pdays", "previous", "poutcome", "y"),
]


def housing(folder: Path) -> list[float]:
    value = [float(min(500_001, 15_000 * (row + 1))) for row in range(ROWS)]
    lines = [
        f"-122.{row},37.{row},{row}.0,880.0,129.0,322.0,126.0,{row / 7:.4f},{value[row]:.1f}"
        for row in range(ROWS)
    ]
    (folder / "cal_housing.data").write_text("\n".join(lines) + "\n")
    return value


def bank(folder: Path) -> list[float]:
    answers = [row % 3 == 0 for row in range(ROWS)]
    lines = [";".join(f'"{name}"' for name in BANK)]
    for row in range(ROWS):
        fields = [
            str(row) if name in (*BANK_NUMBERS, "duration") else f'"{name}{row % 4}"'
            for name in BANK[:-1]
        ]
        lines.append(";".join([*fields, '"yes"' if answers[row] else '"no"']))
    (folder / "bank-full.csv").write_text("\n".join(lines) + "\n")
    return [float(each) for each in answers]


def display(folder: Path) -> list[float]:
    clicks = [row % 4 == 0 for row in range(ROWS)]
    lines = []
    for row in range(ROWS):
        numbers = ["" if (row + place) % 5 == 0 else str(row * place) for place in range(13)]
        texts = ["" if (row + place) % 7 == 0 else f"{row % 3:08x}" for place in range(26)]
        lines.append("\t".join([str(int(clicks[row])), *numbers, *texts]))
    (folder / "dac_sample.txt").write_text("\n".join(lines) + "\n")
    return [float(each) for each in clicks]


def attribution(folder: Path) -> list[float]:
    bought = [row % 5 == 0 for row in range(ROWS)]
    lines = ["\t".join(ATTRIBUTION)]
    for row in range(ROWS):
        fields = {name: str(row) for name in ATTRIBUTION}
        fields |= {"conversion": str(int(bought[row])), "time_since_last_click": "-1"}
        fields |= {"cost": f"{row / 1e5:.9f}", "click": str(row % 2)}
        lines.append("\t".join(fields[name] for name in ATTRIBUTION))
    with gzip.open(folder / "criteo_attribution_dataset.tsv.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")
    return [float(each) for each in bought]


def movielens(folder: Path) -> list[float]:
    stars = [row % 5 + 1 for row in range(ROWS)]
    files = {
        "ratings": [
            f"{row % 3 + 1}::{row % 2 + 10}::{stars[row]}::97830{row}" for row in range(ROWS)
        ],
        "users": ["1::F::1::10::48067", "2::M::56::16::70072", "3::M::25::15::55117"],
        "movies": ["10::GoldenEye (1995)::Action|Thriller", "11::Ma vie: (en) rose (1997)::Drama"],
    }
    for name, lines in files.items():
        (folder / f"{name}.dat").write_bytes("\n".join([*lines, ""]).encode("latin-1"))
    return [float(each) for each in stars]


#: Writer, name of the file with labels, and bounds of amounts.
SETS: dict[str, tuple[Callable[[Path], list[float]], str, tuple[float, float] | None]] = {
    "california_housing": (housing, "cal_housing.data", (0.0, 500_001.0)),
    "bank_marketing": (bank, "bank-full.csv", None),
    "criteo_display": (display, "dac_sample.txt", None),
    "criteo_attribution": (attribution, "criteo_attribution_dataset.tsv.gz", None),
    "movielens_1m_amounts": (movielens, "ratings.dat", (1.0, 5.0)),
}


def folder_of(name: str, root: Path) -> Path:
    folder = root / ("ml-1m" if name.startswith("movielens") else name)
    folder.mkdir()
    return folder


@pytest.mark.parametrize("name", SETS)
def test_every_row_comes_out_with_its_label(name: str, tmp_path: Path) -> None:
    write, _, bounds = SETS[name]
    labels = np.array(write(folder_of(name, tmp_path)))
    data, test = load(name, root=tmp_path), held_out(ROWS)
    public = data.public
    assert public.bounds == bounds and public.preprocessing.steps
    if bounds is None:
        assert data.train_labels.tolist() == labels[~test].tolist()
        assert public.test_labels.tolist() == labels[test].tolist()
        assert public.class_names == ("no", "yes")
    else:
        assert public.test_amounts is not None
        assert public.test_amounts.tolist() == labels[test].tolist()
        scaled = (labels[~test] - bounds[0]) / (bounds[1] - bounds[0])
        assert np.abs((data.train_labels + 0.5) / 64 - scaled).max() <= 1 / 128 + 1e-9
    rows = public.train_features.numpy()
    assert len(rows) == (~test).sum() and np.isfinite(rows).all()


def test_features_are_those_of_the_columns(tmp_path: Path) -> None:
    for name, (write, *_) in SETS.items():
        write(folder_of(name, tmp_path))
    shapes = {name: load(name, root=tmp_path).public.train_features.shape[1] for name in SETS}
    # Numbers, a column that marks gaps for each, and categories.
    assert shapes["california_housing"] == 8
    assert shapes["bank_marketing"] == len(BANK_NUMBERS) + 4 * len(BANK_TEXTS)
    assert shapes["criteo_display"] == 13 * 2 + 26 * 4
    # The thirty most frequent categories of each of ten columns.
    assert shapes["criteo_attribution"] == 3 + 10 * 30
    assert shapes["movielens_1m_amounts"] == 2 + 3 + 2 + 3
    times = load("criteo_attribution", root=tmp_path).public.preprocessing.steps[0].described()
    assert "conversion" not in str(times) and "click_nb" not in str(times)


@pytest.mark.parametrize("name", SETS)
def test_damaged_files_are_named_and_their_secrets_are_not(name: str, tmp_path: Path) -> None:
    write, file, _ = SETS[name]
    folder = folder_of(name, tmp_path)
    write(folder)
    path = folder / file
    packed = path.suffix == ".gz"
    good = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    lines = good.decode().splitlines()
    separator = {"california_housing": ",", "bank_marketing": ";", "movielens_1m_amounts": "::"}
    mark = separator.get(name, "\t")
    fields = lines[5].split(mark)
    place = {"california_housing": -1, "bank_marketing": -1, "criteo_display": 0}.get(name, 2)
    fields[ATTRIBUTION.index("conversion") if packed else place] = "secret"
    for bad in ([*lines[:5], mark.join(fields), *lines[6:]], [], lines[:1]):
        content = "\n".join([*bad, ""]).encode() if bad else b""
        path.write_bytes(gzip.compress(content) if packed else content)
        with pytest.raises(DataFileError, match=f"{file}.*fetch it again") as caught:
            load(name, root=tmp_path)
        assert "secret" not in str(caught.value)


def archive_of(kind: str, files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w") as opened:
            for name, content in files.items():
                opened.writestr(name, content)
    else:
        with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
            for name, content in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                packed.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize(("name", "kind"), [("bank_marketing", "zip"), ("criteo_display", "tar")])
def test_sets_come_out_of_their_archives(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, file, _ = SETS[name]
    made = tmp_path / "made"
    made.mkdir()
    write(made)
    content = (made / file).read_bytes()
    packed = archive_of(kind, {f"some/folder/{file}": content, "../readme.txt": b"no"})

    def download(url: str, root: str, *, filename: str) -> None:
        Path(root, filename).write_bytes(packed)

    monkeypatch.setattr("torchvision.datasets.utils.download_url", download)
    root = tmp_path / "data"
    assert fetch(name, root) == root / name
    assert (root / name / file).read_bytes() == content
    assert sorted(each.name for each in root.rglob("*")) == sorted([name, file])
    with pytest.raises(FetchFailed, match=r"has SHA-256 .*, the published archive aaa5c9"):
        fetch("california_housing", root)
    with pytest.raises(ValueError, match=r"the archive has no file ratings\.dat"):
        from_archive("http://x")(root, find("movielens_1m_amounts").layouts[0].files)


# The synthetic log: its law of purchases stays as it is, and a person's visits are alike.


def test_columns_that_came_first_keep_their_numbers() -> None:
    log = conversions(2000, seed=3)
    assert (log.bought == "yes").sum() == 38
    assert log.id[0] == "v000001840"
    assert float(log.probability.sum()) == pytest.approx(40.0, abs=1e-6)  # a share of 2%
    assert float(log.days.sum()) == pytest.approx(412901.5586, abs=1e-3)


def test_a_person_makes_up_to_20_visits_from_one_device() -> None:
    log = conversions(20_000, seed=0)
    people = log.groupby("person")
    visits = people.size()
    assert set(visits) == set(range(1, 21))
    assert people[["country", "device"]].nunique().max().tolist() == [1, 1]
    # A name does not say how often the person came.
    assert abs(np.corrcoef(visits, visits.index.str[1:].astype(int))[0, 1]) < 0.1


def test_purchases_alone_have_an_amount_and_a_delay() -> None:
    log = conversions(50_000, seed=0)
    bought = log.bought == "yes"
    assert (log.amount > 0).equals(bought) and log.delay.notna().equals(bought)
    assert (log.delay[bought] >= 0).all()
    dear = bought & (log.price > log.price[bought].median())
    assert log.delay[dear].mean() > log.delay[bought & ~dear].mean()
    assert set(SECRETS) <= set(log.columns)
