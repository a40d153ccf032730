"""Speed of mining macros over counting with collections.Counter, and growth of time and memory.

The naive reference is the fastest plain one that we know: a Counter over zipped shifts of a list.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
from collections import Counter
from typing import Any

import numpy as np

from masp.bench.turns import in_turns, ratio
from masp.macros.mining import mine_macros

ROWS = 1_000_000
GROWTH_ROWS = (1_000_000, 5_000_000, 50_000_000)


def run_heavy_play(rows: int, seed: int = 0, actions: int = 18, mean_run: int = 12) -> np.ndarray:
    """[rows] actions like those of human play: runs of random length, with a few frequent actions."""
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
    """Measure; `quick` takes a tenth of the rows and fewer turns, and only shows that it works."""
    rows, turns = (ROWS // 10, 3) if quick else (ROWS, 7)
    play = run_heavy_play(rows)
    mine_macros(play[:1000])  # imports and first calls are not measured
    work = {
        "naive": lambda: naive_top(play),
        "literal": lambda: mine_macros(play, literal=True, num_primitives=18),
        "useful": lambda: mine_macros(play, num_primitives=18),
    }
    seconds = in_turns(work, turns)
    return {
        "rows": rows,
        "lengths": [3, 8],
        "turns": turns,
        "same_counts": _same_counts(play),
        **{f"{name}_seconds": float(np.median(times)) for name, times in seconds.items()},
        **ratio("naive_over_ours", seconds["naive"], seconds["literal"]),
        **ratio("naive_over_ours_useful", seconds["naive"], seconds["useful"]),
        **_growth([n // 100 for n in GROWTH_ROWS] if quick else list(GROWTH_ROWS)),
    }


def _same_counts(play: np.ndarray) -> bool:
    """Whether both find the same counts; the order of equally frequent sequences is not compared."""
    ours = [macro.count for macro in mine_macros(play, literal=True, num_primitives=18).macros]
    return ours == [count for _, count in naive_top(play)]


def _growth(sizes: list[int]) -> dict[str, Any]:
    """Time and peak memory at growing sizes, each in a process of its own, because the peak is that of a process."""
    figures: dict[str, Any] = {"growth": []}
    spawn = multiprocessing.get_context("spawn")
    for literal in (True, False):
        per_row = []
        for rows in sizes:
            with spawn.Pool(1) as pool:
                times, peak = pool.apply(_one_size, (rows, literal))
            per_row.append(np.array(times) / rows)
            figures["growth"].append(
                {
                    "set": "literal" if literal else "useful",
                    "rows": rows,
                    "seconds": float(np.median(times)),
                    "peak_memory_gb": peak,
                }
            )
        # time per row at the largest size over that at the smallest; 1 is linear growth
        ratios = (per_row[-1][:, None] / per_row[0][None, :]).ravel()
        name = f"{'literal' if literal else 'useful'}_growth_per_row_ratio"
        figures[name] = float(np.median(ratios))
        figures[f"{name}_interval"] = np.quantile(ratios, [0.1, 0.9]).tolist()
    figures["peak_memory_gb"] = max(entry["peak_memory_gb"] for entry in figures["growth"])
    return figures


def _one_size(rows: int, literal: bool) -> tuple[list[float], float]:
    """Seconds of three turns, and the peak memory of this process in GB, interpreter and play included."""
    play = run_heavy_play(rows)
    mine_macros(play[:1000])
    times = in_turns({"mining": lambda: mine_macros(play, literal=literal, num_primitives=18)}, 3)["mining"].tolist()
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes
    return times, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
