"""W1 calibrate and W2 predict sets: split calibration on wide and narrow matrices, against every peer."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import aptset
from aptset.kernels import engines
from benchmarks.data import of_kind, shared
from benchmarks.peers import ADAPTIVE, Peer
from benchmarks.timing import Line, Work, in_new_process, lines_of, race, stream
from benchmarks.yardsticks import ALPHA, sort_calibrate, sort_predict

LEVELS = [round(0.01 * k, 2) for k in range(1, 21)]
NUMPY_SORT, NUMPY_PATH = "numpy, sorting", "aptset without its compiled loops"


@contextmanager
def numpy_path() -> Iterator[None]:
    """Switch the compiled loops off."""
    engine, engines.chosen = engines.chosen, engines.NUMPY
    try:
        yield
    finally:
        engines.chosen = engine


def without_loops(work: Work) -> Work:
    def run() -> Any:
        with numpy_path():
            return work()

    return run


def sprint(name: str, p: np.ndarray, labels: np.ndarray, rounds: int) -> list[Line]:
    """Our own entries against the stream, in many short rounds."""
    calibration = aptset.calibrate(p, labels, random_state=0)
    calibration.threshold(ALPHA)
    predict_set, predict_mask = calibration.predict_set, calibration.predict_mask
    one = {
        "W1": lambda: aptset.calibrate(p, labels, random_state=0),
        "W1 and first threshold": lambda: aptset.calibrate(p, labels, random_state=0).threshold(ALPHA),
        "W2 mask": lambda: predict_mask(p, ALPHA),
        "W2 sets": lambda: predict_set(p, ALPHA),
        "W2 sets in order": lambda: predict_set(p, ALPHA).indices,
    }
    best = race({"stream": stream(p), **one}, rounds)
    lines = lines_of(name, {"stream": best.pop("stream")}, rounds)
    for work, seconds in best.items():
        lines.append(Line(f"{work} {name}", "aptset", seconds, seconds / (lines[0].seconds or 1.0), rounds=rounds))
    return lines


def with_peers(
    name: str, p: np.ndarray, labels: np.ndarray, peers: list[Peer], rounds: int, budget: float
) -> tuple[list[Line], dict[str, str]]:
    """Everyone calibrates, then everyone predicts; equal rounds for all. Who takes too long predicts some rows."""
    u = np.random.default_rng(1).random(len(p))
    calibrates: dict[str, Work] = {"aptset": lambda: aptset.calibrate(p, labels, random_state=0)}
    calibrates[NUMPY_PATH] = without_loops(calibrates["aptset"])
    calibrates[NUMPY_SORT] = lambda: sort_calibrate(p, labels, u)
    calibration = aptset.calibrate(p, labels, random_state=0)
    scores = sort_calibrate(p, labels, u)
    predicts: dict[str, Work] = {"aptset": lambda: calibration.predict_mask(p, ALPHA)}
    predicts[NUMPY_PATH] = without_loops(predicts["aptset"])
    predicts[NUMPY_SORT] = lambda: sort_predict(p, u, scores, [ALPHA])
    notes, agrees, failed, scale = {}, {NUMPY_SORT: _agreement_of_sorting(p, labels, u)}, {}, {}
    for peer in peers:
        try:
            state = peer.calibrate(p, labels)
            some = p[: _affordable(peer, state, p, budget)]
            share = _agreement(p, labels, some, peer.mask(peer.predict(state, some), p.shape[1]), peer.compared_with)
            scale[peer.name] = len(p) / len(some)
            agrees[peer.name] = f"{share:.4%}" + ("" if peer.compared_with == ADAPTIVE else " of another score")
            notes[peer.name] = _note(peer, len(some), len(p))
            calibrates[peer.name] = _bind(peer.calibrate, p, labels)
            predicts[peer.name] = _bind(peer.predict, state, some)
        except Exception as error:  # out of memory, for example: reported with its workload
            failed[f"{peer.name}, {name}"] = f"{type(error).__name__}: {str(error)[:120]}"
    lines = lines_of(f"W1 {name}", race({"stream": stream(p), **calibrates}, rounds), rounds)
    best = race({"stream": stream(p), **predicts}, rounds)
    best = {who: seconds * scale.get(who, 1.0) for who, seconds in best.items()}
    return lines + lines_of(f"W2 mask {name}", best, rounds, notes, agrees), failed


def _affordable(peer: Peer, state: Any, p: np.ndarray, budget: float) -> int:
    """Return how many rows a peer predicts within some seconds, judged by a few of them."""
    few = p[:200]
    start = time.perf_counter()
    peer.predict(state, few)
    return int(np.clip(budget / (time.perf_counter() - start) * len(few), len(few), len(p)))


def _note(peer: Peer, n_some: int, n: int) -> str:
    return peer.why + (f"; predicted {n_some:,} of {n:,} rows, scaled up" if n_some < n else "")


def _bind(work: Callable[..., Any], *arguments: Any) -> Work:
    return lambda: work(*arguments)


def _agreement(p: np.ndarray, labels: np.ndarray, some: np.ndarray, mask: np.ndarray, conformity: str) -> float:
    """Share of memberships that agree with aptset at u = 0, the only u that every peer can be brought to."""
    u = np.zeros(len(p)) if conformity == ADAPTIVE else np.ones(len(p))
    calibration = aptset.calibrate(p, labels, conformity=conformity, u=u)
    return float((calibration.predict_mask(some, ALPHA, u=u[: len(some)]) == mask).mean())


def _agreement_of_sorting(p: np.ndarray, labels: np.ndarray, u: np.ndarray) -> str:
    calibration = aptset.calibrate(p, labels, u=u)
    (mask,) = sort_predict(p, u, sort_calibrate(p, labels, u), [ALPHA])
    return f"{float((calibration.predict_mask(p, ALPHA, u=u) == mask).mean()):.4%}"


def many_levels(name: str, p: np.ndarray, labels: np.ndarray, rounds: int) -> list[Line]:
    """Sets at twenty levels from one call. (The peers sort every row again for each level: not run.)"""
    u = np.random.default_rng(1).random(len(p))
    calibration, scores = aptset.calibrate(p, labels, random_state=0), sort_calibrate(p, labels, u)
    entries: dict[str, Work] = {
        "stream": stream(p),
        "aptset": lambda: calibration.predict_set(p, LEVELS),
        NUMPY_SORT: lambda: sort_predict(p, u, scores, LEVELS),
    }
    return lines_of(f"W2 20 levels {name}", race(entries, rounds), rounds)


def memory_lines(wide: tuple[int, int], narrow: tuple[int, int]) -> list[dict[str, Any]]:
    found = []
    for kind in ("peaked", "flat"):
        for n, n_classes in (wide, narrow):
            for work in ("W1", "W2", "W2 mask"):
                answer = in_new_process("process", "memory", work, kind, str(n), str(n_classes))
                found.append({"workload": f"{work}, {kind}, {n:,} x {n_classes:,}", **answer})
    return found


def run(quick: bool, peers: list[Peer]) -> tuple[list[Line], dict[str, str]]:
    """Measure W1 and W2."""
    shapes = [(10_000, 1000), (200_000, 10)] if quick else [(50_000, 1000), (1_000_000, 10)]
    lines, failed = [], {}
    for n, n_classes in shapes:
        for kind in ("peaked", "flat"):
            p, labels = of_kind(kind, n, n_classes)
            name = f"{n:,} x {n_classes:,} {kind}"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                lines += sprint(name, p, labels, 5 if quick else 11)
                if kind == "peaked":
                    some, more = with_peers(name, p, labels, peers, *((1, 1.0) if quick else (2, 4.0)))
                    lines += some + many_levels(name, p, labels, 1 if quick else 2)
                    failed |= more
            del p, labels
    for name, (p, labels) in shared().items():
        lines += sprint(f"{name} (shared scores)", p, labels, 5)
    return lines, failed
