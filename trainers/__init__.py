"""Data, features, models, augmentation and training loops: one process, torch and no Ray.

`settings` has what can be set, `methods` what each method trains, `models` networks, features and
optimization, `data` features and labels, `encoders` encoders of images. The protocols of a method
are in `trainer`. Names are imported from their modules.
"""
