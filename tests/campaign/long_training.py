"""Train for a long time and look whether memory, open files, threads and speed stay as they are.

    python tests/campaign/long_training.py --loop compiled --minutes 120
    python tests/campaign/long_training.py --loop host --minutes 120 --samples samples.csv
    python tests/campaign/long_training.py --read samples.csv

A process trains the full algorithm with a policy that stays as it is (a learning rate of almost nothing, a constant
epsilon), so that the work per frame is the same at all times; it writes a checkpoint every 20 seconds and evaluates
often. This process samples it from outside and fits lines to what comes after the first fifth, when the replay has
been filled for long. Slopes, and the speed of the last third over that of the first, have intervals of 95 % from a
bootstrap over blocks of samples. Speed is in frames per second of processor time, which other work on the machine
disturbs less than the time of day. --read prints the figures of samples that were taken earlier, or so far. Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

SETTINGS = {
    "variant": "masp", "frames": 10**12, "log_every_frames": 2_000, "eval_every_frames": 20_000, "eval_episodes": 4,
    "replay_steps": 20_000, "min_replay_steps": 1_000, "learning_rate": 1e-12, "meta_learning_rate": 1e-9,
    "epsilon": [0.2, 0.2],
}  # fmt: skip
ENVIRONMENTS = {"compiled": "minatar-breakout", "host": "CartPole-v1"}
PROGRAM = """
import json, sys
from masp.config import replace, typed_settings
from masp.ops import tune_this_process
from masp.presets import from_preset
from masp.training.stopping import StoppedBySignal
from masp.training.train import train
env, settings = sys.argv[1], typed_settings(json.loads(sys.argv[2]), "settings")
tune_this_process("")
try:
    train(replace(from_preset("auto", env), **settings))
except StoppedBySignal as stop:
    print(stop, file=sys.stderr)
"""
BLOCKS = 20
"""Blocks of the bootstrap: neighbouring samples are alike."""


def sample(process: subprocess.Popen[bytes], run: Path) -> dict[str, float]:
    """What the process holds now, and what it has done."""
    proc = Path(f"/proc/{process.pid}")
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    fields = (proc / "stat").read_text().rpartition(")")[2].split()
    frames = 0
    with contextlib.suppress(OSError, IndexError), open(run / "metrics.jsonl", "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
        frames = json.loads(file.read().split(b"\n")[-2])["frames"]
    return {
        "seconds": time.monotonic(),
        "cpu_seconds": (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
        "frames": frames,
        "memory_mb": int(status["RssAnon"].split()[0]) / 1024,  # without files, whose pages the system takes and gives
        "files": len(list((proc / "fd").iterdir())),
        "threads": int(status["Threads"]),
        "maps": (proc / "maps").read_bytes().count(b"\n"),
    }


def slope(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> tuple[float, float, float]:
    """Least-squares slope of y over x, with the limits of its interval of 95 %."""
    blocks = np.array_split(np.arange(len(x)), BLOCKS)
    draws = []
    for _ in range(2000):
        chosen = np.concatenate([blocks[i] for i in rng.integers(0, len(blocks), len(blocks))])
        draws.append(np.polyfit(x[chosen] - x.mean(), y[chosen], 1)[0])
    low, high = np.quantile(draws, (0.025, 0.975))
    return float(np.polyfit(x - x.mean(), y, 1)[0]), float(low), float(high)


def ratio_of_speeds(frames: np.ndarray, cpu: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    """Frames per second of processor time in each third, and the last over the first with its interval of 95 %."""
    steps = np.stack([np.diff(frames), np.diff(cpu)])
    thirds = [np.array_split(third, BLOCKS, axis=1) for third in np.array_split(steps, 3, axis=1)]

    def speed(blocks: list[np.ndarray]) -> float:
        played, seconds = np.concatenate(blocks, axis=1).sum(axis=1)
        return float(played / seconds)

    def drawn(blocks: list[np.ndarray]) -> list[np.ndarray]:
        return [blocks[i] for i in rng.integers(0, BLOCKS, BLOCKS)]

    draws = [speed(drawn(thirds[-1])) / speed(drawn(thirds[0])) for _ in range(2000)]
    speeds = [speed(third) for third in thirds]
    return {
        "frames_per_cpu_second": speeds,
        "speed_ratio_end_to_beginning": speeds[-1] / speeds[0],
        "speed_ratio_interval": [float(limit) for limit in np.quantile(draws, (0.025, 0.975))],
    }


def summarise(samples: list[dict[str, float]]) -> dict[str, Any]:
    """Slopes per hour and per million frames, and the speed at the end over that at the beginning."""
    columns = {name: np.array([row[name] for row in samples]) for name in samples[0]}
    settled = columns["seconds"] >= columns["seconds"][0] + 0.2 * np.ptp(columns["seconds"])
    part = {name: values[settled] for name, values in columns.items()}
    rng = np.random.default_rng(0)
    result: dict[str, Any] = {
        "hours": float(np.ptp(columns["seconds"])) / 3600,
        "frames": int(part["frames"][-1]),
        "cpu_hours": float(np.ptp(columns["cpu_seconds"])) / 3600,
    }
    for name in ("memory_mb", "files", "threads", "maps"):
        result[name] = {"first": float(part[name][0]), "last": float(part[name][-1]), "most": float(part[name].max())}
        for unit, x in (("per_hour", part["seconds"] / 3600), ("per_million_frames", part["frames"] / 1e6)):
            result[name][unit] = slope(x, part[name], rng)
    return {**result, **ratio_of_speeds(part["frames"], part["cpu_seconds"], rng)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loop", choices=ENVIRONMENTS, default="compiled")
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--every", type=float, default=5, help="seconds between samples")
    parser.add_argument("--samples", type=Path, help="CSV file for the samples")
    parser.add_argument("--read", type=Path, help="only print the figures of such a CSV file")
    args = parser.parse_args()
    if args.read:
        with open(args.read, newline="") as file:
            rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
        print(json.dumps(summarise(rows), indent=1))
        return 0
    samples: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "-c", PROGRAM, ENVIRONMENTS[args.loop], json.dumps({**SETTINGS, "out": str(run)})]
        process = subprocess.Popen(command, env={**os.environ, "MASP_CHECKPOINT_SECONDS": "20"})
        try:
            end = time.monotonic() + 60 * args.minutes
            while time.monotonic() < end:
                time.sleep(args.every)
                if process.poll() is not None:
                    raise SystemExit(f"training ended with {process.returncode}")
                samples.append(sample(process, run))
                if args.samples:
                    with open(args.samples, "w", newline="") as file:
                        writer = csv.DictWriter(file, samples[0])
                        writer.writeheader()
                        writer.writerows(samples)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
    print(json.dumps({"loop": args.loop, "env": ENVIRONMENTS[args.loop], **summarise(samples)}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
