"""Networks, features, predictors and what trains them."""
