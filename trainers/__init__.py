"""Data, features, models, augmentation and training loops: one process, torch and no Ray."""
