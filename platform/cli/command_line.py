"""`labeldp VERB ...`: the table of all commands, their arguments, and where each one is done.

A command names its function by text, and the parameters of the function are the names of its
options. So `--help` imports nothing else, and a command imports at the top of its module what it
needs: SciPy, torch or MLflow, which take up to three seconds.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import click
from click.shell_completion import CompletionItem

import labeldp


def option(names: str, help: str = "", metavar: str | None = None, **more: Any) -> click.Option:
    """Return an option by its names, which blanks separate."""
    return click.Option(names.split(), help=help, metavar=metavar, **more)


def choice(name: str, values: Sequence[str], help: str = "", **more: Any) -> click.Option:
    """Return an option with one of a few values."""
    return option(name, help, type=click.Choice(values), **more)


def argument(name: str, metavar: str, help: str, **more: Any) -> click.Argument:
    """Return an argument by its place."""
    return click.Argument([name], metavar=metavar, help=help, **more)


def needed(kind: Callable[..., click.Option], *words: Any, **more: Any) -> click.Option:
    """Return an option of a kind that must be given."""
    return kind(*words, required=True, **more)


def completed(list_names: Callable[[], Iterable[str]]) -> Callable[..., list[CompletionItem]]:
    """Return how a shell completes an argument: to one of the names, or else to a file."""

    def complete(_context: object, _parameter: object, begun: str) -> list[CompletionItem]:
        found = [CompletionItem(name) for name in list_names() if name.startswith(begun)]
        return found or [CompletionItem(begun, type="file")]

    return complete


def _sweeps() -> list[str]:
    return sorted(file.stem for file in Path(labeldp.__file__).parent.glob("sweeps/[a-z]*.py"))


def _data_sets() -> list[str]:
    return sorted(resolve_name("labeldp.trainers.data.catalog:DATASETS"))  # it loads NumPy


number = partial(option, type=float)
whole = partial(option, type=int)
seed = partial(option, type=click.IntRange(0))
flag = partial(option, is_flag=True)
repeated = partial(option, multiple=True)
_sweep = partial(argument, required=False, shell_complete=completed(_sweeps))
_data = partial(argument, shell_complete=completed(_data_sets))
_array = partial(option, metavar="FILE[:key]")
_SEVERAL: Any = {"nargs": -1, "required": True}
_POSITIVE = click.IntRange(1)
_ABOVE = click.FloatRange(0, min_open=True)
_FOLDER = click.Path(exists=True, file_okay=False)
_DEVICE = choice("--device", ("auto", "cpu", "cuda"), "auto uses CUDA if available", default="auto")
_CONFIDENCE = number("--confidence", "confidence level of the bound", default=0.95)
_EPSILON = needed(number, "--epsilon", "privacy loss per label")
_DELTA = needed(number, "--delta", "delta of epsilon")
_SEED = seed("--seed", "seed of the random numbers, for repeatable results")
_SCORES = "roc_auc average_precision lift log_loss brier_score calibration_error".split()
_SCORES += ["mean_squared_error", "mean_absolute_error"]
_CHOOSE_BY = choice(
    "--choose-by",
    ("test", "estimated", *_SCORES, *(f"{name}_estimated" for name in _SCORES), "relative_error"),
    "metric that compares trials: test or estimated accuracy, roc_auc, log_loss_estimated ...",
    metavar="METRIC",
)
_ALLOW_CODE = option(
    "--allow-code", "module of your own network that a file may name: it is run", "MODULE"
)
_CLASSES = whole("--classes", "number of classes", default=10)
_PURE = number("--delta", "ignored: this noise is pure, its delta is 0")
_QUERIES = whole("--queries", "number of checked queries, by default of answers; not with --votes")
_AGGREGATORS = ("confident", "gnmax", "lnmax")
_SINGLE = ("subset", "randomized_response", "laplace")
_ESTIMATOR = option("--estimator", "boosting (default), logistic, lightgbm or xgboost", "NAME")
_OUT = needed(option, "-o --out out", "new folder to write", "DIR")

JSON = flag("--json", "print one JSON object")
CONFIG = repeated(
    "--config",
    "YAML file of settings, or a trial's config.yaml; can be repeated, later files win, then "
    "key=value",
    "FILE.yaml",
)
_OVERRIDES = argument(
    "overrides",
    "[key=value]...",
    "settings (`labeldp config` lists them); key=[a,b] makes a grid; 'key=loguniform(a,b)', "
    "uniform(a,b) and choice(a,b) draw values at random, or let --search choose them",
    nargs=-1,
)
_SMOKE = flag("--smoke", "run a small version: minutes on two cores")
_PRESET = option("--preset", "run another version, such as home: full data on two cores", "NAME")

#: Options that decide which trials a sweep has, and what they may cost.
PLAN_OPTIONS = (
    CONFIG,
    _ALLOW_CODE,
    _SMOKE,
    _PRESET,
    repeated("--only", "run only methods whose names begin with NAME; can be repeated", "NAME"),
    repeated("--without", "leave out methods that begin with NAME; can be repeated", "NAME"),
    option("--results", "results folder; the sweep resumes from trials in it", "DIR"),
    number("--max-epsilon-total", "refuse the sweep if its total epsilon is larger"),
    flag("--on-processors", "run a sweep of GPU hours without a GPU"),
    _CHOOSE_BY,
    choice("--search", ("optuna",), "choose settings by results so far (docs/search.md)"),
    whole("--trials", "number of trials of each search; 40 by default"),
    choice("--stop", ("asha", "hyperband"), "stop the worse trials early (docs/search.md)"),
    _OVERRIDES,
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
        self.words = words
        self.run = run
        self.summary = summary
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

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave options of a sweep that is made of files to the sweep: they have no name before."""
        given = any(each.partition("=")[0] == "--config" for each in args)
        ctx.ignore_unknown_options = self.words == "sweep" and given
        return super().parse_args(ctx, args)

    @property
    def function(self) -> Callable[..., Any]:
        """Import its function."""
        found: Callable[..., Any] = resolve_name(f"labeldp.platform.cli.{self.run}")
        return found

    def _perform(self, json: bool, **given: Any) -> int:
        if self.words == "watch":  # it prints as it goes, and stays without NumPy beside a sweep
            try:
                return int(self.function(json_=json, **given))
            except KeyboardInterrupt:
                click.echo("interrupted", err=True)
                return 130
        if self.words == "sweep" and json and given["name"]:  # it is the sweep's own option
            given["arguments"] += ("--json",)
        perform = resolve_name("labeldp.platform.cli.command:perform")
        return int(perform(lambda: self.function(**given), json=json))


VERBS = (
    Verb(
        "advise",
        "advise:advise",
        "advise on a method and an epsilon, by a simulation on made-up labels",
        "--rows 10000 --classes 2 --rare .05",
        whole("--rows", "number of labels; by default the rows of --features", type=_POSITIVE),
        needed(whole, "--classes", "number of classes", type=click.IntRange(2)),
        number("--rare", "share of the rarest class"),
        whole("--persons", "number of people, if somebody has several labels", type=_POSITIVE),
        option("--features", "your public features: .parquet, .csv or .xlsx", "FILE"),
        seed("--seed", "seed of the simulation", default=0),
    ),
    Verb(
        "audit memorization",
        "bounds:memorization",
        "bound epsilon from below by the memorization attack on canaries",
        "--confidences C.npy --canary-labels P.npy --true-labels T.npy",
        needed(_array, "--confidences", "predicted probabilities on the canaries [N, K]"),
        needed(_array, "--canary-labels", "planted wrong labels [N]"),
        needed(_array, "--true-labels", "true labels of the canaries [N]"),
        _CONFIDENCE,
    ),
    Verb(
        "audit moments",
        "bounds:moments",
        "compare the noise of moment labels with its charged epsilon",
        "--epsilon 1 --delta 1e-5",
        number("--epsilon", "charged epsilon", default=1.0),
        number("--delta", "charged delta", default=1e-5),
        whole("--canaries", "number of simulated canaries", default=2000),
        whole("--classes", "number of classes", default=10),
        _CONFIDENCE,
        _SEED,
    ),
    Verb(
        "audit observational",
        "bounds:observational",
        "bound epsilon from below without canaries, by a proxy model of known error",
        "--confidences C.npy --labels Y.npy --proxy Q.npy --proxy-log-error .2",
        needed(_array, "--confidences", "predicted probabilities of the model [N, K]"),
        needed(_array, "--labels", "labels that it was trained on [N]"),
        needed(_array, "--proxy", "probabilities [N, K] of a model that never saw these labels"),
        needed(number, "--proxy-log-error", "largest |log p - log proxy| of the true p: assumed"),
        _CONFIDENCE,
        _SEED,
    ),
    Verb(
        "audit one-run",
        "bounds:one_run",
        "prove a lower bound on epsilon from one model",
        "--canaries 1000 --guesses 400 --correct 300",
        whole("--canaries", "number of canaries: labels that a coin decided"),
        whole("--guesses", "number of guesses"),
        whole("--correct", "number of correct guesses"),
        _array("--scores", "score of each canary [N], instead of the three counts"),
        _array("--truth", "secret coins [N], 0 or 1, with --scores"),
        number("--delta", "delta of the bound", default=0.0),
        _CONFIDENCE,
        choice(
            "--family",
            ("gaussian", "laplace", "rr", "subset"),
            "noise on each label, if known: gives a tighter bound",
        ),
        whole("--classes", "classes of --family rr or subset; 2 is always valid", default=2),
        flag("--guesses-fixed", "--guesses was fixed before the release; gaussian requires it"),
    ),
    Verb(
        "audit vote-leakage",
        "bounds:vote_leakage",
        "reconstruct vote histograms from repeated answers to the same query",
        "--counts ANSWERS.npy --noise-std 60 --teachers 250",
        needed(_array, "--counts", "counts of the answers to each query [N, K]"),
        needed(number, "--noise-std", "standard deviation of the answers' noise"),
        needed(whole, "--teachers", "number of teachers"),
    ),
    *(
        Verb(
            f"calibrate {noise}",
            f"bounds:calibrate_{noise}",
            f"compute {what} for an epsilon",
            f"--epsilon 2{more}",
            _EPSILON,
            *params,
        )
        for noise, what, more, params in (
            ("gaussian", "Gaussian noise", " --delta 1e-5", [_DELTA]),
            ("laplace", "Laplace noise", "", [_PURE]),
            ("rr", "randomized response", " --classes 10", [_CLASSES, _PURE]),
            ("subset", "the size of subset selection", " --classes 100", [_CLASSES, _PURE]),
        )
    ),
    Verb(
        "calibrate pate",
        "bounds:calibrate_pate",
        "compute PATE's noise for an epsilon",
        "--epsilon 1 --delta 1e-5 --answer 300 --queries 1000",
        _array("--votes", "vote counts [N, K], in place of --queries and --teachers"),
        _EPSILON,
        _DELTA,
        choice("--aggregator", _AGGREGATORS, "aggregation of votes", default="confident"),
        _QUERIES,
        whole("--teachers", "number of teachers, which sets the threshold; not with --votes"),
        needed(whole, "--answer", "number of answered queries"),
    ),
    Verb(
        "compare",
        "reports:compare",
        "compare two sweeps line by line, with intervals over seeds",
        "results/a results/b",
        argument("first", "RESULTS_A", "results folder", type=_FOLDER),
        argument("second", "RESULTS_B", "results folder"),
    ),
    Verb(
        "config",
        "config_keys:config",
        "list configuration keys: type, default, bounds, meaning; or print a sweep's configuration",
        "alibi --match epsilon",
        _sweep("of", "[METHOD|SWEEP]", "method to list the keys of, or sweep to print as YAML"),
        option("--match", "only keys whose name or meaning contains this text"),
        option("--line", "line of the sweep, by the beginning of its name", "NAME"),
        CONFIG,
        _ALLOW_CODE,
        _SMOKE,
        _PRESET,
        _OVERRIDES,
    ),
    Verb(
        "data check",
        "data_sets:check",
        "check a data set, or a file of your own",
        "FILE.csv --label-column bought --classes no,yes --hold-out none",
        _data("name", "NAME|FILE", "data set, or your own .csv, .xlsx, .parquet, .npz or .npy"),
        option("--labels", "file of the labels, if the features are an .npy", "y.npy"),
        option("--label-column", "column of the labels; by default `label`", "NAME"),
        option("--split-column", "column of train and test; by default `split`", "NAME"),
        option("--group-column", "column of persons; only one row of each person is used", "NAME"),
        option("--drop", "columns to leave out", "A,B,..."),
        option("--keep", "columns to keep although they look like identifiers", "A,B,..."),
        choice("--text", ("tfidf", "drop", "category"), "columns of sentences", default="tfidf"),
        option("--test test_path", "file of test rows; their labels are public", "FILE"),
        option("--test-labels", "file of the test labels, if --test is an .npy", "t.npy"),
        choice(
            "--hold-out",
            ("public", "none"),
            "without test rows in the file: publish 1 label in 5, or none",
        ),
        seed("--seed hold_out_seed", "seed that selects the rows of --hold-out public", default=0),
        option("--classes", "number of classes, or their names in order", "K|A,B,..."),
        option("--bounds", "smallest and largest amount, if labels are amounts", "LOW,HIGH"),
        option("--encoding", "encoding of a .csv, such as cp1252; by default UTF-8", "NAME"),
    ),
    Verb(
        "data fetch",
        "data_sets:fetch_set",
        "download a data set",
        "cifar100",
        _data("name", "NAME", "name of a data set in `labeldp data list`"),
    ),
    Verb(
        "data make",
        "parties:make",
        "write a synthetic log of shop visits: features, labels and test rows",
        "conversions --rows 1000 -o small-log",
        click.Argument(["name"], type=click.Choice(["conversions"]), expose_value=False),
        whole("--rows", "number of visits", default=100_000, type=_POSITIVE),
        whole("--weeks", "weeks, a folder each (docs/late_labels.md)", default=1, type=_POSITIVE),
        number("--window", "label only purchases within this many days of the visit", type=_ABOVE),
        seed("--seed", "seed of the synthetic data", default=0),
        _OUT,
    ),
    Verb("data list", "data_sets:list_sets", "list data sets", ""),
    Verb("doctor", "doctor:examine", "check versions, devices, Ray, tracking and data sets", ""),
    Verb(
        "embed",
        "models:embed",
        "compute embeddings of images with an encoder",
        "cifar10 --encoder torchvision:resnet18 -o cifar10-resnet18.npy",
        argument("source", "SOURCE", "folder, .npz or .npy of images, or a data set's name"),
        needed(
            option,
            "--encoder",
            "torchvision:NAME, timm:NAME, module:function, or pretrained:NAME (trained here on a "
            "data set with public labels)",
        ),
        needed(option, "-o --to --out out", "embeddings; beside it a .json of them", "FILE.npy"),
        option("--weights", "a file, `random`, or a name in the library; by default the library's"),
        whole("--image-size", "side of resized images, in pixels; by default the encoder's"),
        option("--trained-on", "training data of the weights; shown with every result", default=""),
        option("--trained-by", "author of the weights", default=""),
        flag("--no-outside-data", "the weights saw only these images and no secret label"),
        flag("--public-labels", "state that the labels of pretrained:NAME are public"),
        flag("--replace", "replace an existing file"),
        whole("--batch-size", "images per batch", default=256),
        seed("--seed", "seed of random weights and of training", default=0),
        _DEVICE,
    ),
    Verb(
        "epsilon gaussian",
        "bounds:epsilon_gaussian",
        "price Gaussian noise on one-hot labels",
        "--noise-std 5.3 --delta 1e-5",
        needed(number, "--noise-std", "standard deviation of the noise"),
        _DELTA,
    ),
    Verb(
        "epsilon laplace",
        "bounds:epsilon_laplace",
        "price Laplace noise on one-hot labels",
        "--scale 1",
        number("--scale", "scale of the noise; alternative: --noise-std"),
        number("--noise-std", "standard deviation of the noise: scale times sqrt 2"),
    ),
    Verb(
        "epsilon pate",
        "bounds:epsilon_pate",
        "price answers of a teacher ensemble",
        "--aggregator confident --sigma1 200 --sigma2 40 --queries 1000 --answer 300 --delta 1e-5",
        _array("--votes", "vote counts [N, K]; without a file, the price holds for any votes"),
        needed(choice, "--aggregator", _AGGREGATORS, "aggregation of votes"),
        number("--sigma1", "confident: standard deviation of the check's noise, in votes"),
        number("--threshold", "confident: smallest noisy count that is answered, in votes"),
        needed(
            number,
            "--sigma2",
            "standard deviation of the noise on counts; lnmax: the scale, trainer.sigma2 / sqrt 2",
        ),
        _DELTA,
        _QUERIES,
        choice(
            "--conversion",
            ("improved", "mironov"),
            "formula from Renyi to epsilon; mironov is older, looser",
            default="improved",
        ),
        choice(
            "--accounting",
            ("decision", "counts"),
            "price only the decisions, or all noisy counts (docs/decision_accounting.md)",
            default="decision",
        ),
        whole("--answer", "number of answered queries; required without --votes"),
        _SEED,
        option("--figures", "folder for figures of the votes: plurality, LNMax and GNMax", "DIR"),
    ),
    Verb(
        "epsilon rr",
        "bounds:epsilon_rr",
        "price randomized response",
        "--keep-probability .7 --classes 10",
        needed(number, "--keep-probability", "probability of the true label"),
        needed(whole, "--classes", "number of classes"),
    ),
    Verb(
        "epsilon select",
        "bounds:epsilon_select",
        "price the best of a random number of trials",
        "--epsilon 1 --mean-trials 10 --distribution geometric",
        needed(number, "--epsilon", "epsilon of one trial"),
        needed(number, "--mean-trials", "mean number of trials"),
        number("--delta", "delta of the result", default=0.0),
        number("--trial-delta", "delta of one trial", default=0.0),
        needed(choice, "--distribution", ("geometric", "logarithmic", "poisson"), "of the trials"),
    ),
    Verb(
        "ledger",
        "reports:ledger",
        "list releases of labels, with time and price",
        "results/quickstart",
        argument("folders", "FOLDER...", "results folders, or a vault", type=_FOLDER, **_SEVERAL),
        number("--delta", "delta of the totals; by default the trials' delta"),
    ),
    Verb(
        "plan",
        "sweep_command:plan",
        "show a sweep's trials and cost; starts nothing",
        "sweeps/quickstart.py trainer.epochs=5",
        _sweep("sweep", "[SWEEP]", "name in `labeldp sweep`, or your own .py or .yaml"),
        number("--price-per-hour", "price of an hour of the device, to state that of the sweep"),
        *PLAN_OPTIONS,
    ),
    Verb(
        "request",
        "parties:request",
        "write a request for another party's labels (docs/two_parties.md)",
        "features.parquet --id-column id --method moments --classes no,yes -o request",
        argument("features", "FEATURES", "table of features: .parquet, .csv or .xlsx"),
        needed(option, "--id-column", "column of ids that both parties share", "NAME"),
        needed(option, "--method", f"moments, clusters, {', '.join(_SINGLE)} or stages", "NAME"),
        needed(option, "--classes", "all classes, as labels; quote one with a comma", "A,B"),
        number("--epsilon", "expected epsilon; the label party decides", default=1.0),
        number("--delta", "expected delta of --method moments", default=1e-5),
        whole("--rows-at-once", "split a large .parquet into parts of this many rows"),
        repeated("--after", "release of the first round, for --method stages", "DIR"),
        _ESTIMATOR,
        seed("--seed", "public seed of the request", default=0),
        flag("--pairs", "rows are pairs, columns a_NAME and b_NAME (docs/preferences.md)"),
        _OUT,
    ),
    Verb(
        "release",
        "parties:release",
        "answer a request: release noisy labels and charge them",
        "labels.parquet --id-column id --label-column bought --request request --epsilon 1 "
        "--budget 2 -o release",
        argument(
            "labels",
            "LABELS",
            "table of secret labels: .parquet, .csv, .xlsx, or a database: duckdb:FILE, "
            "postgresql://USER@HOST/NAME (its password in LABELDP_DATABASE_PASSWORD)",
        ),
        option("--query", "SELECT of ids and labels, where LABELS is a database", "SQL"),
        flag("--push-down", "let the database count the labels, for a request for clusters"),
        needed(option, "--id-column", "column of ids", "NAME"),
        needed(option, "--label-column", "column of labels", "NAME"),
        needed(option, "--request", "request from the other party", "DIR"),
        _EPSILON,
        number("--delta", "delta of a moments release and of the printed totals", default=1e-5),
        number("--budget", "largest total epsilon of a label over all releases"),
        option("--missing", "class of ids without a row in LABELS", "CLASS"),
        option("--person-column", "column of persons; epsilon covers all labels of one", "NAME"),
        whole("--max-labels-per-person", "labels of each that share epsilon", default=1),
        option("--vault", "releases and ledger of these labels; LABELS.vault by default", "DIR"),
        number("--most-missing", "largest share of ids with the class --missing", default=0.99),
        flag("--moved", "state that no other copy of the vault is in use; charge what it has lost"),
        flag("--relabel", "state that labels may have changed: release and charge again"),
        flag("--dry-run", "print cost and content; release nothing"),
        option("-o --out out", "new folder to write", "DIR"),
    ),
    Verb(
        "fit",
        "parties:fit",
        "fit a classifier to releases of another party's labels",
        "features.parquet --release release -o model",
        argument("features", "FEATURES...", "table of the requests, or one a release", **_SEVERAL),
        repeated("--release", "release from the other party; repeat for stages or weeks", "DIR"),
        repeated("--request", "its request, if it is not beside it; repeatable", "DIR"),
        option("--histograms", "noisy counts by bucket, in place of a release", "FILE"),
        choice("--noise", ("laplace",), "noise of all counts, of scale 2 x L1 / epsilon"),
        number("--l1", "the most that one label adds to all counts together"),
        number("--epsilon", "epsilon of the counts, as their party states it"),
        number("--delta", "delta of the counts, likewise", default=0.0),
        _ESTIMATOR,
        seed("--seed", "seed of training", default=0),
        _OUT,
    ),
    Verb(
        "buckets",
        "parties:buckets",
        "propose histograms to request from a party that noises them",
        "features.parquet --budget 1",
        argument("features", "FEATURES", "table of features: .parquet, .csv or .xlsx"),
        needed(number, "--budget", "epsilon of all counts together"),
    ),
    Verb(
        "predict",
        "models:predict",
        "predict raw rows with a saved model",
        "results/quickstart --trial HASH ROWS.npz -o predictions.parquet",
        argument("model", "MODEL", "folder of a model, or a results folder with --trial"),
        argument("data", "DATA", "rows as in training: .parquet, .csv, .xlsx, .npy, .npz"),
        needed(option, "-o --out out", "predictions: .parquet or .csv", "FILE"),
        option("--trial", "first digits of the trial's hash", "HASH"),
        _ALLOW_CODE,
    ),
    Verb(
        "publish",
        "models:publish",
        "write a folder to publish: a model, its card and its ledger",
        "results/quickstart --trial best --at-epsilon 1 --to public",
        argument("results", "RESULTS", "results folder of a sweep", type=_FOLDER),
        needed(option, "--trial", "first digits of its hash, or best for the best private one"),
        needed(option, "--to", "folder to write", "FOLDER"),
        number("--at-epsilon", "with --trial best: largest epsilon of the trial", type=_ABOVE),
        _CHOOSE_BY,
        choice(
            "--accept",
            ("failed", "non-private", "seeded"),
            "publish a trial that failed, is not private, or has seeded noise",
            multiple=True,
        ),
        flag("--without-model", "leave the model out"),
        option("--registry", "also a record for OpenDP's registry, and a NIST page", "FILE.yaml"),
        option("--register", "also a version of this model in MLflow's registry", "NAME"),
        _ALLOW_CODE,
    ),
    Verb(
        "report",
        "reports:report",
        "write HTML page, Pareto plot and CSV of a sweep",
        "results/quickstart",
        argument("experiment", "FOLDER|EXPERIMENT", "results folder, or an MLflow experiment"),
        option("--tracking-uri", "tracking store of the experiment; by default the sweep's"),
        option("--out", "folder to write; by default the results, or the current one", "DIR"),
        choice(
            "--edition",
            ("owner", "public"),
            "audience of the page; public leaves out private values",
            default="owner",
        ),
        choice(
            "--figure",
            ("accuracy_vs_epsilon", "epsilon_m_vs_epsilon"),
            "figure of a column's width, into the file of --to, in place of the report",
            metavar="NAME",
        ),
        choice("--table", ("latex", "markdown", "csv"), "table in place of the report"),
        option("--to", "file of the figure or the table", "FILE.pdf|svg|png"),
        option("--study", "new file of an Optuna study of the trials, in its place", "FILE.db"),
    ),
    Verb(
        "self-supervise",
        "models:self_supervise",
        "train an encoder on images without labels",
        "cifar10 --minutes 30 -o encoder.pt",
        argument("source", "IMAGES", "folder, .npz or .npy of images, or a data set's name"),
        needed(option, "-o --out out", "encoder; FILE.pt.state is its checkpoint", "FILE.pt"),
        whole("--width", "width of the network; by default its usual width"),
        whole("--views", "distorted crops of each image per step", default=8),
        whole("--crop", "side of crops, in pixels; by default 5/8 of the image's shorter side"),
        whole("--epochs", "passes over the images", default=40),
        whole("--batch-size", "images per step", default=512),
        number("--learning-rate", "peak learning rate", default=0.003),
        flag("--no-flip", "never mirror images; for digits and letters"),
        flag("--probe", "report accuracy on public test labels after each epoch"),
        number("--minutes", "stop after the epoch that exceeds this time; run again to continue"),
        seed("--seed", "seed of initial weights, order and distortions", default=0),
        _DEVICE,
        choice("--precision", ("auto", "fp32", "bf16"), "precision of activations", default="auto"),
        flag("--replace", "overwrite an existing file and start again"),
    ),
    Verb(
        "sweep",
        "sweep_command:by_name",
        "list sweeps, or run one: `labeldp sweep quickstart --smoke`",
        "",
        _sweep("name", "[SWEEP]", "name, or your own .py or .yaml"),
        argument("arguments", "[OPTION]...", "options of the sweep; --help lists them", nargs=-1),
    ),
    Verb(
        "ui",
        "tracking_server:serve",
        "serve the tracking pages of a results folder until Ctrl-C",
        "results/quickstart",
        argument("results", "RESULTS", "results folder"),
        whole("--port", "port; 5000 by default, or a free one if that is in use"),
    ),
    Verb(
        "watch",
        "watch:run",
        "follow a sweep on a page of this machine, or in the terminal",
        "results/quickstart --text",
        argument("results", "RESULTS", "results folder of a sweep"),
        flag("--text", "print to the terminal until the sweep ends"),
        whole("--port", "port of the page; a free one by default"),
        number("--price-per-hour", "price of an hour of the machines, to state the money to go"),
    ),
    Verb(
        "verify",
        "reports:verify",
        "check the signature of a release, a published folder, results or a vault",
        "public --key OWNER.pub",
        argument("folder", "FOLDER", "with a signature.json (docs/publishing.md)", type=_FOLDER),
        option("--key", "public key of the signer: 64 hexadecimal digits, or a PEM file", "KEY"),
    ),
)

_GROUPS = {
    "audit": "measure how much a model or a release reveals",
    "calibrate": "compute the noise for an epsilon",
    "data": "list, download, check and make data sets",
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
    top = click.version_option(labeldp.__version__, prog_name="labeldp")(top)
    for verb in VERBS:
        groups.get(verb.words.partition(" ")[0], top).add_command(verb)
    return top


def run_command(command: click.Command, arguments: Sequence[str], *, program: str) -> int:
    """Run a command line and return its exit code; a wrong argument is refused in one line."""
    # Batch systems and a shell's `kill` send SIGTERM: end as cleanly as on Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # closed: no file shall get its number
    sys.stderr = sys.stderr or open(os.devnull, "w")
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # its encoding may lack a character
    try:
        ended = command.main(list(arguments), prog_name=program, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        return error.exit_code
    except click.ClickException as error:
        print(f"error: {' '.join(error.format_message().split())}", file=sys.stderr)
        return error.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt):  # while modules are loaded
        print("interrupted", file=sys.stderr)
        return 130
    return int(ended or 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, which `ExitCode` explains."""
    given = sys.argv[1:] if arguments is None else arguments
    return run_command(command(), given, program="labeldp")


if __name__ == "__main__":
    sys.exit(main())
