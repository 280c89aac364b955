"""settings: read without torch, handed on by the trainers, with types that are no words."""

import importlib
import subprocess
import sys
from dataclasses import fields

import pytest

from labeldp.platform.configuration import METHODS
from tests.source_tree import sources

MODULES = sorted(
    f"labeldp.trainers.settings.{path.stem}"
    for path in sources("trainers/settings")
    if path.name != "__init__.py"
)
#: Where people have imported settings from, before these had a room.
HANDED_ON = {
    "alibi": ("alibi", "AlibiConfig", "Noise"),
    "alibi_prior": ("alibi_prior", "AlibiPriorConfig", "PriorLabelsConfig"),
    "bit_flip": ("bit_flip", "BitFlipConfig"),
    "consensus": ("consensus", "ConsensusConfig"),
    "convex": ("convex", "ConvexConfig", "Iterate"),
    "fixmatch": ("fixmatch", "FixMatchConfig", "WeakBranch"),
    "learner": ("learner", "LearnerConfig"),
    "lp_mst": ("lp_mst", "LpMstConfig"),
    "models": ("model_name", "ModelName"),
    "pate.forests": ("forest", "ForestSettings"),
    "pate.pate_fm": ("pate", "PateConfig", "AggregatorKind"),
    "pate.students": ("student", "StudentConfig", "StudentKind"),
    "pate.teachers": ("ensemble", "EnsembleConfig", "TeacherKind"),
    "recommender": ("recommender", "RecommenderConfig"),
    "targets": ("noise", "Noise", "LabelMechanism", "label_mechanism"),
}


def test_settings_load_no_framework() -> None:
    slow = "{'omegaconf', 'ray', 'sklearn', 'torch'}"
    code = f"import sys, {', '.join(MODULES)}; assert not {slow} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("module", HANDED_ON)
def test_trainers_hand_their_settings_on(module: str) -> None:
    room, *names = HANDED_ON[module]
    trainer = importlib.import_module(f"labeldp.trainers.{module}")
    settings = importlib.import_module(f"labeldp.trainers.settings.{room}")
    assert all(getattr(trainer, name) is getattr(settings, name) for name in names)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_types_of_fields_are_types_and_no_words(method: str) -> None:
    """A configuration's hash asks whether a field holds a float (`configuration._plain`)."""
    assert not [entry.name for entry in fields(METHODS[method]) if isinstance(entry.type, str)]
