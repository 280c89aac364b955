"""Methods: each has settings, which load no torch, and a trainer, which they start."""
