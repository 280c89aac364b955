"""A figure for a paper: `python examples/paper_figure.py RESULTS FIGURE.pdf`.

It shows test accuracy and the epsilon_m that the attack proves against epsilon, a line for each
method of a finished sweep, such as `results/quickstart` of `make demo`.
"""

import sys

from matplotlib import pyplot

import labeldp


def main(results: str, figure: str) -> None:
    """Draw two panels of a column's width."""
    table = labeldp.load(results).table()
    table = table[table["epsilon"] > 0]
    shown, (above, below) = pyplot.subplots(2, sharex=True, figsize=(3.3, 4), layout="constrained")
    for name, rows in table.groupby("variant"):
        line = rows.groupby("epsilon")[["accuracy", "epsilon_m_low"]].mean()
        above.plot(line["accuracy"], marker="o", label=name)
        below.plot(line["epsilon_m_low"], marker="o")
    below.plot(below.get_xlim(), below.get_xlim(), color="gray", linestyle="--")  # the guarantee
    above.set(ylabel="test accuracy")
    above.legend(fontsize="small")
    below.set(xlabel="epsilon", ylabel="epsilon_m, at least")
    shown.savefig(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
