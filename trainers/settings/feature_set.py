"""Which features are learned from, where a data set's own are not the best for it.

>>> FeatureSet("random_patches")
<FeatureSet.RANDOM_PATCHES: 'random_patches'>
"""

from enum import StrEnum


class FeatureSet(StrEnum):
    """What is learned from: features AS_THEY_ARE, or such as need no labels.

    PATCHES are k-means features of images; RANDOM_PATCHES features of photographs, whose mirror
    images must be as good as they are. Of tables both are standardized columns.
    """

    AS_THEY_ARE = "as_they_are"
    PATCHES = "patches"
    RANDOM_PATCHES = "random_patches"
