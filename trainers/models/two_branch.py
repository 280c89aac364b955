"""Two-branch neural collaborative filtering: from a user and a movie to logits of the ratings.

He, Liao, Zhang, Nie, Hu, Chua, "Neural Collaborative Filtering", WWW 2017 (NeuMF). One branch
multiplies the embeddings of both, entry by entry, as matrix factorization does; the other, with
embeddings of its own, is an MLP on them side by side; a linear layer reads both.

>>> network = TwoBranch(cardinalities=(4, 6), width=8, num_classes=5)
>>> network(torch.tensor([[1, 5], [3, 0]])).shape
torch.Size([2, 5])
"""

import torch
from torch import Tensor, nn

#: Of the embeddings' first values: products of two entries must not be lost at once.
_INITIAL_STD = 0.1
#: A batch holds few ratings of any one user, and its mean gradient says little about each. Weights
#: that are a fifth of what they stand for get five times the gradient, and every change of theirs
#: counts five times: 25 times the learning rate of the layers above, which theirs would destroy.
_GAIN = 5.0


class TwoBranch(nn.Module):
    """The network; rows of identifiers [B, 2] in, logits [B, K] out.

    Place 0 of either column is whoever was not seen in training. Its embedding is 0, which is the
    mean of all others when training starts, and stays.
    """

    def __init__(self, *, cardinalities: tuple[int, ...], width: int, num_classes: int) -> None:
        """Draw the weights.

        Args:
            cardinalities: Number of users and of movies, place 0 included.
            width: Of an embedding.
            num_classes: K.

        Raises:
            ValueError: Not two columns.
        """
        super().__init__()
        if len(cardinalities) != 2:
            raise ValueError(
                f"two_branch got {len(cardinalities)} columns of identifiers; it takes two, who "
                "rates and what is rated"
            )
        self.factors = nn.ModuleList(_embedding(count, width) for count in cardinalities)
        self.sides = nn.ModuleList(_embedding(count, width) for count in cardinalities)
        self.hidden = nn.Sequential(
            nn.Linear(2 * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width), nn.ReLU()
        )
        self.head = nn.Linear(2 * width, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map identifiers [B, 2] to logits [B, K]."""
        columns = x.unbind(1)
        user, movie = (_GAIN * table(ids) for table, ids in zip(self.factors, columns, strict=True))
        beside = [_GAIN * table(ids) for table, ids in zip(self.sides, columns, strict=True)]
        branches = (user * movie, self.hidden(torch.cat(beside, dim=1)))
        logits: Tensor = self.head(torch.cat(branches, dim=1))
        return logits


def _embedding(count: int, width: int) -> nn.Embedding:
    table = nn.Embedding(count, width, padding_idx=0)
    with torch.no_grad():
        table.weight[1:].normal_(std=_INITIAL_STD / _GAIN)
    return table
