"""`labeldp watch RESULTS`: a page, or lines, that follow a sweep while it runs and afterwards.

It reads files of the results folder and nothing else, so that it can't disturb a sweep, and works
after the driver has died. It imports the standard library alone, to stay small beside a sweep. It
looks into each trial's record once, and again only if the file has changed.

>>> pareto([(1.0, 0.7), (2.0, 0.6), (4.0, 0.9)])
[(1.0, 0.7), (4.0, 0.9)]
"""

import base64
import hashlib
import html
import json
import math
import os
import secrets
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import parse_qs

_HOST = "127.0.0.1"
#: Time between two looks.
SECONDS = 2.0
#: Names of trials shown of each kind; all are counted.
_MOST_NAMES = 12
#: A driver whose process is not found here may be on another machine, if it wrote so lately.
_FRESH_SECONDS = 60.0
#: Of labels that a baseline reads as they are.
_BARE = "other labels went out without any noise: no epsilon bounds what these reveal"
_PAGE = Template((Path(__file__).parents[1] / "report/templates/watch.html").read_text())
_SCRIPT = _PAGE.template.partition("<script>")[2].partition("</script>")[0]
_DIGEST = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
_RULES = "default-src 'none'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
_RULES += f"script-src 'sha256-{_DIGEST}'"


def state_of(folder: Path, *, price_per_hour: float | None = None) -> dict[str, Any]:
    """Return where the sweep in a results folder stands, as `--json` prints it; None is unknown.

    Raises `OSError` or `ValueError` if files can't be read, or are not those of a sweep.
    """
    if not (folder / "sweep.json").exists():
        raise ValueError(
            f"{folder} holds no sweep: it has no sweep.json; name the folder that a sweep was "
            "given with --results"
        )
    try:
        return _state(folder, price_per_hour)
    except (LookupError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(
            f"{folder} holds files that no sweep writes ({error!r}); name the folder that a sweep "
            "was given with --results"
        ) from error


def _state(folder: Path, price_per_hour: float | None) -> dict[str, Any]:
    told: dict[str, Any] = {}
    with suppress(OSError, ValueError):  # not there yet
        told = _whole(folder / "state.json")
    own = _whole(folder / "sweep.json")
    every = _trials(folder)
    alive = _is_alive(folder, told)
    since = [trial for trial in every if trial["kept"] > told.get("written", 0.0)]
    names_since = {trial["name"] for trial in since}
    running = [each for each in told.get("running", ()) if each["name"] not in names_since]
    # Of this plan: the folder may have trials of others.
    ended = told.get("trials_ended", len(every) - len(since)) + len(since)
    trials = told.get("trials") or len(every)
    metric = told.get("metric", "accuracy")
    sign = -1.0 if told.get("smaller_is_better") else 1.0
    done = [trial for trial in every if trial["finished"]]
    private = [trial for trial in done if {"epsilon", metric} <= trial["metrics"].keys()]
    private.sort(key=lambda trial: sign * trial["metrics"][metric])
    points = [(trial["metrics"]["epsilon"], trial["metrics"][metric]) for trial in private]
    names = [trial["name"] for trial in private]
    front = pareto(points, sign=sign)
    spent = told.get("epsilon_spent")
    if spent == math.inf:  # none is known at so small a delta
        spent = None
    planned = told.get("epsilon_planned")
    seconds = _left({**told, "running": running}, ended=ended) if alive else None
    left = None
    if spent is not None and planned is not None and planned < math.inf:
        left = max(0.0, planned - spent)
    return {
        "sweep": own.get("sweep", folder.name),
        "driver": ("running" if told else "starting") if alive else "ended",
        "trials": trials,
        "ended": min(trials, ended),
        "waiting": max(0, trials - ended - len(running)),
        "running": running if alive else [],
        "cut_off": [] if alive else running,
        "done": len(done),
        "failed": [
            {"name": trial["name"], "reason": trial["reason"]}
            for trial in every
            if not trial["finished"]
        ],
        "metric": metric,
        "best": private[-1] if private else None,
        "pareto": front,
        "pareto_names": [names[points.index(point)] for point in front],
        "points": points,
        "names": names,
        "epsilon_spent": spent,
        "epsilon_left": left,
        "without_noise": bool(told.get("without_noise")),
        "delta": told.get("delta"),
        "cluster": told.get("cluster") if alive else None,
        "seconds_left": seconds,
        "price_left": seconds and price_per_hour and seconds / 3600 * price_per_hour,
    }


def _trials(folder: Path) -> list[dict[str, Any]]:
    """Return the records of trials that ended: name, result, metrics and seconds of each."""
    if not (folder / "trials").exists():
        return []  # the sweep has just begun
    with os.scandir(folder / "trials") as listed:
        entries = [each for each in listed if each.name.endswith(".json") and each.name[0] != "."]
    found = [(each.path, each.stat(follow_symlinks=False)) for each in entries]
    return [_brief(path, status.st_mtime_ns, status.st_size) for path, status in found]


@cache
def _brief(path: str, *version: int) -> dict[str, Any]:
    """Return what is shown of a record; without privacy it has no epsilon."""
    record = _whole(Path(path))
    values = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in record["point"].items()}
    point = " ".join(f"{key.rpartition('.')[2]}={value}" for key, value in values.items())
    numbers = {name: float(value) for name, value in record["metrics"].items() if "/" not in name}
    return {
        "name": f"{record['variant']} {point}".strip(),
        "kept": version[0] / 1e9,
        "finished": record["finished"],
        "reason": record.get("reason", ""),
        "metrics": {name: value for name, value in numbers.items() if math.isfinite(value)},
    }


def _whole(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}); restore it from a copy") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is not what a sweep writes; restore it from a copy")
    return found


def _is_alive(folder: Path, told: Mapping[str, Any]) -> bool:
    """Whether a driver runs, without its lock: to ask for that would refuse one that starts.

    A driver of another machine shows only in what it wrote last: processes here have its number.
    """
    try:
        process = int((folder / "driver.lock").read_text())
    except (OSError, ValueError):
        return False
    here = os.uname().nodename
    fresh = bool(time.time() - told.get("written", 0.0) < _FRESH_SECONDS)
    if told.get("driver") == process:
        if told.get("ended"):
            return False
        if told.get("host", here) != here:
            return fresh
        if _started(process) > told.get("begun", math.inf) + _FRESH_SECONDS:
            return False  # it is a later one, of the same number
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return fresh and told.get("host") != here
    except PermissionError:
        pass  # it is somebody else's
    return True


def _started(process: int) -> float:
    """When a process of this machine started, as `time.time()`; 0 where Linux does not tell."""
    try:
        facts = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(facts[19]) / os.sysconf("SC_CLK_TCK")
    return time.time() - age


def _left(told: Mapping[str, Any], *, ended: int) -> float | None:
    """Estimate the seconds to go; trials in training count for their share of epochs."""
    now = ended - told.get("skipped", 0)
    if now < 1 or "begun" not in told:
        return None
    share = now + sum(min(1.0, each["epochs"] / each["of"]) for each in told["running"])
    left = told["trials"] - told.get("skipped", 0) - share
    return float(max(0.0, (time.time() - told["begun"]) / share * left))


def pareto(
    points: Iterable[tuple[float, float]], *, sign: float = 1.0
) -> list[tuple[float, float]]:
    """Return the points (epsilon, figure) that no other beats, by epsilon."""
    best: list[tuple[float, float]] = []
    for epsilon, figure in sorted(points, key=lambda point: (point[0], -sign * point[1])):
        if not best or sign * figure > sign * best[-1][1]:
            best.append((epsilon, figure))
    return best


# --- words ----------------------------------------------------------------------------------------


def rows(state: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the state as rows of two texts."""
    running = [f"{x['name']}: epoch {x['epochs']} of {x['of']}" for x in state["running"]]
    numbers = (
        f"{state['done']} done, {len(state['failed'])} failed, {len(running)} running, "
        f"{state['waiting']} waiting"
    )
    kept = state["done"] + len(state["failed"])
    others = " and of earlier plans" if kept > state["ended"] else ""
    front = [
        f"{state['metric']} {y:.4g} at epsilon {_epsilon(x, None, up=True)}: {name}"
        for (x, y), name in zip(state["pareto"], state["pareto_names"], strict=True)
    ]
    again = "; the sweep's command, run again, goes on from here"
    left = state["waiting"] + len(state["cut_off"])
    best = "none"
    if state["best"] is not None:
        metrics = state["best"]["metrics"]
        figure = f"{state['metric']} {metrics[state['metric']]:.4g}"
        price = _epsilon(metrics["epsilon"], None, up=True)
        best = f"{state['best']['name']}: {figure}, epsilon {price}"
    found = [
        ("driver", f"{state['driver']}{again if state['driver'] == 'ended' and left else ''}"),
        ("trials", f"{numbers}, of {state['trials'] or 'a number that is not known yet'}{others}"),
        ("time to go", _hours(state["seconds_left"])),
        *([("money to go", f"{state['price_left']:.2f}")] if state["price_left"] else []),
        ("epsilon spent", _epsilon(state["epsilon_spent"], state["delta"], up=True)),
        *([("without noise", _BARE)] if state["without_noise"] else []),
        ("epsilon left", _epsilon(state["epsilon_left"], state["delta"], up=False)),
        ("best so far", best),
        ("cluster", state["cluster"] or "-"),
    ]
    found += [("Pareto front", each) for each in front[-_MOST_NAMES:]]
    found += [("running", name) for name in running[:_MOST_NAMES]]
    found += [("cut off", each["name"]) for each in state["cut_off"][:_MOST_NAMES]]
    failed = state["failed"][:_MOST_NAMES]
    return found + [("failed", f"{each['name']}: {each['reason']}") for each in failed]


def _hours(seconds: float | None) -> str:
    if seconds is None:
        return "not known"
    return f"{seconds / 3600:.1f} h" if seconds > 5400 else f"{seconds / 60:.0f} min"


def _epsilon(value: float | None, delta: float | None, *, up: bool) -> str:
    if value is None:
        return "not known"
    unit = 10.0 ** (math.floor(math.log10(value)) - 3) if value > 0 else 1.0
    # Nothing is shown as cheaper than it is.
    counted = math.ceil(value / unit - 1e-9) if up else math.floor(value / unit + 1e-9)
    return f"{counted * unit:.4g}{f' at delta {delta:g}' if delta else ''}"


def page(state: Mapping[str, Any]) -> str:
    """Return the page, whose script loads it again; it fetches nothing from elsewhere."""
    told = {name: html.escape(str(state[name])) for name in ("sweep", "trials")}
    cells = "".join(
        f"<tr><th scope=row>{html.escape(name)}<td>{html.escape(text)}"
        for name, text in rows(state)
    )
    told |= {"ended": str(state["ended"]), "most": str(max(1, state["trials"]))}
    return _PAGE.substitute(told, cells=cells, drawing=_drawing(state))


def _drawing(state: Mapping[str, Any]) -> str:
    """Draw the figure of every trial against epsilon, and the front as steps."""
    every = zip(state["points"], state["names"], strict=True)
    points = [(x, y, name) for (x, y), name in every if x > 0]
    if not points:
        return ""
    logs = [math.log(x) for x, _, _ in points]
    heights = [y for _, y, _ in points]
    wide = max(logs) - min(logs) or 1.0
    high = max(heights) - min(heights) or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        across = 60 + 510 * (math.log(x) - min(logs)) / wide
        return round(across, 1), round(210 - 180 * (y - min(heights)) / high, 1)

    steps = ""
    for x, y in state["pareto"]:
        if x <= 0:  # a logarithmic axis has no place for it
            continue
        across, up = place(x, y)
        steps += f"H{across}V{up}" if steps else f"M{across},{up}"
    dots = "".join(
        '<circle cx="{}" cy="{}" r="4"><title>{}</title></circle>'.format(
            *place(x, y), html.escape(f"{name}: {y:.4g}")
        )
        for x, y, name in points
    )
    marks = "".join(
        f'<text x="50" y="{place(points[0][0], y)[1] + 4}" text-anchor="end">{y:.3g}</text>'
        for y in {min(heights), max(heights)}
    )
    end = 0.0
    for x in sorted({x for x, _, _ in points}):
        across = place(x, heights[0])[0]
        if across > end:
            marks += f'<text x="{across}" y="232" text-anchor="middle">'
            marks += f"{_epsilon(x, None, up=True)}</text>"
            end = across + 45
    metric = html.escape(state["metric"])
    words = f"{metric} of each trial against epsilon; the steps are the Pareto front"
    line = f'<path d="{steps}H590" fill="none" stroke="gray" stroke-width="3"/>' if steps else ""
    return (
        f'<svg viewBox="0 0 600 255" role="img" aria-label="{words}">{line}'
        f'<path d="M56,20V216H595" fill="none" stroke="gray"/>{marks}<text x="60" y="14">{metric}'
        '</text><text x="325" y="250" text-anchor="middle">epsilon (smaller is stricter)</text>'
        f'<g fill="#0072b2">{dots}</g></svg><p>{words}.'
    )


# --- the command ----------------------------------------------------------------------------------


class _Pages(BaseHTTPRequestHandler):
    """Answers who has the token, and nobody else."""

    token: str
    folder: Path
    price_per_hour: float | None

    def do_GET(self) -> None:
        given = parse_qs(self.path.partition("?")[2]).get("token", [""])[0]
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            self.send_error(403, "the address needs the token that labeldp watch printed")
            return
        try:
            now = state_of(self.folder, price_per_hour=self.price_per_hour)
            content = page(now).encode()
        except (OSError, ValueError) as error:
            self.send_error(503, f"the folder can't be read now ({type(error).__name__})")
            return
        self.send_response(200)
        for name, value in (
            ("Content-Type", "text/html; charset=utf-8"),
            ("Content-Length", str(len(content))),
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            ("Content-Security-Policy", _RULES),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words: object) -> None:
        """Print no line for each refresh, which would show the token."""


def server(
    folder: Path, *, port: int = 0, price_per_hour: float | None = None
) -> ThreadingHTTPServer:
    """Return a server on this machine's loopback; its `RequestHandlerClass` has the token."""
    shown = {"folder": folder, "price_per_hour": price_per_hour}
    handler = type("Pages", (_Pages,), {**shown, "token": secrets.token_urlsafe(18)})
    return ThreadingHTTPServer((_HOST, port), handler)


def run(
    *, results: str, text: bool, port: int | None, price_per_hour: float | None, json_: bool
) -> int:
    """Follow a results folder until Ctrl-C; `text` in the terminal, until the sweep ends."""
    folder = Path(results).expanduser().absolute()
    try:
        if price_per_hour is not None and not 0 <= price_per_hour < math.inf:
            raise ValueError(f"--price-per-hour is {price_per_hour:g}; give a number from 0 on")
        now = state_of(folder, price_per_hour=price_per_hour)
        if json_:
            print(json.dumps(now))
            return 0
        if text:
            return _lines(folder, price_per_hour)
        pages = server(folder, port=port or 0, price_per_hour=price_per_hour)
    except (OSError, ValueError, OverflowError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    token: str = vars(pages.RequestHandlerClass)["token"]
    print(f"http://{_HOST}:{pages.server_port}/?token={token}\nCtrl-C ends it.", flush=True)
    with pages, suppress(KeyboardInterrupt):
        pages.serve_forever()
    return 0


def _lines(folder: Path, price_per_hour: float | None) -> int:
    clear = "\x1b[H\x1b[J" if sys.stdout.isatty() else ""
    before = ""
    try:
        while True:
            now = state_of(folder, price_per_hour=price_per_hour)
            lines = [f"{name:<14}{text}" for name, text in rows(now)]
            # Reasons of failures may be any text: no control characters reach the terminal.
            shown = ("".join(filter(str.isprintable, line)) for line in lines)
            text = "\n".join([clear + now["sweep"], *shown])
            if text != before:  # a log has each state once
                print(text, flush=True)
            if now["driver"] == "ended":
                return 0
            before = text
            time.sleep(SECONDS)
    except (KeyboardInterrupt, BrokenPipeError):  # `| head` has read enough
        return 0
