"""Scores beside Stable-Baselines3's DQN at equal settings: does our agent learn as much per frame?

    python benchmarks/peer_scores.py [--games breakout space_invaders] [--seeds 60 61 62] [--frames 1000000]

Settings are in `SETTINGS` (ours) and `peers/sb3_dqn_score.py` (theirs). The file `--out` keeps every finished run, so
the command can be stopped and goes on where it was; it prints the differences with 95 % bootstrap intervals over seeds.
The plan is docs/log/2026-11-19-peer-scores-plan.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from peers import HERE, peers_python

import masp
from masp import json_text
from masp.ops import kernels_status
from masp.report.statistics import compare, difference_of

SETTINGS: dict[str, Any] = {
    "variant": "rainbow",
    "num_atoms": 1,
    "double": False,
    "dueling": False,
    "noisy": False,
    "priority_exponent": 0.0,
    "n_step": 1,
    "num_envs": 8,
    "hidden": 128,
    "log_every_frames": 100_000,
    "eval_every_frames": 0,
}
MEASURES = {"eval_return": "eval_return", "train_return": "return"}
"""What is compared, and its column in our metrics."""


def ours(game: str, frames: int, seed: int) -> dict[str, float]:
    """Our scores; the last row of the metrics covers the last 100,000 frames."""
    with tempfile.TemporaryDirectory() as folder:
        run = masp.train(f"minatar-{game}", frames=frames, seed=seed, out=str(Path(folder) / "run"), **SETTINGS)
        return {measure: float(run.metrics[-1][column]) for measure, column in MEASURES.items()}


def theirs(game: str, frames: int, seed: int) -> dict[str, float]:
    """The scores of Stable-Baselines3's DQN, in a process with packages of its own."""
    command = [peers_python(), HERE / "peers" / "sb3_dqn_score.py", game, str(frames), str(seed)]
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def summary(runs: dict[str, dict[str, float]], games: list[str], seeds: list[int]) -> dict[str, Any]:
    """Means of both, and ours minus theirs with its interval, of the games and seeds that are finished."""
    figures: dict[str, Any] = {}
    for game in games:
        done = [seed for seed in seeds if f"ours {game} {seed}" in runs and f"sb3 {game} {seed}" in runs]
        for measure in MEASURES if done else ():
            scores = {
                who: [np.array([runs[f"{who} {game} {seed}"][measure] for seed in done])] for who in ("ours", "sb3")
            }
            difference = compare(scores["ours"], scores["sb3"], difference_of)
            figures[f"{game} {measure}"] = {
                "seeds": len(done),
                **{who: float(np.mean(values[0])) for who, values in scores.items()},
                "difference": difference,
            }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", default=["breakout", "space_invaders"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[60, 61, 62])
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "peer_scores.json")
    args = parser.parse_args()
    kept: dict[str, Any] = json_text.read(args.out) if args.out.exists() else {"frames": args.frames, "runs": {}}
    if kept["frames"] != args.frames:
        parser.error(f"{args.out} holds runs of {kept['frames']:,} frames; give another --out")
    for seed in args.seeds:
        for game in args.games:
            for who, play in (("sb3", theirs), ("ours", ours)):
                if (name := f"{who} {game} {seed}") not in kept["runs"]:
                    kept["runs"][name] = play(game, args.frames, seed)
                    kept |= {"kernels": kernels_status(), "figures": summary(kept["runs"], args.games, args.seeds)}
                    json_text.write(args.out, kept)
                    print(f"{name}: {kept['runs'][name]}", flush=True)
    print(json.dumps(summary(kept["runs"], args.games, args.seeds), indent=1))


if __name__ == "__main__":
    main()
