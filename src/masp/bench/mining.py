"""Speed of mining against `collections.Counter`, and growth of its time and memory.

The naive method is the fastest plain one we know: a Counter over zipped shifts of a list.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from masp.bench.turns import in_turns, ratio
from masp.macros.mining import mine_macros

ROWS = 1_000_000
GROWTH_ROWS = (1_000_000, 5_000_000, 50_000_000)
_SETS = {"literal": True, "useful": False}  # name: value of `literal`


def run_heavy_play(rows: int, seed: int = 0, actions: int = 18, mean_run: int = 12) -> np.ndarray:
    """[rows] actions that resemble human play: runs of random length, a few actions used most of the time."""
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
    """Measure; `quick` uses a tenth of the rows and fewer turns, as a check that it works."""
    rows, turns = (ROWS // 10, 3) if quick else (ROWS, 7)
    play = run_heavy_play(rows)
    mine_macros(play[:1000])  # warm-up: imports and first calls

    def mine_naively() -> None:
        naive_top(play)

    work: dict[str, Callable[[], None]] = {"naive": mine_naively}
    work |= {name: partial(_mine, play, literal) for name, literal in _SETS.items()}
    seconds = in_turns(work, turns)
    sizes = [n // 100 for n in GROWTH_ROWS] if quick else list(GROWTH_ROWS)
    return {
        "rows": rows,
        "lengths": [3, 8],
        "turns": turns,
        "same_counts": _same_counts(play),
        **{f"{name}_seconds": float(np.median(times)) for name, times in seconds.items()},
        **ratio("naive_over_ours", seconds["naive"], seconds["literal"]),
        **ratio("naive_over_ours_useful", seconds["naive"], seconds["useful"]),
        **_growth(sizes),
    }


def _mine(play: np.ndarray, literal: bool) -> None:
    mine_macros(play, literal=literal, num_primitives=18)


def _same_counts(play: np.ndarray) -> bool:
    """Whether both methods find the same counts; ties at the last place may be resolved differently."""
    counts = [macro.count for macro in mine_macros(play, literal=True, num_primitives=18).macros]
    return counts == [count for _, count in naive_top(play)]


def _growth(sizes: list[int]) -> dict[str, Any]:
    """Time and peak memory at growing sizes, each in its own process so that memory peaks are separate."""
    result: dict[str, Any] = {"growth": []}
    spawn = multiprocessing.get_context("spawn")
    for name, literal in _SETS.items():
        per_row = []
        for rows in sizes:
            with spawn.Pool(1) as pool:
                times, peak = pool.apply(_measure_size, (rows, literal))
            per_row.append(times / rows)
            entry = {"set": name, "rows": rows, "seconds": float(np.median(times)), "peak_memory_gb": peak}
            result["growth"].append(entry)
        # Time per row at the largest size over that at the smallest, for all pairs of turns; 1 is linear growth.
        largest, smallest = np.meshgrid(per_row[-1], per_row[0])
        result |= ratio(f"{name}_growth_per_row", largest, smallest)
    result["peak_memory_gb"] = max(entry["peak_memory_gb"] for entry in result["growth"])
    return result


def _measure_size(rows: int, literal: bool) -> tuple[np.ndarray, float]:
    """Seconds of three turns, and the peak memory of this process in GB, including the interpreter and the play."""
    import resource  # Unix only

    play = run_heavy_play(rows)
    mine_macros(play[:1000])
    times = in_turns({"mine": partial(_mine, play, literal)}, 3)["mine"]
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes
    return times, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
