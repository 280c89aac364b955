"""A model of a table of your own: `python examples/own_csv.py [FILE.csv LABEL_COLUMN no,yes]`.

Name all classes, which are public. Without a file, a table of tumors that comes with scikit-learn
is written and used. A quarter of the rows is kept for the test; their labels count as public.
"""

import sys

import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from labeldp import LabelPrivateClassifier


def main(path: str | None = None, label_column: str = "target", classes: str = "0,1") -> None:
    """Fit at epsilon 1, print what it cost and how good it is, and save the model."""
    if path is None:
        path = "tumors.csv"
        load_breast_cancer(as_frame=True).frame.to_csv(path, index=False)
    table = pd.read_csv(path, dtype={label_column: str})
    train, test = train_test_split(table, random_state=0)
    model = LabelPrivateClassifier(epsilon=1.0, classes=classes.split(","), random_state=0)
    model.fit(train.drop(columns=label_column), train[label_column])
    right = model.score(test.drop(columns=label_column), test[label_column])
    print(f"{model.method_}: {right:.0%} of {len(test)} test rows are right")
    print(model.guarantee_)
    model.save("tumor-model")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (KeyError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")
