"""Which data set a trial is of, and what is said of files of the user's own.

>>> DataSettings(name="own", path="mine.csv", classes="no, yes", drop="id").own_source.classes
('no', 'yes')
"""

from dataclasses import dataclass, fields

from labeldp.mechanisms import _validate
from labeldp.trainers.data.own_files import HoldOut, OwnSource, StatedClasses
from labeldp.trainers.settings.feature_set import FeatureSet as FeatureSet


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """Which data set.

    Attributes:
        name: A name of `labeldp data list`; `own` for the user's own features and labels.
        root: Folder that holds the sets; the environment's LABELDP_DATA if not given.
        path: The user's own file, for `own`: `.csv`, `.parquet`, `.npz` or `.npy`.
        labels: The file of labels that goes with an `.npy` of features.
        label_column: The column of labels of a table; `label` if not given.
        split_column: The column, or array of an `.npz`, that says `train` or `test`; `split` if
            not given.
        drop: Columns of a table that are left out, separated by commas.
        keep: Columns of a table that are features although they look like identifiers, which are
            left out otherwise; separated by commas.
        test_path: A second file of the user's own whose rows are for testing: their labels are
            public.
        test_labels: The file of labels that goes with it, where it is an `.npy`.
        limit: Use that many training examples only, chosen at random once and for all.
        features: What models see of the set.
        hold_out: What becomes of labels for testing where the user's own file brings no split:
            PUBLIC **publishes** one in five of them, NONE publishes none. Without a word such a
            file is refused.
        hold_out_seed: Which of them PUBLIC takes; public.
        embeddings: An `.npy` that `labeldp embed NAME` has made of the set's images, which models
            see in their place; not for `own`, whose embeddings are its features.
        classes: How many classes the user's own file has, or their names in order, separated by
            commas; not needed where the file says it.
    """

    name: str = "digits"
    root: str | None = None
    path: str | None = None
    labels: str | None = None
    label_column: str | None = None
    split_column: str | None = None
    drop: str | None = None
    keep: str | None = None
    test_path: str | None = None
    test_labels: str | None = None
    limit: int | None = None
    features: FeatureSet = FeatureSet.AS_THEY_ARE
    hold_out: HoldOut | None = None
    hold_out_seed: int = 0
    classes: str | None = None
    embeddings: str | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.limit is not None:
            _validate.whole(limit=self.limit, minimum=1)
        _validate.whole(hold_out_seed=self.hold_out_seed)

    @property
    def own_source(self) -> OwnSource:
        """What these settings say of the user's own files.

        Raises:
            ValueError: They don't go together.
        """
        return OwnSource(
            path=self.path,
            labels=self.labels,
            label_column=self.label_column,
            split_column=self.split_column,
            drop=_names(self.drop),
            keep=_names(self.keep),
            test_path=self.test_path,
            test_labels=self.test_labels,
            hold_out=self.hold_out,
            hold_out_seed=self.hold_out_seed,
            classes=self.stated_classes,
        )

    @property
    def stated_classes(self) -> StatedClasses | None:
        """The number of classes, or their names, as far as these settings say."""
        if self.classes is None:
            return None
        if self.classes.isdecimal():
            return int(self.classes)
        return _names(self.classes)


def _names(text: str | None) -> tuple[str, ...]:
    """Names that are separated by commas."""
    return () if text is None else tuple(name.strip() for name in text.split(","))


#: The settings that are for data of the user's own.
OWN_KEYS = tuple(entry.name for entry in fields(OwnSource))
