"""Kill a process while it writes a checkpoint; afterwards a whole checkpoint must be there.

    python tests/campaign/kill_in_write.py --kills 200 --seed 0

A process does nothing but append to the log of a replay and write checkpoints whose content follows from their tick.
SIGKILL comes at a random moment of a write. Then the newest usable checkpoint must be the last that was reported as
written, or a newer one, and hold what belongs to its tick. The next process goes on from it.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from masp.errors import UserError
from masp.training.checkpoints import Checkpoints
from masp.training.replay_log import ReplayLog

ROWS, ROW = 64, (4, 512)
"""Capacity of the replay in ticks, and the shape of one row."""
TICKS = 16
"""Ticks between checkpoints."""


def arrays_at(tick: int) -> dict[str, np.ndarray]:
    """The state at a tick: a megabyte."""
    return {"['w']": np.random.default_rng(tick).standard_normal(1 << 17)}


def row_at(tick: int) -> np.ndarray:
    return np.random.default_rng(-tick - 1 + 2**40).integers(0, 256, ROW, np.uint8)


def load(folder: Path) -> tuple[int, list[dict[str, Any]], list[str]]:
    """The newest usable checkpoint as its tick and the segments of its replay, and what was wrong with newer ones."""
    checkpoints, problems = Checkpoints(folder), []
    for tick in checkpoints.ticks():
        ring = np.zeros((ROWS, *ROW), np.uint8)
        try:
            state, about = checkpoints.load(tick, {"w": np.zeros(1 << 17)}, ring)
        except UserError as problem:
            problems.append(str(problem))
            continue
        assert np.array_equal(state["w"], arrays_at(tick)["['w']"]), f"{tick}: the state is another"
        for t in range(max(0, tick - ROWS + 1), tick + 1):
            assert np.array_equal(ring[t % ROWS], row_at(t)), f"{tick}: row {t} is another"
        checkpoints.remove_after(tick)
        return tick, about["replay"], problems
    return -1, [], problems


def write(folder: Path, shared: mmap.mmap, tick: int, segments: list[dict[str, Any]]) -> None:
    """Write checkpoints until killed. `shared`: whether a write is under way, and the tick of the last one."""
    checkpoints, log = Checkpoints(folder), ReplayLog(folder, ROWS, segments)
    about = {"seconds": 0.0, "best": None, "row_frames": 0, "frames_at_row": 0, "row_usage": []}
    while True:
        log.append(tick + 1, np.stack([row_at(t) for t in range(tick + 1, tick + 1 + TICKS)]))
        tick += TICKS
        arrays = arrays_at(tick)
        shared[0] = 1
        checkpoints.save(tick, arrays, about, log)
        shared[1:9] = tick.to_bytes(8, "little")
        shared[0] = 0


def killed(folder: Path, shared: mmap.mmap, rng: random.Random) -> tuple[bool, int, int]:
    """Kill one process; whether it was inside a write, the last tick it reported, and that of the usable checkpoint."""
    tick, segments, _ = load(folder)
    shared[0:9] = bytes([0]) + max(tick, 0).to_bytes(8, "little")
    pid = os.fork()
    if not pid:
        try:
            write(folder, shared, tick, segments)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    while int.from_bytes(shared[1:9], "little") <= max(tick, 0):
        time.sleep(0.001)  # until there is progress
    time.sleep(rng.uniform(0, 0.05))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return bool(shared[0]), int.from_bytes(shared[1:9], "little"), load(folder)[0]


def campaign(kills: int, seed: int) -> tuple[int, int, int]:
    """So many kills inside writes; their number, those that left a usable checkpoint, and all kills."""
    rng, inside, usable, total = random.Random(seed), 0, 0, 0
    shared = mmap.mmap(-1, 16)
    with tempfile.TemporaryDirectory() as folder:
        while inside < kills:
            in_write, reported, found = killed(Path(folder), shared, rng)
            total += 1
            inside += in_write
            usable += in_write and found >= reported
            assert in_write or found >= reported, f"the checkpoint of tick {reported} is gone"
    return inside, usable, total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    inside, usable, total = campaign(args.kills, args.seed)
    print(f"kills inside a write {inside}, usable afterwards {usable}; kills in all {total}")
    return 0 if usable == inside else 1


if __name__ == "__main__":
    sys.exit(main())
