"""A random search whose winner alone is kept: `python examples/secret_trials.py`.

Tell nobody how many trials there were: the discount holds for a secret random number of them.
"""

import warnings

import numpy as np
from sklearn.datasets import load_digits

from labeldp import LabelPrivateClassifier, PrivacyAddsUp
from labeldp.mechanisms.selection import selection_price

warnings.simplefilter("ignore", PrivacyAddsUp)  # the sum, in whose place the discount holds
images, digits = load_digits(return_X_y=True)
generator = np.random.default_rng()
score = -1.0
for _ in range(generator.geometric(1 / 4)):  # four trials on average
    settings = {"temperature": generator.uniform(0.3, 1.0), "epochs": 12}
    model = LabelPrivateClassifier("lp_2st", epsilon=2, classes=range(10), settings=settings)
    model.fit(images[:1200], digits[:1200])
    right = model.score(images[1200:], digits[1200:])  # public labels
    if right > score:
        score = right
        winner = model
price = selection_price(epsilon=2.0, mean_trials=4, distribution="geometric")
print(f"one trial costs {winner.epsilon_:g}, the search {price:.2f}; four known trials cost 8")
assert winner.epsilon_ == 2 and round(price, 2) == 4.77
