"""`labeldp VERB ...`: the table of all commands, their arguments, and where each one is done.

A command names its function by text, and the parameters of the function are the names of its
options. So `--help` imports nothing else, and a command imports at the top of its module what it
needs: SciPy, torch or MLflow, which take up to three seconds.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pkgutil import resolve_name
from typing import Any

import click

from labeldp.platform.cli.command import (
    ExitCode,
    code_of_result,
    perform,
    plain_text,
    run_command,
)

_HERE = "labeldp.platform.cli"


def option(names: str, help: str = "", **more: Any) -> click.Option:
    """Return an option by its names, which blanks separate."""
    return click.Option(names.split(), help=help, **more)


def choice(name: str, values: Sequence[str], help: str = "", **more: Any) -> click.Option:
    """Return an option with one of a few values."""
    return option(name, help, type=click.Choice(values), **more)


def argument(name: str, metavar: str, help: str, **more: Any) -> click.Argument:
    """Return an argument by its place."""
    return click.Argument([name], metavar=metavar, help=help, **more)


number = partial(option, type=float, metavar="X")
whole = partial(option, type=int, metavar="N")
flag = partial(option, is_flag=True)
_required = partial(option, required=True)
_required_number = partial(number, required=True)
_array = partial(option, metavar="FILE[:key]")
_root = option("--root", "folder of the data sets; LABELDP_DATA by default", metavar="DIR")
_device = choice("--device", ("auto", "cpu", "cuda"), default="auto")
_confidence = number("--confidence", default=0.95)

JSON = flag("--json", "print one JSON object")

#: Options that decide which trials a sweep has, and what they may cost.
PLAN_OPTIONS = (
    flag("--smoke", "the small size: minutes on two cores"),
    option(
        "--preset",
        "another size that the sweep has a name for, such as home: full data on two cores",
        metavar="NAME",
    ),
    option(
        "--only",
        "run this line of the comparison and no other, by the beginning of its name; can be given "
        "several times",
        multiple=True,
        metavar="NAME",
    ),
    option(
        "--without",
        "leave out this line of the comparison, such as the baseline without noise; as --only",
        multiple=True,
        metavar="NAME",
    ),
    option("--results", "results folder; a sweep resumes from trials in it", metavar="DIR"),
    number("--max-epsilon-total", "budget of the sweep", metavar="E"),
    whole("--max-trials", "refuse a larger sweep"),
    choice(
        "--choose-by",
        ("test", "estimated"),
        "accuracy that trials are compared by: test by default, where there is a test split; a "
        "search takes estimated, and test only on request",
    ),
    choice(
        "--search",
        ("optuna",),
        "learn from finished trials which settings to try next (docs/search.md)",
    ),
    whole("--trials", "trials of each search; 40 by default"),
    whole("--search-seed", "seed of the search; 0 by default", metavar="S"),
    choice("--stop", ("asha",), "end trials early that fall behind (docs/search.md)"),
    argument(
        "overrides",
        "[key=value]...",
        "change the settings; key=[a,b] makes a grid, 'key=loguniform(a,b)', uniform(a,b) and "
        "choice(a,b) make an axis of random draws or of a search (`labeldp config` lists keys)",
        nargs=-1,
    ),
)

_PURE = number(
    "--delta", "changes nothing: this noise is pure, and its epsilon holds at delta 0 already"
)
_VOTES = option(
    "--votes", "[N, K] counts; leave it out for the price of any votes", metavar="FILE[:key]"
)
_QUERIES = whole(
    "--queries", "number of queries, without --votes; that of the answers by default", metavar="Q"
)
_ACCOUNTING = choice(
    "--accounting",
    ("decision", "counts"),
    "price what is released (decision) or, as published, all noisy counts (counts)",
    default="decision",
)
_AGGREGATORS = ("confident", "gnmax", "lnmax")


class Verb(click.Command):
    """A command of the table.

    Attributes:
        words: Its name, after that of its group if it has one.
        run: `module:function`; the function takes the options by name and returns a dataclass or a
            dict of plain values. A ValueError is the user's mistake.
        code: `module:function` that returns the exit code of a result.
    """

    def __init__(
        self,
        words: str,
        run: str,
        summary: str,
        example: str,
        *params: click.Parameter,
        text: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(
            words.rpartition(" ")[2],
            params=[*params, JSON],
            help=summary,
            short_help=summary,
            epilog=f"Example: {example}",
            callback=self._perform,
        )
        self.words, self.run, self.summary, self.example = words, run, summary, example
        self.text, self.code = text, code

    def _perform(self, json: bool, **given: Any) -> ExitCode:
        def carry_out() -> Any:
            return _function(self.run)(**given)

        def text(result: Any) -> Any:
            return (_function(self.text) if self.text else plain_text)(result)

        def code(result: Any) -> ExitCode:
            found: ExitCode = (_function(self.code) if self.code else code_of_result)(result)
            return found

        return perform(carry_out, json=json, text=text, code=code)


def _function(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = resolve_name(name)
    return found


VERBS = (
    Verb(
        "audit memorization",
        f"{_HERE}.audits:memorization",
        "the paper's attack from saved confidences",
        "labeldp audit memorization --confidences C.npy --canary-labels P.npy --true-labels T.npy",
        _array("--confidences", "[N, K] on the canaries, rows summing to 1", required=True),
        _array("--canary-labels", "[N] planted labels", required=True),
        _array("--true-labels", "[N]", required=True),
        _confidence,
    ),
    Verb(
        "audit moments",
        f"{_HERE}.audits:moments",
        "is the noise of moment labels what is charged?",
        "labeldp audit moments --epsilon 1 --delta 1e-5",
        number("--epsilon", "that is charged", default=1.0),
        number("--delta", "1e-5, the usual one, by default"),
        whole("--canaries", default=2000),
        whole("--classes", default=10, metavar="K"),
        _confidence,
        whole("--seed", "of a repeatable audit"),
    ),
    Verb(
        "audit observational",
        f"{_HERE}.audits:observational",
        "a bound without canaries, given a proxy's error",
        "labeldp audit observational --confidences C.npy --labels Y.npy --proxy Q.npy "
        "--proxy-log-error .2",
        _array("--confidences", "[N, K] of the model", required=True),
        _array("--labels", "[N] that it was trained on", required=True),
        _array("--proxy", "[N, K] of a model that never saw these labels", required=True),
        _required_number(
            "--proxy-log-error",
            "largest |log p - log proxy|, p the law of true labels: an assumption of yours",
            metavar="TAU",
        ),
        _confidence,
        whole("--seed", "of a repeatable audit"),
    ),
    Verb(
        "audit one-run",
        f"{_HERE}.audits:one_run",
        "a valid lower bound from one model",
        "labeldp audit one-run --canaries 1000 --guesses 400 --correct 300",
        whole("--canaries"),
        whole("--guesses"),
        whole("--correct"),
        _array("--scores", "in place of the three counts"),
        _array("--truth", "the secret coins beside --scores"),
        number("--delta", default=0.0),
        _confidence,
        choice(
            "--family",
            ("gaussian", "laplace", "rr", "subset"),
            "also bound epsilon tightly, if noise of this family was put on each label by itself",
        ),
        whole(
            "--classes",
            "of --family rr and subset; 2 is careful for any number",
            default=2,
            metavar="K",
        ),
        flag(
            "--guesses-fixed",
            "--guesses was fixed before any release was seen: a larger bound of --family, and the "
            "only one of gaussian",
        ),
    ),
    Verb(
        "audit vote-leakage",
        f"{_HERE}.audits:vote_leakage",
        "vote histograms from a service's answers",
        "labeldp audit vote-leakage --counts ANSWERS.npy --noise-std 60 --teachers 250",
        _array("--counts", "[N, K] answers", required=True),
        _required_number("--noise-std"),
        whole("--teachers", required=True, metavar="T"),
    ),
    Verb(
        "calibrate gaussian",
        "labeldp.mechanisms.calibration:calibrate_gaussian",
        "gaussian noise for an epsilon",
        "labeldp calibrate gaussian --epsilon 1 --delta 1e-5",
        _required_number("--epsilon"),
        _required_number("--delta"),
    ),
    Verb(
        "calibrate laplace",
        f"{_HERE}.prices:calibrate_laplace",
        "laplace noise for an epsilon",
        "labeldp calibrate laplace --epsilon 2",
        _required_number("--epsilon"),
        _PURE,
    ),
    Verb(
        "calibrate pate",
        f"{_HERE}.prices:calibrate_pate",
        "aggregator noise for an epsilon",
        "labeldp calibrate pate --epsilon 1 --delta 1e-5 --answer 300 --queries 1000",
        _VOTES,
        _required_number("--epsilon"),
        _required_number("--delta"),
        choice(
            "--aggregator", _AGGREGATORS, "confident by default; --votes are for confident alone"
        ),
        _QUERIES,
        whole(
            "--teachers",
            "T, of which the threshold is a share where there are no votes to choose it from",
            metavar="T",
        ),
        _ACCOUNTING,
        whole("--answer", required=True, metavar="K"),
    ),
    Verb(
        "calibrate rr",
        f"{_HERE}.prices:calibrate_rr",
        "rr noise for an epsilon",
        "labeldp calibrate rr --epsilon 2 --classes 10",
        _required_number("--epsilon"),
        whole("--classes", default=10, metavar="K"),
        _PURE,
    ),
    Verb(
        "config",
        f"{_HERE}.config_keys:config",
        "every configuration key: type, default, bounds, meaning",
        "labeldp config alibi --match epsilon",
        argument("method", "[METHOD]", "its keys only, such as alibi", required=False),
        option("--match", "only keys and meanings with this text", metavar="TEXT"),
        text=f"{_HERE}.config_keys:words",
    ),
    Verb(
        "data check",
        f"{_HERE}.data_sets:check",
        "verify one, or see what is in a file of your own",
        "labeldp data check FILE.csv --label-column bought --classes no,yes --hold-out none",
        argument(
            "name",
            "[NAME|FILE]",
            "a data set, or a file of your own: .csv, .parquet, .npz, .npy; all options but --root "
            "are of such a file, which is read as a sweep would read it",
            required=False,
        ),
        _root,
        option("--features", "the same as FILE", metavar="X.npy"),
        option("--labels", "of features in an .npy", metavar="y.npy"),
        option("--label-column", "of a table; label by default", metavar="NAME"),
        option("--split-column", "holds train or test; split by default", metavar="NAME"),
        option("--drop", "columns to leave out", metavar="A,B,..."),
        option("--keep", "columns that look like identifiers and are features", metavar="A,B,..."),
        option("--test", "rows for testing; their labels are public", metavar="FILE"),
        option("--test-labels", "of rows for testing in an .npy", metavar="t.npy"),
        choice(
            "--hold-out",
            ("public", "none"),
            "without a test split: publish one label in five, or none",
        ),
        whole("--seed", "decides which rows --hold-out public takes", default=0),
        option("--classes", "how many, or their names in order", metavar="K|A,B,..."),
        text=f"{_HERE}.data_sets:check_words",
    ),
    Verb(
        "data fetch",
        f"{_HERE}.data_sets:fetch_set",
        "get a data set",
        "labeldp data fetch cifar100",
        argument("name", "NAME", "a data set of `labeldp data list`"),
        _root,
    ),
    Verb(
        "data list",
        f"{_HERE}.data_sets:list_sets",
        "what there is",
        "labeldp data list",
        _root,
        text=f"{_HERE}.data_sets:list_words",
    ),
    Verb(
        "doctor",
        f"{_HERE}.doctor:examine",
        "versions, devices, Ray, tracking, data sets; what is missing",
        "labeldp doctor",
        text=f"{_HERE}.doctor:words",
    ),
    Verb(
        "embed",
        f"{_HERE}.encoders:embed",
        "vectors of images by a public encoder, for private training on them",
        "labeldp embed cifar10 --encoder torchvision:resnet18 -o cifar10-resnet18.npy",
        argument(
            "source", "SOURCE", "a folder of images, an .npz or .npy of them, or a data set's name"
        ),
        _required(
            "--encoder",
            "torchvision:NAME, timm:NAME, huggingface:NAME or :FOLDER, module:function, or "
            "pretrained:NAME, which is trained here on a data set with public labels",
            metavar="E",
        ),
        _required(
            "-o --to --out out",
            "features are written there; FILE.npy.json beside them records the encoder",
            metavar="FILE.npy",
        ),
        option(
            "--weights",
            "a file, random, or the library's name for them; the library's own by default",
            metavar="W",
        ),
        whole("--image-size", "side of the square that images become; the encoder's by default"),
        choice("--pool", ("cls", "mean"), "of a sequence of vectors: the first, or the mean"),
        option(
            "--trained-on",
            "training data of the weights; shown with every result",
            default="",
            metavar="TEXT",
        ),
        option("--trained-by", "by whom", default="", metavar="TEXT"),
        flag(
            "--no-outside-data",
            "the weights have seen nothing but these images, and no secret label of theirs",
        ),
        flag("--public-labels", "the labels of pretrained:NAME are nobody's secret"),
        flag("--half", "write half precision"),
        flag("--replace", "replace a file that is there"),
        whole("--batch-size", "images at a time", default=256),
        whole("--seed", "of random weights, and of an encoder that is trained here", default=0),
        _device,
        _root,
    ),
    Verb(
        "epsilon gaussian",
        "labeldp.mechanisms.calibration:price_gaussian",
        "Gaussian noise on one-hot labels",
        "labeldp epsilon gaussian --noise-std 5.3 --delta 1e-5",
        _required_number("--noise-std"),
        _required_number("--delta"),
    ),
    Verb(
        "epsilon laplace",
        "labeldp.mechanisms.calibration:price_laplace",
        "Laplace noise on one-hot labels",
        "labeldp epsilon laplace --scale 1",
        number("--scale", "of the noise; give this or --noise-std", metavar="B"),
        number("--noise-std", "B * sqrt 2", metavar="S"),
    ),
    Verb(
        "epsilon pate",
        f"{_HERE}.prices:epsilon_pate",
        "answers of a teacher ensemble",
        "labeldp epsilon pate --aggregator confident --sigma1 200 --sigma2 40 --queries 1000 "
        "--answer 300 --delta 1e-5",
        _VOTES,
        choice("--aggregator", _AGGREGATORS, required=True),
        number("--sigma1"),
        number("--threshold"),
        _required_number(
            "--sigma2",
            "of the noise on every count of an answer: its standard deviation; of lnmax the "
            "Laplace scale, which is a sweep's trainer.sigma2 divided by sqrt 2",
        ),
        _required_number("--delta"),
        _QUERIES,
        choice("--conversion", ("improved", "mironov"), default="improved"),
        _ACCOUNTING,
        whole("--answer", "stop after so many answers; needed without --votes", metavar="K"),
        whole("--seed", "of the realised answers"),
    ),
    Verb(
        "epsilon rr",
        f"{_HERE}.prices:epsilon_rr",
        "randomized response",
        "labeldp epsilon rr --keep-probability .7 --classes 10",
        _required_number("--keep-probability"),
        whole("--classes", required=True, metavar="K"),
    ),
    Verb(
        "epsilon select",
        "labeldp.mechanisms.selection:selection_price",
        "picking the best of a random number of trials",
        "labeldp epsilon select --epsilon 1 --mean-trials 10 --distribution geometric",
        _required_number("--epsilon", "of one trial"),
        _required_number("--mean-trials"),
        number("--delta", default=0.0),
        number("--trial-delta", default=0.0),
        choice("--distribution", ("geometric", "logarithmic", "poisson"), required=True),
    ),
    Verb(
        "ledger",
        "labeldp.platform.report.ledger_words:ledger_report",
        "what was released of labels, when and at what price, over several folders",
        "labeldp ledger results/quickstart --csv ledger.csv",
        argument(
            "folders",
            "FOLDER...",
            "results of a sweep",
            nargs=-1,
            required=True,
            type=click.Path(exists=True, file_okay=False),
        ),
        option("--csv", "write every line to this table", metavar="FILE"),
        number("--delta", "at which epsilon is stated; the trials' by default", metavar="D"),
        text=f"{_HERE}.reports:ledger_words",
    ),
    Verb(
        "plan",
        f"{_HERE}.sweep_plan:plan",
        "a sweep's trials and cost; starts nothing",
        "labeldp plan sweeps/quickstart.py trainer.epochs=5",
        argument(
            "sweep",
            "SWEEP.py",
            "a file of sweeps/, or one of your own",
            type=click.Path(exists=True),  # its kind is checked where it is read
        ),
        *PLAN_OPTIONS,
        option("--config", "settings, below key=value", metavar="FILE.yaml"),
        text=f"{_HERE}.sweep_plan:words",
        code=f"{_HERE}.sweep_plan:code",
    ),
    Verb(
        "predict",
        f"{_HERE}.models:predict",
        "classes and probabilities of raw rows, by a kept model",
        "labeldp predict results/quickstart --trial HASH ROWS.npz -o predictions.parquet",
        argument("model", "MODEL", "folder of a model, or of a sweep's results (with --trial)"),
        argument(
            "data", "DATA", "rows as the training file had them: .parquet, .csv, .npy, .npz[:key]"
        ),
        _required(
            "-o --out out", "predictions are written there: .parquet or .csv", metavar="FILE"
        ),
        option(
            "--trial",
            "which trial of the results, by its hash or how that begins",
            metavar="HASH",
        ),
        text=f"{_HERE}.models:prediction_words",
    ),
    Verb(
        "publish",
        f"{_HERE}.models:publish",
        "write a folder that can be published: a model, its card and its ledger",
        "labeldp publish results/quickstart --trial best --at-epsilon 1 --to public",
        argument(
            "results",
            "RESULTS",
            "results folder of a sweep",
            type=click.Path(exists=True, file_okay=False),
        ),
        _required(
            "--trial",
            "the beginning of a trial's hash, or best: the most accurate private one",
            metavar="T",
        ),
        _required("--to", "folder to write", metavar="FOLDER"),
        number("--at-epsilon", "the most that the best trial may cost", metavar="E"),
        choice("--choose-by", ("test", "estimated"), "accuracy that decides on the best"),
        choice(
            "--accept",
            ("failed", "non-private", "seeded"),
            "confirm that such a trial is meant",
            multiple=True,
        ),
        flag("--without-model", "leave the model out"),
        text=f"{_HERE}.models:published_words",
    ),
    Verb(
        "report",
        f"{_HERE}.reports:report",
        "HTML page, Pareto plot and CSV of a results folder or a tracked sweep",
        "labeldp report results/quickstart",
        argument(
            "experiment",
            "FOLDER|EXPERIMENT",
            "results folder, or name of a tracked experiment",
        ),
        option(
            "--tracking-uri",
            "tracking store of the experiment; the sweep's by default",
            metavar="U",
        ),
        option(
            "--out",
            "folder to write to; the results folder by default, of an experiment this folder",
            metavar="DIR",
        ),
        choice(
            "--edition",
            ("owner", "public"),
            "for the owner of the labels, or for the public, in a folder of its own",
            default="owner",
        ),
        text=f"{_HERE}.reports:report_words",
    ),
    Verb(
        "self-supervise",
        f"{_HERE}.encoders:self_supervise",
        "train an encoder on images alone, without labels, some minutes at a time",
        "labeldp self-supervise cifar10 --minutes 30 -o encoder.pt",
        argument(
            "source",
            "IMAGES",
            "an .npz or .npy of images, a folder of images of one size, or a data set's name",
        ),
        _required(
            "-o --out out",
            "the encoder is written there; the next call continues from FILE.pt.state beside it",
            metavar="FILE.pt",
        ),
        choice(
            "--model",
            ("fast_cnn", "resnet18", "wide_resnet28", "small_cnn"),
            "the network",
            default="fast_cnn",
        ),
        whole("--width", "its width; the network's own by default"),
        whole("--epochs", "passes over the images", default=100),
        whole("--batch-size", "images in a step", default=512),
        number(
            "--learning-rate", "highest learning rate; that of the settings by default", metavar="R"
        ),
        flag("--no-flip", "never mirror images: for digits and letters"),
        number(
            "--minutes",
            "stop after the epoch in which so many minutes are over; call again to continue",
            metavar="M",
        ),
        whole("--seed", "of initial weights, order and views", default=0),
        _device,
        choice("--precision", ("auto", "fp32", "bf16"), default="auto"),
        flag("--replace", "start anew in place of what is there"),
        _root,
        text=f"{_HERE}.encoders:pretrained_words",
    ),
    Verb(
        "ui",
        f"{_HERE}.tracking_server:serve",
        "tracking pages of a results folder, on this machine, until Ctrl-C",
        "labeldp ui results/quickstart",
        argument("results", "RESULTS", "a results folder"),
        whole("--port", "5000 by default, or one that is free", metavar="P"),
    ),
)

_GROUPS = {
    "audit": "how private it is really",
    "calibrate": "the noise for a target epsilon",
    "data": "data sets",
    "epsilon": "what a setting costs",
}


def command() -> click.Group:
    """Return the whole command line."""
    groups = {name: click.Group(name, help=summary) for name, summary in _GROUPS.items()}
    own = [verb for verb in VERBS if " " not in verb.words]
    for verb in VERBS:
        if verb not in own:
            groups[verb.words.partition(" ")[0]].add_command(verb)
    return click.Group(
        "labeldp",
        commands=[*groups.values(), *own],
        help="Label differential privacy: what it costs, how accurate, how leaky.",
        context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, which `ExitCode` explains."""
    given = sys.argv[1:] if arguments is None else arguments
    return run_command(command(), given, program="labeldp")


if __name__ == "__main__":
    sys.exit(main())
