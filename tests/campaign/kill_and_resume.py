"""Kill tiny runs at random moments, resume them, and compare the end with a run that was never killed.

    python tests/campaign/kill_and_resume.py --kills 20 --minutes 20 --seed 0

Kills come after the first checkpoint, at random times, with SIGKILL. Checkpoints are written after every chunk, so many
kills fall into a write. Prints per loop: kills, restarts that went on, and whether the end is equal bit by bit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

CLOCKS = ("seconds", "frames_per_second")
SETTINGS = {
    "num_envs": 3, "log_every_frames": 600, "eval_every_frames": 1200, "eval_episodes": 4, "hidden": 8, "num_atoms": 1,
    "noisy": False, "batch_size": 8, "replay_steps": 900, "min_replay_steps": 60, "steps_per_update": 6,
    "target_period_steps": 60, "epsilon_decay_steps": 200, "embedding": 4, "learning_rate": 1e-2,
}  # fmt: skip
LOOPS = {
    "compiled": {"env": "planted-grid", "env_options": ["size=4", "copies=2", "max_steps=6"]},
    "host": {"env": "CartPole-v1", "env_options": []},
}
PROGRAM = """
import json, sys
from masp.config import from_flat
from masp.training import session
from masp.training.train import train
session.CHECKPOINT_SECONDS = 0.0
session.CHUNK_SECONDS = 0.05
train(from_flat(json.loads(sys.argv[1])), resume=sys.argv[2] == "resume")
"""


def start(settings: dict[str, Any], out: Path, mode: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", PROGRAM, json.dumps({**settings, "out": str(out)}), mode]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes]) -> None:
    _, said = process.communicate()
    if process.returncode:
        raise SystemExit(said.decode())


def content(run: Path) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """The newest checkpoint and the metrics, without what a clock says."""
    arrays = load_file(max((run / "checkpoints").glob("checkpoint-*")))
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    kept = [{name: value for name, value in row.items() if name not in CLOCKS} for row in rows]
    return {name: array.tobytes() for name, array in arrays.items()}, kept


def killed_run(settings: dict[str, Any], out: Path, kills: int, rng: random.Random, end: float) -> int:
    """Train with so many kills, or as many as there is time and training for; the number of kills."""
    done = 0
    while done < kills and time.monotonic() < end:
        process = start(settings, out, "resume")
        newest = max((out / "checkpoints").glob("checkpoint-*"), default=None)
        while process.poll() is None and max((out / "checkpoints").glob("checkpoint-*"), default=None) == newest:
            time.sleep(0.01)  # until there is progress
        time.sleep(rng.uniform(0, 1.0))
        if process.poll() is not None:
            finish(process)
            return done
        process.kill()
        process.communicate()
        done += 1
    finish(start(settings, out, "resume"))
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="per loop")
    parser.add_argument("--frames", type=int, default=60_000)
    parser.add_argument("--minutes", type=float, default=20, help="no kill after this time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--loop", choices=[*LOOPS, "both"], default="both")
    args = parser.parse_args()
    rng, end = random.Random(args.seed), time.monotonic() + 60 * args.minutes
    unequal = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(folder) / "compiled"))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        for name in LOOPS if args.loop == "both" else [args.loop]:
            settings = {**SETTINGS, **LOOPS[name], "frames": args.frames}
            finish(start(settings, Path(folder) / f"{name}-whole", "new"))
            kills = killed_run(settings, Path(folder) / f"{name}-killed", args.kills, rng, end)
            equal = content(Path(folder) / f"{name}-whole") == content(Path(folder) / f"{name}-killed")
            unequal += not equal
            print(f"{name:10} kills {kills:4}  {'equal bit by bit' if equal else 'NOT EQUAL'}", flush=True)
    return 1 if unequal else 0


if __name__ == "__main__":
    sys.exit(main())
