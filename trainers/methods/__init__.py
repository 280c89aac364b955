"""Methods: each is its settings and a trainer."""
