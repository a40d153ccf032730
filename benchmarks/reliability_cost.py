"""What safety costs: the checks for finite numbers, the log of the replay, and checkpoints in the background.

    python benchmarks/reliability_cost.py --turns 9
    python benchmarks/reliability_cost.py --quick

Prints JSON, with every figure by two clocks: `wall`, which needs a quiet machine, and `cpu`, the processor time of all
threads, which other work on the machine disturbs less and which also counts what runs beside training.

`finite_ratio`: time of the same training with the check of every observation and reward over that without, in turns in
one process. `row_share`: time of the checks at a row over the time between rows at the preset's period. `log_share`:
time that handing the newest rows of the replay to the log takes from training, over training. `checkpoint_seconds`: how
much longer training takes while a checkpoint is written; `checkpoint_share`: that over the three minutes between
checkpoints. `checkpoint_pause_seconds`: how long training waits for one. `cost_share`: all of it, the share of training
that safety costs.

Shares are medians over turns. --quick takes fewer and shorter turns, to see that everything works.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from masp.agent import agent
from masp.bench.turns import Training, in_own_process, ratio
from masp.config import TrainConfig, replace
from masp.presets import from_preset
from masp.training.finite import require_finite
from masp.training.session import CHECKPOINT_SECONDS, Session

CASES: dict[str, tuple[str, int]] = {
    "planted": ("planted-grid", 800),
    "minatar": ("minatar-breakout", 200),
    "cartpole": ("CartPole-v1", 200),
}
"""Environment, and ticks per turn."""
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


def config_of(case: str) -> TrainConfig:
    settings = {"variant": "masp", "replay_steps": 100_000, "min_replay_steps": 1_000, "frames": 10**9}
    return replace(from_preset("auto", CASES[case][0]), **settings).resolved()


def by_clocks(work: Mapping[str, Callable[[], Any]], turns: int) -> dict[str, dict[str, np.ndarray]]:
    """[turns] seconds by clock and candidate; every turn runs all of them once, in alternating order."""
    seconds = {clock: {name: np.zeros(turns) for name in work} for clock in CLOCKS}
    for turn in range(turns):
        for name in list(work)[:: 1 if turn % 2 == 0 else -1]:
            started = [clock() for clock in CLOCKS.values()]
            work[name]()
            for (clock, now), then in zip(CLOCKS.items(), started, strict=True):
                seconds[clock][name][turn] = now() - then
    return seconds


def finite_cost(case: str, turns: int, ticks: int) -> dict[str, Any]:
    """The same program with and without the check, which is inside it."""
    checked = Training(config_of(case), ticks)
    with patch.object(agent, "_note_bad_numbers", lambda tally, step, tick: tally):
        unchecked = Training(config_of(case), ticks)
    seconds = by_clocks({"checked": checked, "unchecked": unchecked}, turns)
    return {clock: ratio("finite", times["checked"], times["unchecked"]) for clock, times in seconds.items()}


def session_cost(case: str, turns: int, ticks: int) -> dict[str, Any]:
    """Checks at rows, the log and checkpoints, with a session of real size that is advanced by hand."""
    pauses: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        config = replace(config_of(case), out=str(Path(folder) / "run"))
        with Session([config], False, []) as session:
            run, loop = session._runs[0], session._loop
            run.open(config, session._actions[0], False)
            session._stop = type("Never", (), {"number": 0})()  # type: ignore[assignment]
            session._begin()
            session._warm_up()

            def plain() -> None:
                session._state = loop.run(session._state, ticks, True)
                session._frames()  # waits for the end

            def logged() -> None:
                plain()
                session._log_replay()
                session._writer.wait()

            def saved() -> None:
                started = time.perf_counter()
                session._save()
                pauses.append(time.perf_counter() - started)
                plain()
                session._writer.wait()

            def checked() -> None:
                for report in loop.reports(session._state):
                    require_finite(report, config.env, run.path, 0)

            works = {"plain": plain, "logged": logged, "saved": saved, "checked": checked}
            for work in works.values():
                work()
            frames = session._frames()
            seconds = by_clocks(works, turns)
            frames_per_turn = (session._frames() - frames) / (3 * turns)
            size = max(path.stat().st_size for path in run.checkpoints.folder.glob("checkpoint-*"))
    figures: dict[str, Any] = {}
    for clock, times in seconds.items():
        base = times["plain"]
        log, checkpoint = ratio("log", times["logged"], base), float(np.median(times["saved"] - base))
        figures[clock] = {
            "row_share": float(np.median(times["checked"] / base)) * frames_per_turn / config.log_every_frames,
            **log,
            "log_share": log["log_ratio"] - 1,
            "checkpoint_seconds": checkpoint,
            "checkpoint_share": checkpoint / CHECKPOINT_SECONDS,
        }
    return {
        **figures,
        "checkpoint_megabytes": size / 1e6,
        "checkpoint_pause_seconds": float(np.median(pauses)),
    }


def figures_of(case: str, turns: int, ticks: int) -> dict[str, Any]:
    """All figures of one case."""
    finite = in_own_process(finite_cost, case, turns, ticks)
    figures = in_own_process(session_cost, case, turns, ticks)
    for clock in CLOCKS:
        parts = figures[clock] = {**finite[clock], **figures[clock]}
        shares = ("row_share", "log_share", "checkpoint_share")
        parts["cost_share"] = parts["finite_ratio"] - 1 + sum(parts[name] for name in shares)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--case", choices=CASES, action="append", help="default: all")
    parser.add_argument("--quick", action="store_true", help="two turns of a tenth of the length, of the first case")
    args = parser.parse_args()
    turns = 2 if args.quick else args.turns
    figures: dict[str, Any] = {"turns": turns, "load_average": os.getloadavg()[0]}
    for case in args.case or (list(CASES)[:1] if args.quick else CASES):
        figures[case] = figures_of(case, turns, CASES[case][1] // (10 if args.quick else 1))
        print(json.dumps(figures, indent=1), flush=True)


if __name__ == "__main__":
    main()
