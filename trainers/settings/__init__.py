"""Settings of every method: values, bounds, meanings and prices, without torch.

`base` has the decorator and types, `training` networks and their training, `methods` all methods
but PATE, and `pate` PATE.
"""
