"""Train an agent and write a run directory.

  masp train planted-grid --variant masp
  masp train MiniGrid-DoorKey-5x5-v0 --variant macros --frames 200000
  masp train CartPole-v1 --variant rainbow --seed 3 --out runs/pole
  masp train --config runs/pole/config.json --seed 4 --out runs/pole-4

Settings come from a preset that fits the environment (or from --preset), then from --config; every one of them is also
a flag, and flags come last.
"""

from __future__ import annotations

import argparse
from typing import Any

from masp.cli.flags import add_config_flags, with_flags
from masp.cli.progress import TrainProgress
from masp.config import TrainConfig, replace
from masp.errors import UserError
from masp.presets import PAPER, PRESETS, from_preset


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "env",
        nargs="?",
        help="environment id: planted-grid, DoorKey-5x5, any Gymnasium id, module:function; 'masp envs' lists more",
    )
    parser.add_argument("--config", metavar="FILE", help="settings of a run (its config.json) or of your own (TOML)")
    parser.add_argument("--preset", default="auto", metavar="NAME", help=f"auto, {', '.join(PRESETS)} (default: auto)")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in --out")
    parser.add_argument("--paper", action="store_true", help="switch off what the presets add to the paper's algorithm")
    parser.add_argument("--bundle", metavar="FILE", help="macros and similarity of another run, to start from")
    parser.add_argument("--frozen", action="store_true", help="keep the similarity as it starts (meta-learning rate 0)")
    parser.add_argument(
        "--track",
        action="append",
        default=[],
        choices=("tensorboard", "wandb", "mlflow"),
        help="also log the metrics with this tracker; can be given several times",
    )
    add_config_flags(parser, skip=("env",))


def _shorthand(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that --paper, --bundle and --frozen stand for; flags of single settings come after them."""
    settings: dict[str, Any] = dict(PAPER) if args.paper else {}
    if args.bundle:
        settings |= {"macros": args.bundle, "similarity_start": args.bundle}
    if args.frozen:
        settings |= {"meta_learning_rate": 0.0}
    return settings


def _base_config(args: argparse.Namespace) -> TrainConfig:
    """The settings of --config, or of the preset."""
    if args.config:
        from masp.training.config_file import read_config

        return read_config(args.config, args.env, args.preset)
    if not args.env:
        raise UserError("which environment? Name one, as in 'masp train planted-grid', or give --config FILE")
    return from_preset(args.preset, args.env)


def run(args: argparse.Namespace) -> int:
    base = _base_config(args)
    args.env = base.env
    config = with_flags(replace(base, **_shorthand(args)), args)
    from masp.environments.registry import family_of
    from masp.ops import tune_this_process
    from masp.training.tracking import TRACKERS
    from masp.training.train import train

    trackers = [TRACKERS[name]() for name in args.track]
    tune_this_process(family_of(config.env).preset)
    result = train(config, args.resume, [TrainProgress(f"{config.env} {config.variant}"), *trackers])
    shown = {name: value for name, value in result.summary.items() if name.startswith("eval_") and value is not None}
    figures = ", ".join(f"{name.removeprefix('eval_').replace('_', ' ')} {value:.3f}" for name, value in shown.items())
    print(f"{result.run_dir}: {result.summary['frames']:,} frames; evaluation: {figures}")
    return 0
