"""How a run can end before its time, as errors that need nothing heavy to be told apart."""


class CannotFit(RuntimeError):
    """A placement that the cluster can never hold; the message says what is missing."""


class Unfinished(RuntimeError):
    """Not all was done that could have been; what is done is kept, and goes on when run again."""
