"""What safety costs: the checks for finite numbers, the log of the replay, and checkpoints in the background.

    python benchmarks/reliability_cost.py --turns 9

Prints JSON. `finite_ratio`: time of the same training with the check of every observation and reward over that without,
in turns in one process. `row_share`: time of the checks at a row over the time between rows at the preset's period.
`log_share`: time that handing the newest rows of the replay to the log takes from training, over training.
`checkpoint_pause_seconds` and `checkpoint_seconds`: how long training waits for a checkpoint, and how much longer
training takes while one is written; `checkpoint_share`: the latter over the three minutes between checkpoints.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from masp.agent import agent
from masp.bench.turns import Training, in_own_process, in_turns, ratio
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


def config_of(case: str) -> TrainConfig:
    settings = {"variant": "masp", "replay_steps": 100_000, "min_replay_steps": 1_000, "frames": 10**9}
    return replace(from_preset("auto", CASES[case][0]), **settings).resolved()


def finite_cost(case: str, turns: int) -> dict[str, Any]:
    """The same program with and without the check, which is inside it."""
    ticks = CASES[case][1]
    checked = Training(config_of(case), ticks)
    with patch.object(agent, "_note_bad_numbers", lambda tally, step, tick: tally):
        unchecked = Training(config_of(case), ticks)
    seconds = in_turns({"checked": checked, "unchecked": unchecked}, turns)
    return ratio("finite", seconds["checked"], seconds["unchecked"])


def session_cost(case: str, turns: int) -> dict[str, Any]:
    """Checks at rows, the log and checkpoints, with a session of real size that is advanced by hand."""
    ticks, pauses = CASES[case][1], []
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

            for work in (plain, logged, saved):
                work()
            frames = session._frames()
            seconds = in_turns({"plain": plain, "logged": logged, "saved": saved}, turns)
            per_frame = float(np.median(seconds["plain"])) / ((session._frames() - frames) / (3 * turns))
            started = time.perf_counter()
            for report in loop.reports(session._state):
                require_finite(report, config.env, run.path, 0)
            row = time.perf_counter() - started
            size = max(path.stat().st_size for path in run.checkpoints.folder.glob("checkpoint-*"))
    checkpoint = float(np.median(seconds["saved"] - seconds["plain"]))
    return {
        "row_share": row / (per_frame * config.log_every_frames),
        "log_share": float(np.median(seconds["logged"] / seconds["plain"])) - 1,
        "checkpoint_megabytes": size / 1e6,
        "checkpoint_pause_seconds": float(np.median(pauses)),
        "checkpoint_seconds": checkpoint,
        "checkpoint_share": checkpoint / CHECKPOINT_SECONDS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--case", choices=CASES, action="append", help="default: all")
    args = parser.parse_args()
    figures: dict[str, Any] = {"turns": args.turns}
    for case in args.case or CASES:
        figures[case] = in_own_process(finite_cost, case, args.turns) | in_own_process(session_cost, case, args.turns)
        print(json.dumps(figures, indent=1), flush=True)


if __name__ == "__main__":
    main()
