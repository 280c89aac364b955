"""Find the code that called `fit`: the user's own, or a wrapper that may have changed labels.

Wrappers compute on y before `fit` gets it: they number the labels that occur, scale or resample
them, or make features of them. Epsilon covers none of that. Labels may come from the user's own
code, and through the few wrappers below, which hand them on as they are (tested one by one). All
others are refused; they take a `SharedVault`'s tokens, from which nothing can be computed.
"""

import inspect
import multiprocessing
import sys
import threading
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

from sklearn.compose import ColumnTransformer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
    cross_val_score,
    cross_validate,
)
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

#: They hand labels on, but score models with those of other rows.
_SEARCHES = (GridSearchCV, RandomizedSearchCV)
_VALIDATIONS: dict[CodeType, str] = {
    inspect.unwrap(each).__code__: each.__name__ for each in (cross_validate, cross_val_score)
}
#: They hand labels on: by the exact type, since a subclass may do anything.
_HANDING_ON = {
    *_SEARCHES,
    Pipeline,
    FixedThresholdClassifier,
    MultiOutputClassifier,
    MultiOutputRegressor,
}
#: Steps before a model that learn from features alone: public names of these modules, unless
#: their tags say that they need labels.
_BY_FEATURES = (
    "sklearn.preprocessing",
    "sklearn.decomposition",
    "sklearn.impute",
    "sklearn.cluster",
    "sklearn.feature_extraction",
    "sklearn.feature_extraction.text",
    "sklearn.manifold",
    "sklearn.kernel_approximation",
    "sklearn.random_projection",
)
_TOKENS = (
    "Or carry tokens in place of labels: vault = SharedVault(labels=y, classes=...), the model "
    "with vault=vault, and y=vault.tokens"
)
#: Checks, decorators and loops around estimators, which compute nothing on labels.
_MACHINERY = ("sklearn.base", "sklearn.utils")
#: Methods whose estimator a frame shows, unless it hides it.
_FITS = ("fit", "fit_predict", "fit_transform", "partial_fit")
#: They pickle what goes to workers.
_SENDING = ("joblib.externals.loky", "joblib.pool", "multiprocessing", "concurrent", "distributed")


class Handed(NamedTuple):
    """How labels came; `transformed`: X comes out of a pipeline, and its rows name nobody.

    `uncounted`: what true labels decided beside the fit, in words; empty for nothing.
    """

    transformed: bool = False
    uncounted: str = ""


def handed_labels(model: object, *, cloned: bool) -> Handed:
    """Read off the call stack who hands labels to the model's `fit`.

    A `cloned` model in a thread or process of a pool may be a wrapper's, which the stack no longer
    shows.

    Raises:
        ValueError: A wrapper may have changed the labels, or made features of them.
    """
    transformed = False
    unknown = ""
    scored_by = ""
    for module, frame in _frames(sys._getframe(1)):
        code = frame.f_code
        wrapper = _owner(frame)
        own = wrapper is model and (
            code.co_name not in _FITS or module.startswith(("labeldp.", "sklearn."))
        )
        if wrapper is None and module != "__main__" and _is_a_fit(code):
            _refuse(code.co_qualname)
        if wrapper is not None and not own:
            if type(wrapper) not in _HANDING_ON:
                _refuse(type(wrapper).__name__)
            if isinstance(wrapper, Pipeline):
                _refuse_supervised(wrapper)
                transformed = True
            else:  # the clone is its own
                unknown = ""
            if isinstance(wrapper, _SEARCHES):
                scored_by = type(wrapper).__name__
        elif code in _VALIDATIONS:
            scored_by = _VALIDATIONS[code]
            unknown = ""
        elif module.startswith(("sklearn.", "imblearn.")) and not module.startswith(_MACHINERY):
            unknown = code.co_name
    pooled = threading.current_thread() is not threading.main_thread()
    if cloned and (pooled or multiprocessing.parent_process() is not None):
        unknown = unknown or "a clone in another thread or process"
    if unknown:
        _refuse(unknown)
    uncounted = (
        f"{scored_by} scores models with true labels, and splits rows by them unless cv= is a "
        "public split such as KFold(5, shuffle=True, random_state=0); no total counts that. Score "
        "on public test labels, with scoring= (log loss is NaN where a stated class does not occur)"
    )
    return Handed(transformed, uncounted if scored_by else "")


def leaves_process() -> bool:
    """Whether the caller is being pickled for another process, by joblib or multiprocessing."""
    return any(module.startswith(_SENDING) for module, _ in _frames(sys._getframe(1)))


def _frames(frame: FrameType | None) -> Iterator[tuple[str, FrameType]]:
    """A frame and those that called it, with their modules."""
    while frame is not None:
        yield str(frame.f_globals.get("__name__", "")), frame
        frame = frame.f_back


def _owner(frame: FrameType) -> Any:
    """Return the estimator whose method runs in a frame; None for any other code."""
    code = frame.f_code
    first = None
    if code.co_argcount:
        first = frame.f_locals.get(code.co_varnames[0])
    elif code.co_flags & inspect.CO_VARARGS:  # def fit(*args)
        first = next(iter(frame.f_locals.get(code.co_varnames[code.co_kwonlyargcount]) or ()), None)
    kind = type(first)
    if not hasattr(kind, "fit"):
        return None
    # Lambdas and decorated methods have other names than their attributes.
    members = (member for each in kind.__mro__ for member in vars(each).values())
    named = hasattr(kind, code.co_name)
    return first if named or any(getattr(m, "__code__", None) is code for m in members) else None


def _is_a_fit(code: CodeType) -> bool:
    """Whether code is a class's own method of such a name, and no function's."""
    inside = code.co_qualname.rpartition(".")[0]
    return code.co_name in _FITS and bool(inside) and not inside.endswith("<locals>")


def _refuse(name: str) -> None:
    raise ValueError(
        f"{name} hands the labels to fit, and is not known to hand them on as they are. It may "
        "number those that occur (a stated class that does not occur then shifts all others), "
        "scale or copy them, choose rows by them, or make features of them, and epsilon covers "
        f"none of that; nothing was released. {_TOKENS}. What numbers tokens too (voting, bagging, "
        "stacking, calibration) is then refused as well: fit the private models by themselves and "
        "average their predict_proba, or give the private model the other one as estimator="
    )


def _refuse_supervised(pipeline: Pipeline) -> None:
    for _, step in pipeline.steps[:-1]:
        if name := _supervised(step):
            raise ValueError(
                f"the pipeline's step {name} is not known to learn from features alone: what it "
                "learns from true labels leaves with the features, and epsilon does not cover it; "
                f"nothing was released. Let it learn from the release, estimator=make_pipeline("
                f"{name}(), ...), or apply it to X beforehand if it uses no label. {_TOKENS}"
            )


def _supervised(step: object) -> str:
    """The name of a step, or of one in it, that may learn from labels; empty if there is none."""
    if step is None or isinstance(step, str):
        return ""
    kind = type(step)
    inner = ("steps", "transformers", "transformer_list")
    if kind in (Pipeline, ColumnTransformer, FeatureUnion):
        parts = next(getattr(step, name) for name in inner if hasattr(step, name))
        every = [*(part[1] for part in parts), getattr(step, "remainder", None)]
        return next((name for each in every if (name := _supervised(each))), "")
    public = any(
        getattr(sys.modules.get(name), kind.__name__, None) is kind for name in _BY_FEATURES
    )
    return "" if public and not get_tags(step).target_tags.required else kind.__name__
