"""Virtual adversarial training: predictions that hold still where they would change the most.

Miyato, Maeda, Koyama and Ishii, "Virtual Adversarial Training", IEEE TPAMI 2018, with entropy
minimization (Grandvalet and Bengio 2004): the student of the semi-supervised runs of PATE 2018. A
step adds three losses: cross-entropy on labels; on all examples, the divergence of predictions at
the direction that one power iteration finds; and their entropy. Examples without a label are
public, so all but the labels is free.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from labeldp.trainers.methods.fixmatch import FewLabels
from labeldp.trainers.settings.training import VatConfig

#: Length of the step that the power iteration looks along, as a share of the radius.
_PROBE = 0.1


def adversarial_divergence(
    forward: Callable[[Tensor], Tensor],
    inputs: Tensor,
    logits: Tensor,
    *,
    radius: float,
    generator: torch.Generator,
) -> Tensor:
    """Return the mean KL divergence of predictions at the worst perturbation from those given.

    `logits` [B, K] are those of `inputs` [B, ...], and no gradient flows through them. `radius` is
    the root mean square of the perturbation's numbers.
    """
    expected = logits.detach().log_softmax(1)

    def moved(perturbation: Tensor) -> Tensor:
        found = forward(inputs + perturbation).log_softmax(1)
        return functional.kl_div(found, expected, reduction="batchmean", log_target=True)

    direction = torch.randn(inputs.shape, generator=generator).to(inputs.device)
    probe = _of_size(direction, _PROBE * radius).requires_grad_()
    (steepest,) = torch.autograd.grad(moved(probe), probe)
    return moved(_of_size(steepest, radius))


def entropy(logits: Tensor) -> Tensor:
    """Return the mean entropy of predictions [B, K], in nats."""
    return -(logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()


def _of_size(direction: Tensor, size: float) -> Tensor:
    """The same direction of each example, with numbers of this root mean square."""
    norms: Tensor = torch.linalg.vector_norm(direction.flatten(1), dim=1)
    # A gradient of 0, where the network is flat, stays 0.
    norms = norms.clamp_min(torch.finfo(norms.dtype).tiny).view(-1, *[1] * (direction.ndim - 1))
    moved: Tensor = size * math.sqrt(direction[0].numel()) * direction / norms
    return moved


class Vat(FewLabels):
    """A network that is trained on some labels and all examples, by perturbing these."""

    config: VatConfig

    def _loss(self, step: int) -> Tensor:
        config = self.config
        chosen, others = self._next(step)
        labeled = self._logits(self._inputs(self._features[self._rows[chosen]]))
        unlabeled = self._inputs(self._features[others])
        # By themselves, so that batch statistics are those of the perturbed.
        logits = self._logits(unlabeled)
        divergence = adversarial_divergence(
            self._logits, unlabeled, logits, radius=config.radius, generator=self._generator
        )
        free = config.unlabeled_weight * divergence + entropy(logits)
        return functional.cross_entropy(labeled, self._labels[chosen]) + free

    def _inputs(self, examples: Tensor) -> Tensor:
        pixels = self._predictor.pixels
        return examples if pixels is None else pixels.normalized(examples)
