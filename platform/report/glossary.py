"""The words of a report that stop a newcomer, in plain ones."""

#: Word -> what it means. Pages link to them by the word.
GLOSSARY = {
    "epsilon": (
        "How much anybody can learn about one training label at most, whatever they know and "
        "whatever they try: changing that label makes nothing more than e^epsilon times as "
        "likely. Proven. Smaller is stricter; at 1 a label is well hidden, at 8 hardly; 0 tells"
        " nothing, infinite protects nothing."
    ),
    "delta": (
        "The chance that epsilon's promise does not hold; 0 is the strictest, a promise without"
        " exception."
    ),
    "epsilon_m": (
        "What an attack really got out of the trained model. Its lower end is proven by the "
        "attack, with the stated confidence; 0 means that it proved nothing, not that there is "
        "no leak."
    ),
    "ceiling": (
        "The most that the attack could have proved with so many canaries if everything leaked."
    ),
    "canary": (
        "A training label that was replaced at random on purpose. Nobody can guess it without "
        "the model, so what an attack knows of it came through the model. Canaries are wrong "
        "labels: many of them cost accuracy."
    ),
    "release": (
        "What a mechanism made of labels, by adding noise or otherwise: all that training sees "
        "of them. It is drawn once, kept, and paid for once, however many trials read it."
    ),
    "vault": (
        "The one place that holds the true labels; only releases leave it. It lives in the "
        "vault's home, a process of its own."
    ),
    "ledger": "The list of all releases with their prices. It adds up what each label has paid.",
    "accuracy": (
        "Share of the public test split's labels that the model predicts right, after its last "
        "epoch."
    ),
    "estimated accuracy": (
        "Accuracy on labels that were held out of the training, from noisy counts that are paid"
        " for; the test split, if there is one, is not looked at."
    ),
    "trial": "One training run with one setting of everything.",
    "seed": (
        "Number that decides a training run's randomness (first weights, order). Trials that "
        "differ in it alone share a row, and show how much is luck."
    ),
    "league": (
        "What the features that a model sees were made with. No outside data: with nothing but "
        "the data set itself. Public encoder: with a network that was trained on other images. "
        "Results of different leagues can't be compared."
    ),
    "Pareto front": (
        "Rows that no other row beats: none is as accurate for a smaller epsilon. They are "
        "marked in the table, and are the staircase in the figure."
    ),
    "no privacy": (
        "A baseline that is trained on the true labels, to see what privacy costs. It publishes"
        " what it learned of them."
    ),
    "noise": (
        "Where a trial's randomness for privacy came from. Secure: drawn exactly, on a lattice."
        " Plain: floating-point numbers, whose last bits may tell more than epsilon says. "
        "Seeded: repeatable, and no protection towards who knows the seed."
    ),
    "consensus": "How many of the teachers gave the answer that most of them gave.",
    "k*": (
        "Of how many classes randomized response picks one: those that the model of the stage "
        "before finds likeliest. Few mean that it is sure, and that more labels stay as they "
        "are."
    ),
    "one-run audit": (
        "An attack on labels that were chosen by coins, one of two wrong ones each (coin "
        "canaries): it proves an epsilon from a single training run."
    ),
    "as published": (
        "Computed as the paper that invented the attack does: an estimate. The corrected figure"
        " is a proven bound."
    ),
}


def anchor(word: str) -> str:
    """Return the name that pages link to a word by."""
    return "word-" + "".join(c if c.isalnum() else "-" for c in word)
