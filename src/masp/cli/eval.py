"""Play a trained agent, greedily but for its `--eval-epsilon`, and report its score.

masp eval runs/planted-grid-masp-0 --episodes 100
masp eval runs/planted-grid-masp-0 --video episode.gif
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from masp import json_text
from masp.cli.console import working
from masp.errors import UserError
from masp.report.statistics import bootstrap_interval

if TYPE_CHECKING:
    from masp.training.run import Run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_dir", metavar="RUN_DIR", help="directory that 'masp train' wrote")
    parser.add_argument("--episodes", type=int, default=100, metavar="N", help="episodes to play (default: 100)")
    parser.add_argument("--seed", type=int, default=12345, metavar="N", help="seed of the episodes (default: 12345)")
    parser.add_argument("--video", metavar="FILE", help="also write one episode, with its macros: .gif, .webp or .mp4")
    parser.add_argument(
        "--env-options", nargs="+", default=[], metavar="NAME=VALUE", help="options other than those of training"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    if args.episodes < 1:
        raise UserError(f"--episodes must be at least 1, got {args.episodes}")
    if args.video:
        _require_writable(args.video)
    from masp.ops import cache_programs
    from masp.training.run import load_run

    cache_programs()
    run = load_run(args.run_dir, args.env_options)
    with working(f"playing {args.episodes:,} episodes of {run.config.env}; the program is compiled first"):
        played = run.play(args.episodes, args.seed)
    score, successes = played.score, played.successes(run.success_above)
    report = {
        "run_dir": str(args.run_dir),
        "env": run.config.env,
        "variant": run.config.variant,
        "episodes": args.episodes,
        "seed": args.seed,
        "return": float(np.mean(score)),
        "return_interval": bootstrap_interval(score),
        "success": None if successes is None else float(np.mean(successes)),
        "episode_steps": float(np.mean(played.steps)),
    }
    if args.video:
        report["video"] = args.video
        with working(f"filming one episode into {args.video}"):
            report["video_steps"] = _film(run, args.video, args.seed)
    if args.json:
        print(json_text.dumps(report))
        return 0
    low, high = report["return_interval"]
    print(
        f"{args.run_dir}: return {report['return']:.3f} [{low:.3f}, {high:.3f}] over {args.episodes} episodes", end=""
    )
    print("" if successes is None else f", success {report['success']:.3f}", end="")
    print(f", {report['episode_steps']:.1f} steps an episode")
    if args.video:
        print(f"video of {report['video_steps']} steps: {args.video}")
    return 0


def _require_writable(video: str) -> None:
    from masp.report.video import require_format

    require_format(video)
    if not Path(video).absolute().parent.is_dir():
        raise UserError(f"{video}: there is no such directory")


def _film(run: Run, video: str, seed: int) -> int:
    from masp.report.video import film

    return film(run, video, seed)
