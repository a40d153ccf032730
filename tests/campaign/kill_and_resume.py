"""Kill tiny runs at random moments, resume them, and compare the end with a run that was never killed.

    python tests/campaign/kill_and_resume.py --kills 20 --seed 0
    python tests/campaign/kill_and_resume.py --env CartPole-v1 --variant masp

for every variant in both loops. SIGKILL comes at a random tick of each of 21 equal parts of the run, always after a
checkpoint that was written since the last kill. Checkpoints are written all the time, so many kills fall into a write.
Prints per run: kills, checkpoints left out because they were torn, and whether the end (newest checkpoint with its
replay, policy, best policy, bundle, usage, metrics) is equal bit by bit.

Every training process is a fork of this one, which has imported masp but never started JAX: that saves the import.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from masp.config import from_flat
from masp.training import array_file, session
from masp.training.callbacks import Callback
from masp.training.train import train

CHUNK_TICKS = 24
"""Ticks between checkpoints."""
CLOCKS = ("seconds", "frames_per_second")
SETTINGS = {
    "num_envs": 3, "log_every_frames": 600, "eval_every_frames": 1200, "eval_episodes": 4, "hidden": 8, "num_atoms": 1,
    "noisy": False, "batch_size": 8, "replay_steps": 900, "min_replay_steps": 60, "steps_per_update": 6,
    "target_period_steps": 60, "epsilon_decay_steps": 200, "embedding": 4, "learning_rate": 1e-2, "frames": 7_200,
}  # fmt: skip
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "planted-grid": {"env_options": ["size=4", "copies=2", "max_steps=6"]},  # the compiled loop; all others: host loop
    "CartPole-v1": {},
    "DoorKey-5x5": {"env_options": ["max_steps=40"]},
    "Pong": {"env_options": ["size=36", "max_frames=400"], "frames": 9_600, "eval_every_frames": 4_800},
}
VARIANTS: dict[str, dict[str, Any]] = {"rainbow": {}, "macros": {}, "masp": {}, "outcomes": {"intra_option": True}}


class Messages(Callback):
    """Keeps what training says in a file."""

    def __init__(self, file: Path):
        self._file = file

    def on_message(self, text: str) -> None:
        with open(self._file, "a") as file:
            file.write(text + "\n")


def start(settings: dict[str, Any], out: Path) -> int:
    """Train, or go on with it, in a process of its own; its id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forks of processes with threads, of which this one has none
        pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        session.CHECKPOINT_SECONDS = 0.0
        # Chunks of the same size however busy the machine is, or most of the time would go into checkpoints.
        session.Session._chunk_ticks = property(lambda self: CHUNK_TICKS, lambda self, value: None)  # type: ignore
        train(
            from_flat({**settings, "out": str(out)}), resume=out.exists(), callbacks=[Messages(out.with_suffix(".log"))]
        )
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def running(pid: int) -> bool:
    """Whether the process trains; raises if it failed."""
    done, status = os.waitpid(pid, os.WNOHANG)
    if done and status:
        raise SystemExit(f"training ended with status {status}")
    return not done


def newest_tick(out: Path) -> int:
    """Tick of the newest checkpoint; -1 without one."""
    names = (path.stem.rpartition("-")[2] for path in (out / "checkpoints").glob("checkpoint-*.safetensors"))
    return max(map(int, names), default=-1)


def killed_run(settings: dict[str, Any], out: Path, kills: int, last_tick: int, rng: random.Random) -> int:
    """Train with so many kills, or as many as the run is long enough for; the number of kills."""
    done = 0
    for part in range(kills):
        before, target = newest_tick(out), (part + rng.random()) * last_tick / (kills + 1)
        pid = start(settings, out)
        while alive := running(pid):
            tick = newest_tick(out)
            if tick > before and tick >= target:
                break
            time.sleep(0.005)
        if not alive:
            return done
        time.sleep(rng.uniform(0, 0.05))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        done += 1
    finish(start(settings, out))
    return done


def finish(pid: int) -> None:
    """Wait for the end of a training process."""
    if os.waitpid(pid, 0)[1]:
        raise SystemExit("training failed")


def content(run: Path) -> dict[str, Any]:
    """All that a run leaves, without what a clock says and without how its replay is split over files."""
    newest = run / "checkpoints" / f"checkpoint-{newest_tick(run):012d}.safetensors"
    about = array_file.read_about(newest)
    assert about is not None
    parts: dict[str, Any] = {}
    for file in (newest, run / "policy.safetensors", run / "best.safetensors", run / "similarity.safetensors"):
        parts |= {f"{file.name} {name}": array.tobytes() for name, array in load_file(file).items()}
    parts["replay"] = replay_rows(newest.parent, about["replay"], int(about["config"]["replay_steps"]))
    parts["usage"] = (run / "usage.json").read_text()
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    parts["metrics"] = [{name: value for name, value in row.items() if name not in CLOCKS} for row in rows]
    return parts


def replay_rows(folder: Path, entries: list[dict[str, Any]], steps: int) -> bytes:
    """The newest rows of the log, as many as the replay surely holds."""
    rows = []
    for entry in entries:
        data = np.frombuffer((folder / entry["file"]).read_bytes()[: entry["bytes"]], np.uint8)
        rows += list(data.reshape(entry["ticks"], -1))
    return np.stack(rows[-(steps // SETTINGS["num_envs"]) :]).tobytes()  # type: ignore[operator]


def campaign(env: str, variant: str, kills: int, rng: random.Random, folder: Path) -> bool:
    """One run that is killed beside one that is not; whether they end equal."""
    settings = {**SETTINGS, **VARIANTS[variant], "env": env, "variant": variant, **ENVIRONMENTS[env]}
    whole, killed = folder / f"{env}-{variant}-whole", folder / f"{env}-{variant}-killed"
    finish(start(settings, whole))
    done = killed_run(settings, killed, kills, newest_tick(whole), rng)
    ours, theirs = content(killed), content(whole)
    different = [name for name in theirs if ours.get(name) != theirs[name]]
    log = killed.with_suffix(".log")
    torn = log.read_text().count("the checkpoint before") if log.exists() else 0
    verdict = f"NOT EQUAL: {', '.join(different[:5])}" if different else "equal bit by bit"
    print(f"{env:14} {variant:10} kills {done:3}  torn checkpoints {torn}  {verdict}", flush=True)
    return not different


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="per run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--env", choices=ENVIRONMENTS, action="append", help="default: all")
    parser.add_argument("--variant", choices=VARIANTS, action="append", help="default: all")
    args = parser.parse_args()
    equal = True
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(folder) / "compiled"))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        for env in args.env or ENVIRONMENTS:
            for variant in args.variant or VARIANTS:
                rng = random.Random(f"{env} {variant} {args.seed}")
                equal &= campaign(env, variant, args.kills, rng, Path(folder))
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
