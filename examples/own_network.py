"""A network of your own in a sweep: `python examples/own_network.py`.

labeldp constructs it with the shape of one example and the number of classes. Here is also its
module: a sweep names the class as `own_network:TwoLayers`.
"""

import math
from pathlib import Path

from torch import nn

import labeldp


class TwoLayers(nn.Sequential):
    """Logits [B, K] of a batch [B, *input_shape], through one hidden layer."""

    def __init__(self, *, input_shape: tuple[int, ...], num_classes: int) -> None:
        hidden = nn.Linear(math.prod(input_shape), 64)
        super().__init__(nn.Flatten(), hidden, nn.GELU(), nn.Linear(64, num_classes))


def main(results: str = "results/own_network") -> None:
    """Train it at three epsilons on handwritten digits, and print the table."""
    model = f"{Path(__file__).stem}:{TwoLayers.__name__}"
    done = labeldp.run(
        {"trainer.model": model, "trainer.epochs": 20},
        overrides={"trainer.epsilon": [1.0, 2.0, 4.0]},
        results=results,
    )
    print(done.table()[["epsilon", "accuracy"]])


if __name__ == "__main__":
    main()
