"""Objects that are written as plain values and arrays, and read back without code.

Fitted objects of scikit-learn are bytes in the format of skops, of exactly the types named here. A
file of skops names types, and for each the loader that makes it. skops trusts a name in every
loader, and some loaders call a function or a method. So a file is read here first: each loader
makes the types named for it and those that skops trusts it with, and all of it fits into memory.
"""

import io
import json
import zlib
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Self
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.files import check_archive, check_unpacked, first_line


class Stored:
    """A dataclass that is written as plain values and arrays, and read back without code.

    `kind` names it in files. A field may be a tuple of others. The one that the class names as
    `kept` is a fitted object, which is written in the format of skops.
    """

    kind: ClassVar[str]
    kept: ClassVar[str] = ""
    _kinds: ClassVar[dict[str, type["Stored"]]] = {}

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):
            Stored._kinds[cls.kind] = cls

    def described(self) -> dict[str, Any]:
        """Return its kind and the fields that are not arrays, as values that JSON has."""
        rest = {name: of for name, of in vars(self).items() if name != self.kept}
        plain = {name: _plain(of) for name, of in rest.items() if not hasattr(of, "__array__")}
        return {"kind": self.kind, **plain}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields that are arrays by name, those of others below their places."""
        found: dict[str, NDArray[Any]] = {}
        for name, of in vars(self).items():
            if name == self.kept:
                found["skops"] = packed(of)
            elif hasattr(of, "__array__"):
                found[name] = np.asarray(of).copy(order="C")
            for place, part in enumerate(of if isinstance(of, tuple) else ()):
                if isinstance(part, Stored):
                    inner = part.arrays().items()
                    found |= {f"{name}.{place}.{its}": array for its, array in inner}
        return found

    @classmethod
    def restored(cls, described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the object of this class that `described` and `arrays` were taken of.

        Raises a KeyError, RuntimeError, TypeError or ValueError where they don't fit each other.
        """
        known = {name: kind for name, kind in Stored._kinds.items() if issubclass(kind, cls)}
        if described["kind"] not in known:
            raise ValueError(
                f"{described['kind']!r} is not a kind of {cls.__name__}; this version knows "
                f"{', '.join(known)}"
            )
        return known[described["kind"]]._made(described, arrays)

    @classmethod
    def _made(cls, described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        given: dict[str, Any] = {}
        # By part: of thousands of columns, each would look through the arrays of all.
        parts = by_first_name(arrays)
        for each in fields(cls):  # type: ignore[arg-type]
            if each.name == cls.kept:
                given[each.name] = unpacked(arrays["skops"])
                continue
            of = arrays[each.name] if each.name in arrays else described[each.name]
            if isinstance(of, list):
                inner = by_first_name(parts[each.name])
                of = tuple(
                    Stored.restored(part, inner[str(place)]) if isinstance(part, Mapping) else part
                    for place, part in enumerate(of)
                )
            given[each.name] = of
        return cls(**given)


def _plain(value: object) -> Any:
    if isinstance(value, Stored):
        return value.described()
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def by_first_name(arrays: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Group arrays by what stands before the first dot of their names; the rest names each."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, array in arrays.items():
        first, _, rest = name.partition(".")
        found[first][rest] = array
    return found


class Step(Stored):
    """A transformation of rows, fitted on training rows.

    The first step of a preprocessing takes rows as people have them, each further one the output of
    the step before it.
    """

    @abstractmethod
    def __call__(self, rows: Any) -> Any:
        """Return the rows after this step."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of one output row."""


#: Module of scikit-learn -> what fitted objects hold of it beside estimators.
_SKLEARN = {
    "_loss.loss": "HalfTweedieLoss HalfTweedieLossIdentity",
    "calibration": "_CalibratedClassifier _SigmoidCalibration",
    "compose._column_transformer": "_RemainderColsList",
    "ensemble._hist_gradient_boosting.predictor": "TreePredictor",
    "gaussian_process._gpc": "_BinaryGaussianProcessClassifierLaplace",
    "gaussian_process.kernels": "ConstantKernel DotProduct Matern Product RBF Sum WhiteKernel",
    "metrics._dist_metrics": "EuclideanDistance64 ManhattanDistance64 MinkowskiDistance64",
    "metrics._scorer": "_PassthroughScorer _Scorer",
    "model_selection._split": "KFold StratifiedKFold",
    "multiclass": "_ConstantPredictor",
    "neighbors._ball_tree": "BallTree",
    "neighbors._kd_tree": "KDTree",
    "neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
    "utils._metadata_requests": "MetadataRequest MethodMetadataRequest",
}
_FUNCTIONS = {
    "feature_selection._univariate_selection": "chi2 f_classif f_regression",
    "metrics._classification": "accuracy_score balanced_accuracy_score f1_score log_loss",
    "metrics._ranking": "average_precision_score roc_auc_score",
    "metrics._regression": "mean_absolute_error mean_squared_error r2_score",
}
_BOOSTING = {
    "catboost.core": "CatBoostClassifier CatBoostRegressor",
    "lightgbm.basic": "Booster",
    "lightgbm.sklearn": "LGBMClassifier LGBMRegressor",
    "xgboost.core": "Booster",
    "xgboost.sklearn": "XGBClassifier XGBRegressor",
}


def _named(modules: dict[str, str], start: str = "") -> frozenset[str]:
    names = ((module, name) for module, held in modules.items() for name in held.split())
    return frozenset(f"{start}{module}.{name}" for module, name in names)


#: Loaders of what needs no further type.
_PLAIN = (
    "JsonNode ListNode TupleNode SetNode SliceNode DefaultDictNode BytesNode BytearrayNode "
    "NdArrayNode MaskedArrayNode LossNode RandomStateNode RandomGeneratorNode"
)
#: Loader -> types that it may make beside those that skops trusts it with. Loaders that call what a
#: file names are missing: methods, constructors, partial functions, operators.
_LOADERS: dict[str, frozenset[str]] = {
    "ObjectNode": _named(_SKLEARN, "sklearn.") | _named(_BOOSTING),
    "FunctionNode": _named(_FUNCTIONS, "sklearn."),
    "TreeNode": frozenset({"sklearn.tree._tree.Tree"}),
    "DictNode": frozenset({"sklearn.utils._bunch.Bunch", "collections.OrderedDict"}),
    "TypeNode": frozenset({"collections.OrderedDict"}),
    "DTypeNode": frozenset({"numpy.dtype"}),
    "SparseMatrixNode": _named(
        {"_csr": "csr_array csr_matrix", "_csc": "csc_array csc_matrix"}, "scipy.sparse."
    ),
    **dict.fromkeys(_PLAIN.split(), frozenset()),
}
#: The first version of the format that this package wrote; loaders of older ones check less.
_PROTOCOL = 2
#: Bytes of memory that one byte of a file's description takes at most.
_PER_BYTE = 32
_WHAT = "a fitted object in the model"
_DAMAGED = (
    BadZipFile,
    LookupError,
    TypeError,
    RuntimeError,
    MemoryError,
    AttributeError,
    zlib.error,
)


def packed(value: object) -> NDArray[np.uint8]:
    """Return a fitted object as bytes [B]; a ValueError names what `unpacked` would refuse."""
    import skops.io  # a second

    try:
        data = skops.io.dumps(value)
    except TypeError as error:
        raise ValueError(f"{type(value).__name__} can't be saved in a model: {error}") from error
    # What can't be read back is refused now, while the fitted object is still there.
    unpacked(array := np.frombuffer(data, dtype=np.uint8))
    return array


def unpacked(array: NDArray[np.uint8]) -> Any:
    """Return the object whose bytes [B] these are, and run no code of theirs.

    Raises:
        ValueError: They hold other types than those named here, or more than fits into memory.
    """
    import skops.io

    data = np.asarray(array, dtype=np.uint8).tobytes()
    try:
        found = skops.io.loads(data, trusted=_trusted(data))
        _check_indices(found)
        return found
    except _DAMAGED as error:
        raise ValueError(f"{_WHAT} is damaged ({first_line(error)})") from error


def _trusted(data: bytes) -> list[str]:
    """Return the types that skops asks about, all of which are named here, or refuse."""
    import skops.io

    with ZipFile(io.BytesIO(data)) as archive:
        # Sizes first: a small file may unpack to more than the memory.
        check_archive(_WHAT, archive, stored=len(data))
        check_unpacked(_WHAT, size := _PER_BYTE * archive.getinfo("schema.json").file_size)
        described = json.loads(archive.read("schema.json"))
        nodes = list(_nodes(described))
        for name in (str(node["file"]) for node in nodes if "file" in node):
            # One member may stand in many places, and is read for each.
            check_unpacked(_WHAT, size := size + archive.getinfo(name).file_size)
            if name.endswith(".npz"):
                with archive.open(name) as member, ZipFile(member) as inner:
                    size += check_archive(_WHAT, inner)
    # Loaders of older formats check less, and a file may claim any.
    if type(described.get("protocol")) is not int or described["protocol"] < _PROTOCOL:
        raise ValueError(f"{_WHAT} is in an older format than labeldp writes")
    # skops asks about types alone. What a loader does with a trusted type decides whether code
    # runs.
    for node in nodes:
        if (loader := node["__loader__"]) not in _LOADERS:
            raise _foreign(node)
        if loader == "RandomGeneratorNode":
            state = node["content"]["bit_generator"]["content"]
            if json.loads(state["bit_generator"]["content"]) != "PCG64":
                raise _foreign(node)
    asked = set(skops.io.get_untrusted_types(data=data))
    for node in nodes:
        if _name(node) in asked - _LOADERS[node["__loader__"]]:
            raise _foreign(node)
    return sorted(asked)


def _check_indices(value: Any) -> None:
    """Refuse trees whose indices compiled code would follow out of an array, or in a circle.

    Trees of nearest neighbors are built anew from their rows, and those without rows are refused.
    """
    from sklearn.ensemble._base import BaseEnsemble
    from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
    from sklearn.neighbors import BallTree, KDTree
    from sklearn.neighbors._base import NeighborsBase
    from sklearn.tree._tree import Tree

    left = [value]
    seen = dict[int, Any]()
    built = list[Any]()
    while left:
        each = left.pop()
        # An object may hold itself.
        if id(each) in seen or isinstance(each, type):
            continue
        seen[id(each)] = each
        held = getattr(each, "__dict__", {})
        tree = held.get("tree_")
        search = held.get("_tree")
        if isinstance(tree, Tree):
            _fits(1 <= tree.node_count <= tree.capacity and tree.n_features == each.n_features_in_)
            nodes = tree.__getstate__()["nodes"]
            names = ("left_child", "right_child", "feature")
            inner = nodes["left_child"] != -1
            _check_nodes(nodes, each.n_features_in_, inner=inner, names=names)
        if isinstance(each, BaseEnsemble) and "estimators_" in held:
            # Some ask their trees without a check of the width.
            parts = held["estimators_"]
            parts = parts.ravel() if isinstance(parts, np.ndarray) else parts
            whole = [range(each.n_features_in_)] * len(parts)
            for part, columns in zip(parts, held.get("estimators_features_", whole), strict=True):
                _fits("tree_" not in vars(part) or part.n_features_in_ == len(columns))
        if isinstance(each, BaseHistGradientBoosting):
            for predictor in (one for group in held.get("_predictors", ()) for one in group):
                nodes = predictor.nodes
                names = ("left", "right", "feature_idx")
                inner = nodes["is_leaf"] == 0
                _check_nodes(nodes, each.n_features_in_, inner=inner, names=names)
                chosen = nodes[inner & (nodes["is_categorical"] != 0)]
                sets = predictor.raw_left_cat_bitsets.shape
                _fits(sets[1] == 8 and (chosen["bitset_idx"] < sets[0]).all())
                if len(chosen):
                    _fits(each._bin_mapper.is_categorical_[chosen["feature_idx"]].all())
        if isinstance(each, NeighborsBase) and isinstance(search, KDTree | BallTree):
            _fits(len(held.get("_y", each._fit_X)) == len(each._fit_X))
            metric = each.effective_metric_
            more = each.effective_metric_params_
            each._tree = type(search)(each._fit_X, each.leaf_size, metric=metric, **more)
            built.append(each._tree)
        elif isinstance(each, KDTree | BallTree) and not any(each is one for one in built):
            raise ValueError(
                f"{type(each).__name__} outside of nearest neighbors can't be saved in a model or "
                "read from one, since its indices can't be checked; use another estimator"
            )
        if isinstance(each, np.ndarray):
            left += each.ravel().tolist() if each.dtype == object else []
        elif isinstance(each, dict):
            left += each.values()
        elif isinstance(each, list | tuple | set):
            left += each
        left += held.values()


def _check_nodes(nodes: NDArray[Any], columns: int, *, inner: Any, names: Sequence[str]) -> None:
    """Refuse nodes [N] but those whose children come after them, as trees are grown.

    `inner` [N] are no leaves; `names` are those of both children and of the feature.
    """
    after = np.flatnonzero(inner)
    left, right, feature = (nodes[name][after] for name in names)
    _fits(len(nodes) > 0 and ((feature >= 0) & (feature < columns)).all())
    _fits(((after < left) & (after < right) & (np.maximum(left, right) < len(nodes))).all())


def _fits(holds: "bool | np.bool") -> None:
    if not holds:
        raise ValueError(f"{_WHAT} has indices that are out of range; get the model again")


def _nodes(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "__loader__" in value:
            yield value
        value = list(value.values())
    for part in value if isinstance(value, list) else ():
        yield from _nodes(part)


def _name(node: dict[str, Any]) -> str:
    return f"{node['__module__']}.{node['__class__']}"


def _foreign(node: dict[str, Any]) -> ValueError:
    return ValueError(
        f"{_name(node)} ({node['__loader__']}) can't be saved in a model or read from one, since "
        "it is not on the list of types that run no code; use scikit-learn's own estimators and "
        "transformers, LightGBM, XGBoost or CatBoost, or prepare rows before the model"
    )
