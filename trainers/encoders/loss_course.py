"""What the losses of all epochs say of an encoder, in words: only where they say it is no good.

An encoder that says the same of every image has a loss that can be written down: both views agree,
nothing covaries, and what is left is the price of numbers that do not vary. A loss above it is that
of an encoder from which nothing can be told, whatever it was before.

>>> concern([21.0, 18.6, 16.4], variance=25.0)
>>> concern([21.0, 21.5], variance=25.0).partition(":")[0]
'the loss does not fall'
>>> concern([22.0, 24.75], variance=25.0).partition(":")[0]
'the encoder says hardly anything'
"""

from collections.abc import Sequence

from labeldp.trainers.encoders.vicreg import loss_of_constant

#: In single precision, and over steps that are not all alike.
_ALMOST = 0.99
_CAUSE = (
    "a learning rate that is too high is the likely cause, or a batch of too few images: lower "
    "--learning-rate (to a third, say) or raise --batch-size, and start anew with --replace"
)


def concern(losses: Sequence[float], *, variance: float) -> str | None:
    """Return what is wrong with the losses, its likely cause and the way out; None if nothing is.

    Args:
        losses: Of every epoch so far, in order; of fewer than two nothing can be said.
        variance: Weight of the variance in the loss, see `SelfSupervisedConfig`.
    """
    if len(losses) < 2:
        return None
    first, last, count = losses[0], losses[-1], len(losses)
    lowest = min(losses)
    constant = loss_of_constant(variance=variance)
    if 0 < _ALMOST * constant <= last:
        return (
            f"the encoder says hardly anything: its loss is {last:.6g} in epoch {count}, and one "
            f"that says the same of every image has {constant:.6g}; {_CAUSE}"
        )
    # Half of what it had fallen by is lost again, or it has never fallen.
    if last >= (first + lowest) / 2:
        return (
            f"the loss does not fall: it was {first:.6g} in epoch 1, {lowest:.6g} at its lowest in "
            f"epoch {losses.index(lowest) + 1}, and is {last:.6g} in epoch {count}; {_CAUSE}"
        )
    return None
