"""Fixtures of tests of sweeps."""

from tests.sweeps.front_door import door as door
