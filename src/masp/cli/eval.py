"""Play a trained agent greedily and report its score.

masp eval runs/planted-grid-masp-0 --episodes 100
"""

from __future__ import annotations

import argparse
import json

import numpy as np

from masp.analysis.statistics import bootstrap_interval
from masp.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_dir", metavar="RUN_DIR", help="directory that 'masp train' wrote")
    parser.add_argument("--episodes", type=int, default=100, metavar="N", help="episodes to play (default: 100)")
    parser.add_argument("--seed", type=int, default=12345, metavar="N", help="seed of the episodes (default: 12345)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    if args.episodes < 1:
        raise UserError(f"--episodes must be at least 1, got {args.episodes}")
    from masp.training.run import load_run

    run = load_run(args.run_dir)
    score, steps = run.evaluate(args.episodes, args.seed)
    above = run.success_above
    report = {
        "run_dir": str(args.run_dir),
        "env": run.config.env,
        "variant": run.config.variant,
        "episodes": args.episodes,
        "seed": args.seed,
        "return": float(np.mean(score)),
        "return_interval": bootstrap_interval(score),
        "success": None if above is None else float(np.mean(score > above)),
        "episode_steps": float(np.mean(steps)),
    }
    if args.json:
        print(json.dumps(report))
        return 0
    low, high = report["return_interval"]
    print(
        f"{args.run_dir}: return {report['return']:.3f} [{low:.3f}, {high:.3f}] over {args.episodes} episodes", end=""
    )
    print("" if above is None else f", success {report['success']:.3f}", end="")
    print(f", {report['episode_steps']:.1f} steps an episode")
    return 0
