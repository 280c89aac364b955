"""The data sets: what there is, where it comes from, how it is read."""
