"""What a trial is, as one frozen configuration: a dataclass, then YAML, then `key=value`.

Keys are typed and checked by OmegaConf; every section validates its own values. A trainer is added
by a line in `_OWN_METHODS`, or by another package (`trainers.extensions`).
"""

import copy
import difflib
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import lru_cache, reduce
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from labeldp.mechanisms import _validate
from labeldp.platform.sweep.audit_settings import AuditSettings as AuditSettings
from labeldp.platform.sweep.data_settings import DataSettings as DataSettings
from labeldp.platform.sweep.data_settings import FeatureSet as FeatureSet
from labeldp.platform.sweep.evaluation_settings import EvaluationSettings as EvaluationSettings
from labeldp.platform.sweep.model_settings import ModelSettings
from labeldp.platform.sweep.noise_settings import NoiseSettings as NoiseSettings
from labeldp.platform.sweep.typed_values import ValueRefused, as_typed
from labeldp.trainers.extensions import Registry
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.alibi import AlibiConfig
from labeldp.trainers.settings.alibi_prior import AlibiPriorConfig, PriorLabelsConfig
from labeldp.trainers.settings.bit_flip import BitFlipConfig
from labeldp.trainers.settings.consensus import ConsensusConfig
from labeldp.trainers.settings.convex import ConvexConfig
from labeldp.trainers.settings.lp_mst import LpMstConfig
from labeldp.trainers.settings.noise import Noise
from labeldp.trainers.settings.pate import PateConfig
from labeldp.trainers.settings.recommender import RecommenderConfig
from labeldp.trainers.settings.staged_moments import StagedMomentsConfig
from labeldp.trainers.trainer import what_is_missing

#: Name of a method -> the settings of its trainer, those that come with labeldp.
_OWN_METHODS: dict[str, type] = {
    "alibi": AlibiConfig,
    "alibi_prior": AlibiPriorConfig,
    "bit_flip": BitFlipConfig,
    "consensus": ConsensusConfig,
    "convex": ConvexConfig,
    "lp_mst": LpMstConfig,
    "pate": PateConfig,
    "prior_labels": PriorLabelsConfig,
    "staged_moments": StagedMomentsConfig,
    "recommender": RecommenderConfig,
}


def _wrong(name: str, thing: object) -> str | None:
    """What is wrong with the settings of another package's trainer."""
    del name  # a method has no other
    if not isinstance(thing, type) or not is_dataclass(thing):
        return f"it is a {type(thing).__name__} and no dataclass of settings"
    return what_is_missing(thing)


#: Name -> settings; other packages add theirs by entry points of the group `labeldp.methods`.
METHODS: Registry[type] = Registry(
    _OWN_METHODS, group="labeldp.methods", kind="method", wrong=_wrong
)

#: Pieces of training that came with the fast network, as they are where nobody sets them.
_NO_RECIPE: dict[str, Any] = {
    "flip": "RANDOM",
    "crop": 4,
    "bias_rate": 1.0,
    "decoupled_decay": False,
    "label_smoothing": 0.0,
    "average_decay": 0.0,
    "mirrored": False,
}

#: Keys that came after trials had been recorded: at these values they are left out of the hash, so
#: that the older trials stay what they were.
_LATER_KEYS: dict[str, Any] = {
    "data.hold_out": None,
    "data.classes": None,
    "data.labels": None,
    "data.split_column": None,
    "data.drop": None,
    "data.keep": None,
    "data.test_path": None,
    "data.test_labels": None,
    "data.hold_out_seed": 0,
    "data.embeddings": None,
    "evaluation.held_out_share": None,
    "evaluation.held_out_seed": 0,
    "evaluation.estimate": "COUNT",
    "evaluation.epsilon": 0.05,
    "noise.secure": False,
    "trainer.prior.features": "AS_THEY_ARE",
    **{
        f"{section}.recipe.{name}": value
        for section in ("trainer", "trainer.ensemble.network", "trainer.student.network")
        for name, value in _NO_RECIPE.items()
    },
}

#: Keys whose default came to depend on the data: where nobody states a value, a
#: configuration keeps the hash that it had. Trials are hashed with the value that it comes to.
_FORMER_DEFAULTS: dict[str, Any] = {
    "noise.secure": False,
    "audit.canaries": 100,
    "audit.coin_canaries": 100,
    "evaluation.epsilon": 0.05,
}

#: Scale of ALIBI's Laplace noise, as the paper states it: another way to set `trainer.epsilon`.
LAMBDA = "trainer.lambda"
#: What ALIBI without noise does not look at.
_OF_NOISE = ("trainer.epsilon", "trainer.delta", "trainer.post_processing")

#: What papers call a setting, by the end of a key: where it is here.
_OTHER_NAMES = {
    "lambda": "Laplace noise of scale lambda has epsilon = 2 / lambda: set trainer.epsilon, or "
    "trainer.lambda of method alibi",
    "lr": "the learning rate is learning_rate: set trainer.learning_rate",
    "sigma": "Gaussian noise follows from its price: set trainer.noise=gaussian, trainer.epsilon "
    "and trainer.delta (`labeldp epsilon gaussian --noise-std S --delta D` says what S costs)",
}

#: What is plain already; nearly all values are, and a large plan asks about a million of them.
_PLAIN_TYPES = frozenset({bool, float, int, str, type(None)})

#: Keys that say where things lie on one machine, or what is kept, and not what is computed.
_LOCAL_KEYS = ("data.root", "models.keep")


class ConfigurationError(ValueError):
    """A key or value that can't be used; the message names it and the nearest one that can."""


@dataclass(frozen=True, kw_only=True)
class TrialConfig:
    """Everything that decides a trial's numbers.

    Attributes:
        method: A key of `METHODS`; it decides what `trainer` holds.
        seed: Of training: initialization, order of batches, augmentation.
        data: Which data set.
        audit: How privacy is attacked.
        noise: Where the labels' noise comes from.
        trainer: The method's settings, epsilon among them: a `TrainerConfig`.
        performance: Device and precision; they can't change privacy.
        evaluation: How accurate it is where labels are held out.
        models: Whether the trained model is kept.
    """

    method: str = "alibi"
    seed: int = 0
    data: DataSettings = field(default_factory=DataSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    noise: NoiseSettings = field(default_factory=NoiseSettings)
    # Not `TrainerConfig`: OmegaConf takes no protocol, and who names a method knows its own fields.
    trainer: Any = field(default_factory=AlibiConfig)
    performance: Performance = field(default_factory=Performance)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    models: ModelSettings = field(default_factory=ModelSettings)

    def __post_init__(self) -> None:
        """Check that the trainer's settings belong to the method."""
        _validate.whole(seed=self.seed)
        kind = METHODS.get(self.method)
        if kind is None:
            raise ConfigurationError(
                f"method is {self.method!r}; {near_miss(self.method, METHODS)}"
            )
        if not isinstance(self.trainer, kind):
            raise ConfigurationError(
                f"method {self.method!r} takes {kind.__name__}, not {type(self.trainer).__name__}"
            )
        refuse_interpolations(flatten(self))


def with_changes(config: TrialConfig, changes: Mapping[str, Any]) -> TrialConfig:
    """Return `config` with dotted keys changed.

    Args:
        config: Where to start.
        changes: Dotted key -> value; `method` is applied first and brings its own defaults.

    Raises:
        ConfigurationError: An unknown key (with the near miss), a wrong type, an interpolation, or
            a value that the section refuses.
    """
    refuse_interpolations(changes)
    base = _of_method(_settled(config), changes)
    known = _known(base)
    changes = _with_epsilon_of_lambda(base, changes)
    values: dict[str, Any] = {}
    for key, value in changes.items():
        if key not in known and not any(each.startswith(f"{key}.") for each in known):
            raise ConfigurationError(f"there is no key {key!r}; {near_miss(key, known)}")
        if isinstance(value, Mapping) or key not in known:
            raise ConfigurationError(
                f"{key} is a section, not a value; set one of its keys: "
                f"{', '.join(k for k in known if k.startswith(key + '.'))}"
            )
        values[key] = _typed(base, key, _in_plain_text(value))
    try:
        changed: TrialConfig = _with_values(base, values)
    except ConfigurationError:
        raise
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    return changed


def with_calibration(config: TrialConfig) -> TrialConfig:
    """Return the configuration with the values that its trainer derives from an epsilon.

    Raises:
        ConfigurationError: Values that contradict the epsilon.
    """
    calibrated = getattr(config.trainer, "calibrated", None)
    if calibrated is None:
        return config
    try:
        return replace(config, trainer=calibrated())
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def takes(config: TrialConfig, changes: Mapping[str, Any], key: str) -> bool:
    """Whether `key` means something to a configuration with these changes; sections do."""
    base = _of_method(_settled(config), changes)
    noise = changes.get("trainer.noise", getattr(base.trainer, "noise", None))
    is_noise = {each: str(getattr(noise, "value", noise)).lower() == each for each in Noise}
    if key == LAMBDA:
        return isinstance(base.trainer, AlibiConfig) and is_noise[Noise.LAPLACE]
    if isinstance(base.trainer, AlibiConfig) and is_noise[Noise.NONE] and key in _OF_NOISE:
        return False
    known = _known(base)
    return key in known or any(each.startswith(f"{key}.") for each in known)


def _of_method(base: TrialConfig, changes: Mapping[str, Any]) -> TrialConfig:
    """The configuration with the method that the changes name, and that method's defaults."""
    method = changes.get("method", base.method)
    if method == base.method:
        return base
    if not isinstance(method, str) or method not in METHODS:
        raise ConfigurationError(f"method is {method!r}; {near_miss(str(method), METHODS)}")
    return _settled(replace(base, method=method, trainer=METHODS[method]()))


def _known(config: TrialConfig) -> Mapping[str, Any]:
    try:
        return _known_once(config)
    except TypeError:  # as of `_settled`
        return flatten(config)


def _with_epsilon_of_lambda(base: TrialConfig, changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Changes with `trainer.epsilon` in place of `trainer.lambda`, of which it is 2 / lambda."""
    if LAMBDA not in changes or not isinstance(base.trainer, AlibiConfig):
        return changes
    value, rest = changes[LAMBDA], {k: v for k, v in changes.items() if k != LAMBDA}
    if not takes(base, rest, LAMBDA):
        raise ConfigurationError(
            f"{LAMBDA} is the scale of Laplace noise, but trainer.noise is "
            f"{rest.get('trainer.noise', base.trainer.noise)}; set trainer.epsilon"
        )
    if "trainer.epsilon" in rest:
        raise ConfigurationError(
            f"{LAMBDA} is {value!r} and trainer.epsilon is {rest['trainer.epsilon']!r}; epsilon is "
            "2 / lambda: set one of them"
        )
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ConfigurationError(f"{LAMBDA} is {value!r}; it must be a finite number above 0")
    return {**rest, "trainer.epsilon": 2 / value}


def _typed(config: TrialConfig, key: str, value: Any) -> Any:
    """A value as the type of its field has it."""
    *path, name = key.split(".")
    section = reduce(getattr, path, config)
    try:
        return as_typed(type(section), name, value)
    except ValueRefused as error:
        raise ConfigurationError(f"{key} is {value!r}{error}") from error


def _with_values(section: Any, values: Mapping[str, Any]) -> Any:
    """Return a section with dotted keys set, all of a section at once, the innermost first."""
    own: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        head, _, rest = key.partition(".")
        if rest:
            inner.setdefault(head, {})[rest] = value
        else:
            own[head] = value
    for head, below in inner.items():
        own[head] = _with_values(getattr(section, head), below)
    return replace(section, **own)


def _settled(config: TrialConfig) -> TrialConfig:
    """Return the configuration with every value as its field's type has it: 4 as 4.0."""
    try:
        return _settled_once(config)
    except TypeError:  # another package's settings with a list among them can't be remembered
        return _settled_once.__wrapped__(config)


@lru_cache(maxsize=64)
def _settled_once(config: TrialConfig) -> TrialConfig:
    try:
        result = OmegaConf.to_object(_tree(config))
    except OmegaConfBaseException as error:
        raise ConfigurationError(str(error).splitlines()[0]) from error
    assert isinstance(result, TrialConfig)
    return result


def refuse_interpolations(values: Mapping[str, Any]) -> None:
    """Refuse `${...}` wherever it stands, also in keys, in lists and in sections.

    OmegaConf would put an environment variable or another file's content there, and what may be a
    password would be in records, in tracking and on cards.

    Args:
        values: Key -> value, neither of them resolved.

    Raises:
        ConfigurationError: One has it; the message names the key and never the value.
    """
    for key, value in values.items():
        if _has_interpolation(key) or _has_interpolation(value):
            named = "a key" if _has_interpolation(key) else key
            raise ConfigurationError(
                f"{named} holds ${{...}}, which is not looked up here: settings are kept in "
                "records and in tracking, where a secret of the environment has no place; write "
                "the value itself, or have the shell put it there if it is not a secret"
            )


def _has_interpolation(value: Any) -> bool:
    if type(value) in _PLAIN_TYPES:
        return type(value) is str and "${" in value
    if isinstance(value, Mapping):
        return any(_has_interpolation(part) for entry in value.items() for part in entry)
    if isinstance(value, (list, tuple)):
        return any(map(_has_interpolation, value))
    return isinstance(value, str) and "${" in value


def flatten(config: TrialConfig | DictConfig) -> dict[str, Any]:
    """Return dotted key -> plain value, enums by name, in the order of the sections."""
    flat: dict[str, Any] = {}

    def walk(prefix: str, values: Mapping[str, Any]) -> None:
        for key, value in values.items():
            if type(value) not in _PLAIN_TYPES and isinstance(value, Mapping):
                walk(f"{prefix}{key}.", value)
            else:
                flat[f"{prefix}{key}"] = value

    walk("", _plain(config))
    return flat


_known_once = lru_cache(maxsize=64)(flatten)


def _plain(value: Any) -> Any:
    """Return sections as mappings; OmegaConf takes 15 ms, and sweeps have thousands."""
    if type(value) in _PLAIN_TYPES:
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, DictConfig):
        return OmegaConf.to_container(value, resolve=False, enum_to_str=True)
    if (entries := _entries_of(value.__class__)) is not None:
        # A whole number in a field of floats is the same setting, and so the same trial.
        return {name: as_plain(getattr(value, name)) for name, as_plain in entries}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


@lru_cache(maxsize=256)
def _entries_of(section: type) -> tuple[tuple[str, Callable[[Any], Any]], ...] | None:
    """Name of each field of settings, and what makes its value plain; None for all else."""
    if not is_dataclass(section):
        return None
    return tuple((each.name, float if each.type is float else _plain) for each in fields(section))


def to_yaml(config: TrialConfig) -> str:
    """Return the resolved configuration as YAML."""
    return OmegaConf.to_yaml(_tree(config))


def config_hash(config: TrialConfig, *, data_fingerprint: str) -> str:
    """Hash of what decides a trial's numbers, but for the noise: 16 hexadecimal digits.

    Args:
        config: The resolved configuration; where the data lie does not count.
        data_fingerprint: Of the public features, so that other data make another trial.
    """
    stated = {
        key: _FORMER_DEFAULTS.get(key) if value is None else value
        for key, value in flatten(config).items()
    }
    flat = {
        key: value
        for key, value in stated.items()
        if key not in _LOCAL_KEYS and (key, value) not in _LATER_KEYS.items()
    }
    text = json.dumps({**flat, "fingerprint": data_fingerprint}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _tree(config: TrialConfig) -> DictConfig:
    tree: DictConfig = OmegaConf.structured(_in_plain_text(config))
    _unlock(tree)
    return tree


def _in_plain_text(value: Any) -> Any:
    """Return settings with texts of a kind of their own (`OwnModel`) as texts and no more.

    OmegaConf takes no other; what is made of its tree checks them anew.
    """
    if is_dataclass(value) and not isinstance(value, type):
        same = copy.copy(value)
        for entry in fields(value):
            object.__setattr__(same, entry.name, _in_plain_text(getattr(value, entry.name)))
        return same
    return str(value) if isinstance(value, str) and not isinstance(value, Enum) else value


def _unlock(node: Any) -> None:
    """Frozen dataclasses become read-only nodes; this copy of them is ours to change."""
    OmegaConf.set_readonly(node, None)
    if not isinstance(node, DictConfig) or node._is_none():
        return  # a list has nothing inside to unlock
    for key in node:
        child = node._get_node(key)
        if OmegaConf.is_config(child):
            _unlock(child)


def near_miss(given: str, known: Mapping[str, Any]) -> str:
    """Return a hint at the names of `known` that may have been meant."""
    names = list(known)
    last = given.rpartition(".")[2]
    if last in _OTHER_NAMES and last not in {name.rpartition(".")[2] for name in names}:
        return _OTHER_NAMES[last]
    # The right name in the wrong section comes before a name that only looks alike.
    same = [name for name in names if name.rpartition(".")[2] == last]
    close = difflib.get_close_matches(given, names, n=2, cutoff=0.5)
    meant = list(dict.fromkeys([*same, *close]))[:4]
    if meant:
        return f"did you mean {' or '.join(meant)}?"
    return f"known are {', '.join(names)}"
