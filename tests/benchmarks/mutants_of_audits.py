"""Mutants on what audits prove, and on costs that are published: bounds that would say too much."""

from tests.benchmarks.mutant import Mutant

AUDITS = (
    Mutant(
        "the best of several tight bounds is free",
        "tight_one_run",
        "each = 1 - (1 - confidence) / max(1, len(counts))",
        "each = confidence",
        ("tight_one_run",),
    ),
    Mutant(
        "the surest are taken for as unsure as all",
        "tight_one_run",
        "mean_error(channel, 1 - less_sure)",
        "mean_error(channel, np.ones_like(less_sure))",
        ("tight_one_run",),
    ),
    Mutant(
        "a channel with half of the other label's answers",
        "label_channels",
        "wrong = self.informative / (1 + math.exp(self.largest))",
        "wrong = self.informative / (2 + 2 * math.exp(self.largest))",
        ("label_channels",),
    ),
    Mutant(
        "Laplace noise on one entry only",
        "label_channels",
        "between = 0.75 - np.exp(-rest / 2) * (0.75 + rest / 8)",
        "between = 0.75 - np.exp(-rest / 2) * (0.75 + rest / 4)",
        ("label_channels",),
    ),
    Mutant(
        "two releases audited as one",
        "release_figures",
        "if len(lines) != 1:",
        "if not lines:",
        ("release_figures",),
    ),
    Mutant(
        "the proxy's error is no slack",
        "observational",
        "slack = 2 * proxy_log_error",
        "slack = 0.0",
        ("observational",),
    ),
    Mutant(
        "half of the slack",
        "observational",
        "slack = 2 * proxy_log_error",
        "slack = proxy_log_error",
        ("observational",),
    ),
    Mutant(
        "equal labels are told apart",
        "observational",
        "differ = drawn != true",
        "differ = np.ones(len(true), dtype=bool)",
        ("observational",),
    ),
    Mutant(
        "moments in floating point",
        "randomness",
        "exact = isinstance(noise, OsEntropy) and isinstance(mechanism, DrawnExactly)",
        "exact = False",
        ("vault",),
    ),
    Mutant(
        "published costs: no distance but the first",
        "two_class_costs",
        "        np.maximum(wider[1:], worst[:-1], out=wider[1:])\n",
        "",
        ("two_class_costs",),
    ),
    Mutant(
        "published costs: checks are forgotten",
        "two_class_costs",
        "return self.answers, self.checks",
        "return self.answers, np.zeros_like(self.checks)",
        ("two_class_costs",),
    ),
    Mutant(
        "published costs: only what was answered was checked",
        "two_class_costs",
        "zip(self._parts, (count[answered], count), strict=True)",
        "zip(self._parts, (count[answered], count[answered]), strict=True)",
        ("two_class_costs",),
    ),
)
