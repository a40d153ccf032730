"""Train an agent and write a run directory.

  masp train planted-grid --variant masp
  masp train planted-grid --dry-run                     every setting, where it comes from, and the time it may take
  masp train planted-grid --help                        the same settings, explained
  masp train MiniGrid-DoorKey-5x5-v0 --variant macros --frames 200000
  masp train CartPole-v1 --variant rainbow --seed 3 --out runs/pole
  masp train --config runs/pole/config.json --seed 4 --out runs/pole-4

Settings come from a preset that fits the environment (or from --preset), then from --config; every one of them is also
a flag, and flags come last.
"""

from __future__ import annotations

import argparse
import contextlib
import io
from collections.abc import Sequence

from masp import json_text
from masp.cli.console import WIDE_HELP, print_table
from masp.cli.flags import UNKNOWN_VALUES, add_config_flags, add_track_flag, shown
from masp.cli.progress import TrainProgress
from masp.cli.settings import Settings, settings_of
from masp.config import replace
from masp.errors import UserError
from masp.presets import PRESETS
from masp.printable import printable


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
    add_track_flag(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="print all settings, where each comes from and the estimated time; stop"
    )
    parser.add_argument("--wide", action="store_true", help=WIDE_HELP)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_config_flags(parser, skip=("env",))


def explain(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Add to the help of every setting the value that it would have, where `argv` names an environment."""
    with contextlib.suppress(UserError, SystemExit), contextlib.redirect_stderr(io.StringIO()):
        args, _ = parser.parse_known_args([text for text in argv if text not in ("-h", "--help")])
        if not (args.env or args.config):
            return
        values = {name: (value, origin) for name, value, origin in settings_of(args).rows()}
        for group in parser._action_groups:
            group.title = (group.title or "").replace(UNKNOWN_VALUES, f" (in brackets: the value for {args.env})")
        for action in parser._actions:
            if action.dest in values and action.dest != "env":
                value, origin = values[action.dest]
                action.help = f"{action.help} [{shown(value)}; {origin}]".replace("%", "%%").replace("%%%%", "%%")


def run(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    config = settings.config
    if args.dry_run:
        return _dry_run(settings, args)
    from masp.training.train import default_out

    config = replace(config, out=config.out or default_out(config))
    with TrainProgress(f"{config.env} {config.variant}") as progress:
        from masp.environments.registry import family_of
        from masp.ops import cache_programs, tune_this_process
        from masp.training.tracking import TRACKERS
        from masp.training.train import train_runs

        trackers = [TRACKERS[name]() for name in args.track]
        tune_this_process(family_of(config.env).preset)
        cache_programs()
        (result,) = train_runs([config], args.resume, [progress, *trackers])
    if args.json:
        print(json_text.dumps({"run_dir": str(result.run_dir), **result.summary}))
        return 0
    figures = {name: value for name, value in result.summary.items() if name.startswith("eval_") and value is not None}
    text = ", ".join(f"{name.removeprefix('eval_').replace('_', ' ')} {value:.3g}" for name, value in figures.items())
    demonstrated = result.summary.get("demonstrated_steps")
    beside = f" beside {demonstrated:,} demonstrated steps" if demonstrated else ""
    print(printable(f"{result.run_dir}: {result.summary['frames']:,} frames{beside}; evaluation: {text}"))
    return 0


def _dry_run(settings: Settings, args: argparse.Namespace) -> int:
    """Print every setting with its origin, what would be played, and how long it may take."""
    from masp.environments.registry import make_env
    from masp.experiments.estimate import duration, run_seconds
    from masp.training.lanes import lane_actions
    from masp.training.train import default_out

    settings = settings.resolved()
    config = settings.config
    env = make_env(config.env, config.env_options, config.num_envs)
    actions = lane_actions([config], env.info)[0]
    getattr(env, "close", lambda: None)()
    seconds, out = run_seconds(config, len(actions.macros)), config.out or default_out(config)
    if args.json:
        resolved = {name: {"value": value, "from": origin} for name, value, origin in settings.rows()}
        about = {"actions": len(actions), "macros": len(actions.macros), "out": out, "estimated_seconds": seconds}
        print(json_text.dumps({"settings": resolved, **about}))
        return 0
    rows = [(name, shown(value), origin) for name, value, origin in settings.rows()]
    print_table(("setting", "value", "from"), rows, f"masp train {config.env}: nothing is trained", args.wide)
    macros = f"{len(actions.macros)} macros" if actions.macros else "no macros"
    print(f"{len(actions)} actions, {macros}; {env.info.frames_per_step} frame(s) per step; run directory {out}")
    print(f"estimated time: {duration(seconds)} on one core of a small machine")
    return 0
