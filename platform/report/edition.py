"""Who a page is for."""

from enum import StrEnum


class Edition(StrEnum):
    """For the OWNER of the labels, or PUBLIC: without what was made of true labels or canaries."""

    OWNER = "owner"
    PUBLIC = "public"
