"""How fast macros are mined, against counting with collections.Counter, and how time and memory grow.

The two ways are timed in turns in one run, because the machine may be busy with other work; each ratio is that of
one turn, and the interval spans the middle 80 % of the turns. The naive way is the fastest plain one we know:
Counter over zipped shifts of a list.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections import Counter
from typing import Any

import numpy as np

from masp.macros.mining import mine_macros

ROWS = 1_000_000
GROWTH_ROWS = (1_000_000, 5_000_000, 50_000_000)


def run_heavy_play(rows: int, seed: int = 0, actions: int = 18, mean_run: int = 12) -> np.ndarray:
    """[rows] actions that look like a person's: runs of random length, a few actions used most of the time."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(actions, 0.3))
    play = np.zeros(0, np.uint8)
    while len(play) < rows:
        number = (rows - len(play)) // mean_run + 64
        runs = rng.choice(actions, number, p=weights).astype(np.uint8)
        play = np.concatenate([play, np.repeat(runs, rng.geometric(1 / mean_run, number))])
    return play[:rows]


def naive_top(play: np.ndarray, k: int = 32, min_length: int = 3, max_length: int = 8) -> list[tuple[tuple, int]]:
    """The k most frequent subsequences by collections.Counter."""
    actions = play.tolist()
    counts: Counter[tuple] = Counter()
    for length in range(min_length, max_length + 1):
        counts.update(zip(*(actions[i:] for i in range(length)), strict=False))
    return counts.most_common(k)


def run(quick: bool = False) -> dict[str, Any]:
    """Measure; `quick` takes a tenth of the rows and fewer turns, to see that it works."""
    rows, turns = (ROWS // 10, 3) if quick else (ROWS, 7)
    play = run_heavy_play(rows)
    seconds: dict[str, list[float]] = {"naive": [], "literal": [], "useful": []}
    mine_macros(play[:1000])  # imports and first calls are not what is measured
    for _ in range(turns):
        seconds["naive"].append(_timed(lambda: naive_top(play)))
        seconds["literal"].append(_timed(lambda: mine_macros(play, literal=True, num_primitives=18)))
        seconds["useful"].append(_timed(lambda: mine_macros(play, num_primitives=18)))
    return {
        "rows": rows,
        "lengths": [3, 8],
        "turns": turns,
        "same_counts": _same_counts(play),
        **{f"{name}_seconds": float(np.median(times)) for name, times in seconds.items()},
        **_ratio("naive_over_ours_ratio", seconds["naive"], seconds["literal"]),
        **_ratio("naive_over_ours_useful_ratio", seconds["naive"], seconds["useful"]),
        **_growth([n // 100 for n in GROWTH_ROWS] if quick else list(GROWTH_ROWS)),
    }


def _timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _ratio(name: str, slow: list[float], fast: list[float]) -> dict[str, Any]:
    ratios = np.array(slow) / np.array(fast)
    return {name: float(np.median(ratios)), f"{name}_interval": np.quantile(ratios, [0.1, 0.9]).tolist()}


def _same_counts(play: np.ndarray) -> bool:
    """Whether both ways find the same counts; which of equally frequent sequences come last is left open."""
    ours = [macro.count for macro in mine_macros(play, literal=True, num_primitives=18).macros]
    return ours == [count for _, count in naive_top(play)]


def _growth(sizes: list[int]) -> dict[str, Any]:
    """Time and peak memory at growing sizes, each in a process of its own so that peaks are its own."""
    found: dict[str, Any] = {"growth": []}
    spawn = multiprocessing.get_context("spawn")
    for literal in (True, False):
        per_row = []
        for rows in sizes:
            with spawn.Pool(1) as pool:
                times, peak = pool.apply(_one_size, (rows, literal))
            per_row.append(np.array(times) / rows)
            found["growth"].append(
                {
                    "set": "literal" if literal else "useful",
                    "rows": rows,
                    "seconds": float(np.median(times)),
                    "peak_memory_gb": peak,
                }
            )
        # 1 is linear growth: the time per row at the largest size over that at the smallest
        ratios = (per_row[-1][:, None] / per_row[0][None, :]).ravel()
        name = f"{'literal' if literal else 'useful'}_growth_per_row_ratio"
        found[name] = float(np.median(ratios))
        found[f"{name}_interval"] = np.quantile(ratios, [0.1, 0.9]).tolist()
    found["peak_memory_gb"] = max(entry["peak_memory_gb"] for entry in found["growth"])
    return found


def _one_size(rows: int, literal: bool) -> tuple[list[float], float]:
    """Seconds of three turns and the peak memory of this process in GB, the interpreter and the play included."""
    play = run_heavy_play(rows)
    mine_macros(play[:1000])
    times = [_timed(lambda: mine_macros(play, literal=literal, num_primitives=18)) for _ in range(3)]
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes
    return times, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
