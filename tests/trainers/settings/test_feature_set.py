"""FeatureSet: one list of features for data and for priors, under the names that people write."""

from labeldp.platform.sweep import data_settings
from labeldp.trainers.models.features import PatchFeatures, RandomPatchFeatures, image_features
from labeldp.trainers.settings.feature_set import FeatureSet


def test_data_and_priors_name_features_alike() -> None:
    assert data_settings.FeatureSet is FeatureSet
    assert [which.value for which in FeatureSet] == ["as_they_are", "patches", "random_patches"]


def test_images_are_described_as_the_name_says() -> None:
    assert isinstance(image_features(FeatureSet.PATCHES), PatchFeatures)
    assert isinstance(image_features(FeatureSet.RANDOM_PATCHES), RandomPatchFeatures)
