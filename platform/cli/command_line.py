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


def option(names: str, help: str = "", metavar: str | None = None, **more: Any) -> click.Option:
    """Return an option by its names, which blanks separate."""
    return click.Option(names.split(), help=help, metavar=metavar, **more)


def choice(name: str, values: Sequence[str], help: str = "", **more: Any) -> click.Option:
    """Return an option with one of a few values."""
    return option(name, help, type=click.Choice(values), **more)


def argument(name: str, metavar: str, help: str, **more: Any) -> click.Argument:
    """Return an argument by its place."""
    return click.Argument([name], metavar=metavar, help=help, **more)


number = partial(option, type=float)
whole = partial(option, type=int)
flag = partial(option, is_flag=True)
_array = partial(option, metavar="FILE[:key]")
_FOLDER = click.Path(exists=True, file_okay=False)
_DEVICE = choice("--device", ("auto", "cpu", "cuda"), default="auto")
_CONFIDENCE = number("--confidence", "of the bound", default=0.95)
_EPSILON = number("--epsilon", "price that a label pays", required=True)
_DELTA = number("--delta", "at which epsilon holds", required=True)
_SEED = whole("--seed", "makes the noise repeatable")
_SCORES = "roc_auc average_precision lift log_loss brier_score calibration_error".split()
_SCORES += ["mean_squared_error", "mean_absolute_error"]
_CHOOSE_BY = choice(
    "--choose-by",
    ("test", "estimated", *_SCORES, *(f"{name}_estimated" for name in _SCORES), "relative_error"),
    "figure that compares trials: test or estimated accuracy, roc_auc, log_loss_estimated ...",
    metavar="FIGURE",
)
_PURE = number("--delta", "changes nothing: this noise is pure and holds at delta 0 already")
_VOTES = _array("--votes", "[N, K] vote counts; without them the price for any votes")
_QUERIES = whole("--queries", "checked queries, without --votes; the number of answers by default")
_AGGREGATORS = ("confident", "gnmax", "lnmax")
_ACCOUNTINGS = ("decision", "counts")
_ACCOUNTING = choice(
    "--accounting", _ACCOUNTINGS, "price the decisions, or all counts", default="decision"
)
_RESERVATIONS = ("failed", "non-private", "seeded")
_NETWORKS = ("fast_cnn", "resnet18", "wide_resnet28", "small_cnn")
_FAMILIES = ("gaussian", "laplace", "rr", "subset")

_SINGLE = ("subset", "randomized_response", "laplace")
_ESTIMATOR = option(
    "--estimator", "boosting (the default), logistic, lightgbm or xgboost", metavar="NAME"
)
_NODES = option(
    "--address", "Ray cluster whose nodes take the parts; all see the files", "HOST:PORT"
)
_OUT = option("-o --out out", "a new folder", "DIR", required=True)

JSON = flag("--json", "print one JSON object")

#: Options that decide which trials a sweep has, and what they may cost.
PLAN_OPTIONS = (
    flag("--smoke", "run a small size: minutes on two cores"),
    option("--preset", "another size of the sweep, such as home: full data on two cores", "NAME"),
    option("--only", "run methods whose names begin so; can be repeated", "NAME", multiple=True),
    option("--without", "leave out methods whose names begin so; can be repeated", multiple=True),
    option("--results", "results folder; a sweep resumes from the trials in it", "DIR"),
    number("--max-epsilon-total", "refuse a sweep that costs more"),
    _CHOOSE_BY,
    choice("--search", ("optuna",), "choose settings from finished trials (docs/search.md)"),
    whole("--trials", "trials of each search; 40 by default"),
    whole("--search-seed", "seed of the search; 0 by default"),
    choice("--stop", ("asha",), "stop trials that fall behind (docs/search.md)"),
    argument(
        "overrides",
        "[key=value]...",
        "settings (`labeldp config` lists them); key=[a,b] makes a grid; 'key=loguniform(a,b)', "
        "uniform(a,b) and choice(a,b) are drawn at random, or by --search",
        nargs=-1,
    ),
)


class Verb(click.Command):
    """A command of the table.

    Attributes:
        words: Its name, after that of its group if it has one.
        run: `module:function` of this folder; the function takes the options by name and returns
            an `Answer` or its facts. A ValueError is the user's mistake.
        example: A command line.
    """

    def __init__(
        self, words: str, run: str, summary: str, arguments: str, *params: click.Parameter
    ) -> None:
        self.words, self.run, self.summary = words, run, summary
        self.example = f"labeldp {words} {arguments}".strip()
        super().__init__(
            words.rpartition(" ")[2],
            params=[*params, JSON],
            help=summary,
            short_help=summary,
            epilog=f"Example: {self.example}",
            callback=self._perform,
            # A sweep's own options follow its name.
            context_settings={"allow_interspersed_args": words != "sweep"},
        )

    @property
    def function(self) -> Callable[..., Any]:
        """Import its function."""
        found: Callable[..., Any] = resolve_name(f"labeldp.platform.cli.{self.run}")
        return found

    def _perform(self, json: bool, **given: Any) -> int:
        perform = resolve_name("labeldp.platform.cli.command:perform")
        return int(perform(lambda: self.function(**given), json=json))


VERBS = (
    Verb(
        "audit memorization",
        "audits:memorization",
        "run the memorization attack on saved confidences",
        "--confidences C.npy --canary-labels P.npy --true-labels T.npy",
        _array("--confidences", "[N, K] on the canaries; rows sum to 1", required=True),
        _array("--canary-labels", "[N] planted labels", required=True),
        _array("--true-labels", "[N] true labels", required=True),
        _CONFIDENCE,
    ),
    Verb(
        "audit moments",
        "audits:moments",
        "measure the noise of moment labels against its charge",
        "--epsilon 1 --delta 1e-5",
        number("--epsilon", "charged epsilon", default=1.0),
        number("--delta", default=1e-5),
        whole("--canaries", "number of simulated canaries", default=2000),
        whole("--classes", default=10),
        _CONFIDENCE,
        _SEED,
    ),
    Verb(
        "audit observational",
        "audits:observational",
        "bound epsilon without canaries, given a proxy's error",
        "--confidences C.npy --labels Y.npy --proxy Q.npy --proxy-log-error .2",
        _array("--confidences", "[N, K] confidences of the model", required=True),
        _array("--labels", "[N] labels that it was trained on", required=True),
        _array(
            "--proxy", "[N, K] confidences of a model that never saw these labels", required=True
        ),
        number(
            "--proxy-log-error",
            "assumed largest |log p - log proxy|; p is the true law",
            required=True,
        ),
        _CONFIDENCE,
        _SEED,
    ),
    Verb(
        "audit one-run",
        "audits:one_run",
        "prove a lower bound on epsilon from one model",
        "--canaries 1000 --guesses 400 --correct 300",
        whole("--canaries", "number of coins"),
        whole("--guesses", "number of guessed coins"),
        whole("--correct", "number of right guesses"),
        _array("--scores", "[N] a score for each coin, in place of the three counts"),
        _array("--truth", "[N] the secret coins, with --scores"),
        number("--delta", default=0.0),
        _CONFIDENCE,
        choice("--family", _FAMILIES, "assume this noise on each label, for a tighter bound"),
        whole("--classes", "with --family rr or subset; 2 is valid for any number", default=2),
        flag("--guesses-fixed", "--guesses was fixed before any release; gaussian requires it"),
    ),
    Verb(
        "audit vote-leakage",
        "audits:vote_leakage",
        "reconstruct vote histograms from a service's answers",
        "--counts ANSWERS.npy --noise-std 60 --teachers 250",
        _array("--counts", "[N, K] answers", required=True),
        number("--noise-std", "standard deviation of the noise", required=True),
        whole("--teachers", "number of teachers", required=True),
    ),
    Verb(
        "calibrate gaussian",
        "prices:calibrate_gaussian",
        "compute Gaussian noise for an epsilon",
        "--epsilon 1 --delta 1e-5",
        _EPSILON,
        _DELTA,
    ),
    Verb(
        "calibrate laplace",
        "prices:calibrate_laplace",
        "compute Laplace noise for an epsilon",
        "--epsilon 2",
        _EPSILON,
        _PURE,
    ),
    Verb(
        "calibrate pate",
        "prices:calibrate_pate",
        "compute PATE's noise for an epsilon",
        "--epsilon 1 --delta 1e-5 --answer 300 --queries 1000",
        _VOTES,
        _EPSILON,
        _DELTA,
        choice("--aggregator", _AGGREGATORS, "only confident with --votes", default="confident"),
        _QUERIES,
        whole("--teachers", "number of teachers, for the threshold; without --votes"),
        _ACCOUNTING,
        whole("--answer", "number of answers", required=True),
    ),
    Verb(
        "calibrate rr",
        "prices:calibrate_rr",
        "compute randomized response for an epsilon",
        "--epsilon 2 --classes 10",
        _EPSILON,
        whole("--classes", default=10),
        _PURE,
    ),
    Verb(
        "calibrate subset",
        "prices:calibrate_subset",
        "compute subset selection for an epsilon: size of a set, nats that it carries",
        "--epsilon 2 --classes 100",
        _EPSILON,
        whole("--classes", default=10),
        _PURE,
    ),
    Verb(
        "config",
        "config_keys:config",
        "list configuration keys: type, default, bounds, meaning",
        "alibi --match epsilon",
        argument("method", "[METHOD]", "only keys of this method, such as alibi", required=False),
        option("--match", "only keys and meanings with this text"),
    ),
    Verb(
        "data check",
        "data_sets:check",
        "check a data set, or a file of your own",
        "FILE.csv --label-column bought --classes no,yes --hold-out none",
        argument(
            "name", "[NAME|FILE]", "a data set, or a .csv, .parquet, .npz, .npy", required=False
        ),
        option("--features", "the same as FILE", "X.npy"),
        option("--labels", "labels of features in an .npy", "y.npy"),
        option("--label-column", "column of labels; label by default", "NAME"),
        option("--split-column", "column with train or test; split by default", "NAME"),
        option("--group-column", "whose row it is: one row of each person is used", "NAME"),
        option("--drop", "columns to leave out", "A,B,..."),
        option("--keep", "columns to keep although they look like identifiers", "A,B,..."),
        option("--test test_path", "rows for testing; their labels are public", "FILE"),
        option("--test-labels", "labels of --test in an .npy", "t.npy"),
        choice(
            "--hold-out", ("public", "none"), "without test rows: publish labels of 1 in 5, or none"
        ),
        whole("--seed hold_out_seed", "selects the rows of --hold-out public", default=0),
        option("--classes", "number of classes, or their names in order", "K|A,B,..."),
        option("--bounds", "of amounts, in place of --classes", "LOW,HIGH"),
    ),
    Verb(
        "data fetch",
        "data_sets:fetch_set",
        "download a data set",
        "cifar100",
        argument("name", "NAME", "a data set of `labeldp data list`"),
    ),
    Verb(
        "data make",
        "parties:make",
        "write a synthetic log of visits: features, labels, and rows to test with",
        "conversions --rows 1000 -o small-log",
        click.Argument(["name"], type=click.Choice(["conversions"])),
        whole("--rows", "number of visits", default=100_000),
        whole("--weeks", "a folder for each week of visits (docs/late_labels.md)", default=1),
        number("--window", "labels have only purchases within so many days of the visit"),
        whole("--seed", default=0),
        _OUT,
    ),
    Verb("data list", "data_sets:list_sets", "list data sets", ""),
    Verb(
        "doctor",
        "doctor:examine",
        "check versions, devices, Ray, tracking and data sets",
        "",
    ),
    Verb(
        "embed",
        "encoders:embed",
        "compute vectors of images with an encoder",
        "cifar10 --encoder torchvision:resnet18 -o cifar10-resnet18.npy",
        argument("source", "SOURCE", "a folder, .npz or .npy of images, or a data set's name"),
        option(
            "--encoder",
            "torchvision:NAME, timm:NAME, huggingface:NAME or :FOLDER, module:function, or "
            "pretrained:NAME (trained here on a data set with public labels)",
            required=True,
        ),
        option(
            "-o --to --out out",
            "vectors; FILE.npy.json describes the encoder",
            "FILE.npy",
            required=True,
        ),
        option("--weights", "a file, random, or a name of the library; its default otherwise"),
        whole("--image-size", "resize images to this side; the encoder's by default"),
        choice("--pool", ("cls", "mean"), "of a sequence of vectors: the first, or the mean"),
        option("--trained-on", "data of the weights; shown with every result", default=""),
        option("--trained-by", "author of the weights", default=""),
        flag("--no-outside-data", "the weights saw only these images, and no secret label"),
        flag("--public-labels", "confirm that the labels of pretrained:NAME are public"),
        flag("--half", "write half precision"),
        flag("--replace", "replace an existing file"),
        whole("--batch-size", "images at a time", default=256),
        whole("--seed", "seed of random weights and of training", default=0),
        _DEVICE,
    ),
    Verb(
        "epsilon gaussian",
        "prices:epsilon_gaussian",
        "price Gaussian noise on one-hot labels",
        "--noise-std 5.3 --delta 1e-5",
        number("--noise-std", "standard deviation of the noise", required=True),
        _DELTA,
    ),
    Verb(
        "epsilon laplace",
        "prices:epsilon_laplace",
        "price Laplace noise on one-hot labels",
        "--scale 1",
        number("--scale", "scale of the noise; give this or --noise-std"),
        number("--noise-std", "the scale times sqrt 2"),
    ),
    Verb(
        "epsilon pate",
        "prices:epsilon_pate",
        "price answers of a teacher ensemble",
        "--aggregator confident --sigma1 200 --sigma2 40 --queries 1000 --answer 300 --delta 1e-5",
        _VOTES,
        choice("--aggregator", _AGGREGATORS, required=True),
        number("--sigma1", "standard deviation of the check's noise"),
        number("--threshold", "smallest noisy count that is answered"),
        number(
            "--sigma2",
            "standard deviation of the noise on counts; for lnmax its Laplace scale, "
            "trainer.sigma2 divided by sqrt 2",
            required=True,
        ),
        _DELTA,
        _QUERIES,
        choice("--conversion", ("improved", "mironov"), default="improved"),
        _ACCOUNTING,
        whole("--answer", "number of answers; needed without --votes"),
        _SEED,
    ),
    Verb(
        "epsilon rr",
        "prices:epsilon_rr",
        "price randomized response",
        "--keep-probability .7 --classes 10",
        number("--keep-probability", "of the true label", required=True),
        whole("--classes", required=True),
    ),
    Verb(
        "epsilon select",
        "prices:epsilon_select",
        "price the best of a random number of trials",
        "--epsilon 1 --mean-trials 10 --distribution geometric",
        number("--epsilon", "epsilon of one trial", required=True),
        number("--mean-trials", "mean number of trials", required=True),
        number("--delta", "at which the price holds", default=0.0),
        number("--trial-delta", "of one trial", default=0.0),
        choice(
            "--distribution",
            ("geometric", "logarithmic", "poisson"),
            "of the number of trials",
            required=True,
        ),
    ),
    Verb(
        "ledger",
        "reports:ledger",
        "list releases of labels, with time and price",
        "results/quickstart --csv ledger.csv",
        argument(
            "folders", "FOLDER...", "results, or one vault", nargs=-1, required=True, type=_FOLDER
        ),
        option("--csv", "write every line to this table", "FILE"),
        number("--delta", "compute epsilon at this delta; the trials' by default"),
    ),
    Verb(
        "plan",
        "sweep_command:plan",
        "show a sweep's trials and cost; starts nothing",
        "sweeps/quickstart.py trainer.epochs=5",
        argument("sweep", "SWEEP", "a name of `labeldp sweep`, or a file of your own"),
        *PLAN_OPTIONS,
    ),
    Verb(
        "request",
        "parties:request",
        "write a request for another party's labels (docs/two_parties.md)",
        "features.parquet --id-column id --method moments --classes no,yes -o request",
        argument("features", "FEATURES", "table: .parquet or .csv"),
        option("--id-column", "column of ids that both parties share", "NAME", required=True),
        option(
            "--method", f"moments, clusters, {', '.join(_SINGLE)} or stages", "NAME", required=True
        ),
        option("--classes", "all classes, as the labels are written", "A,B", required=True),
        number("--epsilon", "expected epsilon; the party with the labels decides", default=1.0),
        number("--delta", "of --method moments", default=1e-5),
        whole("--rows-at-once", "request a large .parquet in parts of so many rows"),
        _NODES,
        option("--after", "release of the first round, with --method stages", "DIR", multiple=True),
        _ESTIMATOR,
        whole("--seed", default=0),
        _OUT,
    ),
    Verb(
        "release",
        "parties:release",
        "answer a request: release noisy labels and charge them",
        "labels.parquet --id-column id --label-column bought --request request --epsilon 1 "
        "--budget 2 -o release",
        argument("labels", "LABELS", "secret table: .parquet or .csv"),
        option("--id-column", "column of ids", "NAME", required=True),
        option("--label-column", "column of labels", "NAME", required=True),
        option("--request", "folder from the other party", "DIR", required=True),
        _EPSILON,
        number("--delta", "of moments, and of printed totals", default=1e-5),
        number("--budget", "the most that a label may pay in all releases"),
        option("--missing", "class for ids without a row", "CLASS"),
        option("--person-column", "whose label it is: a price for all labels of a person", "NAME"),
        whole("--max-labels-per-person", "most that share epsilon; moments use all", default=1),
        option("--vault", "ledger of these labels; LABELS.vault by default", "DIR"),
        flag("--relabel", "state that labels may have changed: release and pay anew"),
        flag("--dry-run", "print price and content, release nothing"),
        option("-o --out out", "a new folder", "DIR"),
    ),
    Verb(
        "fit",
        "parties:fit",
        "fit a classifier to releases of another party's labels",
        "features.parquet --release release -o model",
        argument(
            "features",
            "FEATURES...",
            "the table of the requests, or one for each release",
            nargs=-1,
            required=True,
        ),
        option(
            "--release",
            "folder from the other party; repeat for rounds of stages, or weeks",
            "DIR",
            multiple=True,
            required=True,
        ),
        _ESTIMATOR,
        whole("--seed", default=0),
        _NODES,
        _OUT,
    ),
    Verb(
        "predict",
        "models:predict",
        "predict classes of raw rows with a saved model",
        "results/quickstart --trial HASH ROWS.npz -o predictions.parquet",
        argument("model", "MODEL", "folder of a model, or of a sweep's results (with --trial)"),
        argument("data", "DATA", "rows like those of training: .parquet, .csv, .npy, .npz[:key]"),
        option("-o --out out", "predictions: .parquet or .csv", "FILE", required=True),
        option("--trial", "beginning of the trial's hash", "HASH"),
    ),
    Verb(
        "publish",
        "models:publish",
        "write a folder that can be published: a model, its card and its ledger",
        "results/quickstart --trial best --at-epsilon 1 --to public",
        argument("results", "RESULTS", "results folder of a sweep", type=_FOLDER),
        option("--trial", "beginning of its hash, or best for the best private one", required=True),
        option("--to", "folder to write", "FOLDER", required=True),
        number("--at-epsilon", "the most that the best trial may cost"),
        _CHOOSE_BY,
        choice("--accept", _RESERVATIONS, "publish such a trial", multiple=True),
        flag("--without-model", "leave the model out"),
    ),
    Verb(
        "report",
        "reports:report",
        "write HTML page, Pareto plot and CSV of a sweep",
        "results/quickstart",
        argument("experiment", "FOLDER|EXPERIMENT", "results folder, or an MLflow experiment"),
        option("--tracking-uri", "tracking store of the experiment; the sweep's by default"),
        option("--out", "results folder by default; for an experiment, the current one", "DIR"),
        choice("--edition", ("owner", "public"), "audience", default="owner"),
    ),
    Verb(
        "self-supervise",
        "encoders:self_supervise",
        "train an encoder on images without labels",
        "cifar10 --minutes 30 -o encoder.pt",
        argument("source", "IMAGES", "an .npz, .npy or folder of images, or a data set's name"),
        option("-o --out out", "the encoder; FILE.pt.state to continue", "FILE.pt", required=True),
        choice("--model", _NETWORKS, "the network", default="fast_cnn"),
        whole("--width", "width of the network; its own by default"),
        choice("--loss", ("vicreg", "coding_rate", "simclr"), "of the views", default="vicreg"),
        whole("--views", "views of each image in a step", default=2),
        whole("--crop", "side of views that are crops, not enlarged windows; half of the image's"),
        whole("--epochs", "passes over the images", default=100),
        whole("--batch-size", "images in a step", default=512),
        number("--learning-rate", "highest learning rate; chosen by the model by default"),
        flag("--no-flip", "never mirror images: for digits and letters"),
        flag("--probe", "after each epoch, accuracy on a data set's public test labels"),
        number("--minutes", "stop after the epoch that reaches this time; run again to continue"),
        whole("--seed", "of initial weights, order and distortions", default=0),
        _DEVICE,
        choice("--precision", ("auto", "fp32", "bf16"), default="auto"),
        flag("--replace", "overwrite an existing file and start anew"),
    ),
    Verb(
        "sweep",
        "sweep_command:by_name",
        "list sweeps, or run one: `labeldp sweep quickstart --smoke`",
        "",
        argument("name", "[SWEEP]", "a name, or a file of your own", required=False),
        argument("arguments", "[OPTION]...", "of the sweep: --help lists them", nargs=-1),
    ),
    Verb(
        "ui",
        "tracking_server:serve",
        "serve the tracking pages of a results folder until Ctrl-C",
        "results/quickstart",
        argument("results", "RESULTS", "a results folder"),
        whole("--port", "5000 by default, otherwise a free one"),
    ),
    Verb(
        "verify",
        "reports:verify",
        "check a signed folder: a released or published one, results, or a vault",
        "public --key OWNER.pub",
        argument("folder", "FOLDER", "it has a signature.json (docs/publishing.md)", type=_FOLDER),
        option("--key", "public key that must have signed it: 64 digits, or a PEM file", "KEY"),
    ),
)

_GROUPS = {
    "audit": "measure how much a model or release reveals",
    "calibrate": "compute the noise for an epsilon",
    "data": "list, download and check data sets",
    "epsilon": "compute the epsilon of a mechanism",
}


def command() -> click.Group:
    """Return the whole command line."""
    groups = {name: click.Group(name, help=summary) for name, summary in _GROUPS.items()}
    top = click.Group(
        "labeldp",
        commands=list(groups.values()),
        help="Label differential privacy: cost, accuracy and leakage.",
        context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    )
    for verb in VERBS:
        groups.get(verb.words.partition(" ")[0], top).add_command(verb)
    return top


def run_command(command: click.Command, arguments: Sequence[str], *, program: str) -> int:
    """Run a command line and return its exit code; a wrong argument is refused in one line."""
    try:
        ended = command.main(list(arguments), prog_name=program, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        return error.exit_code
    except click.ClickException as error:
        print(f"error: {' '.join(error.format_message().split())}", file=sys.stderr)
        return error.exit_code
    return int(ended or 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, which `ExitCode` explains."""
    given = sys.argv[1:] if arguments is None else arguments
    return run_command(command(), given, program="labeldp")


if __name__ == "__main__":
    sys.exit(main())
