"""Files of raw rows, read as the training rows of a model were: `.parquet`, `.csv`, `.npy`, `.npz`.

A `.csv` says of no column whether it is text. The model knows: a postcode that was text in the
training stays text, and one that was a number stays a number.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp.platform.cli.array_files import ArrayFileError, read_array
from labeldp.trainers.data.columns import Categories, Columns
from labeldp.trainers.data.files import DataFileError
from labeldp.trainers.data.own_files import csv_table
from labeldp.trainers.data.preprocessing import Preprocessing
from labeldp.trainers.data.regular_files import FileRefused, open_regular

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ARRAYS = (".npy", ".npz")


def read_rows(address: str, preprocessing: Preprocessing) -> Any:
    """Return raw rows: a DataFrame, or an array.

    Args:
        address: `FILE.parquet`, `FILE.csv`, `FILE.npy` or `FILE.npz[:key]`.
        preprocessing: Of the model that they are for.

    Raises:
        ArrayFileError: Not there, damaged, or of another kind.
    """
    path = Path(address)
    if path.suffix in _ARRAYS or ".npz:" in address:
        rows: NDArray[Any] = read_array(address, what="rows")
        return rows
    if path.suffix not in (".csv", ".parquet"):
        raise ArrayFileError(
            f"rows: {address} is no .parquet, .csv, .npy or .npz; save the rows as one of them"
        )
    try:
        return _parquet(path) if path.suffix == ".parquet" else _csv(path, preprocessing)
    except OSError as error:
        reason = error.strerror or str(error) or "it can't be read"
        raise ArrayFileError(f"rows: {path} can't be read: {reason}") from error
    except (FileRefused, DataFileError) as error:
        raise ArrayFileError(f"rows: {error}") from error
    except (ValueError, TypeError, ArithmeticError) as error:
        # pandas' and pyarrow's own kinds are such.
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ArrayFileError(f"rows: {path} can't be read as {path.suffix} ({first})") from error


def _parquet(path: Path) -> Any:
    from pyarrow import parquet

    with open_regular(path) as opened:
        return parquet.read_table(opened).to_pandas()


def _csv(path: Path, preprocessing: Preprocessing) -> Any:
    step = preprocessing.steps[0]
    if isinstance(step, Columns):
        # By the reader of training rows, so that both find the same categories and missing values.
        text = [name for name, each in step.columns.items() if isinstance(each, Categories)]
        return csv_table(path, text=text).to_pandas()
    import pandas as pd

    with open_regular(path) as opened:
        header = None if _all_numbers(opened.readline()) else 0
        opened.seek(0)
        return pd.read_csv(opened, header=header, skipinitialspace=True)


def _all_numbers(line: bytes) -> bool:
    try:
        return bool([float(field) for field in line.split(b",")])
    except ValueError:
        return False
