"""Tests of platform/search."""
