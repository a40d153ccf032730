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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from masp import json_text
from masp.cli.console import WIDE_HELP, print_table
from masp.cli.flags import UNKNOWN_VALUES, add_config_flags, add_track_flag, given_flags, shown
from masp.cli.progress import TrainProgress
from masp.config import TrainConfig, field_sections, replace, to_flat
from masp.errors import UserError
from masp.presets import PAPER, PRESETS, default_preset, from_preset
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


@dataclass(frozen=True)
class Settings:
    """A configuration, and the origin of each of its fields."""

    config: TrainConfig
    origins: dict[str, str] = field(default_factory=dict)
    """Field to where its value comes from; fields that are left out have their default."""

    def with_layer(self, origin: str, changes: Mapping[str, Any]) -> Settings:
        """The same with some fields replaced."""
        origins = self.origins | dict.fromkeys(changes, origin)
        return Settings(replace(self.config, **changes), origins) if changes else self

    def resolved(self) -> Settings:
        """With what the variant implies made explicit."""
        before, after = to_flat(self.config), to_flat(self.config.resolved())
        implied = {name for name in after if after[name] != before[name]}
        origins = self.origins | dict.fromkeys(implied, f"variant {self.config.variant}")
        return Settings(self.config.resolved(), origins)

    def rows(self) -> list[tuple[str, Any, str]]:
        """Name, value and origin of every setting."""
        values = to_flat(self.config)
        return [(name, values[name], self.origins.get(name, "default")) for name in field_sections()]


def settings_of(args: argparse.Namespace) -> Settings:
    """What the arguments of `masp train` describe."""
    settings = _base(args)
    settings = settings.with_layer("--paper", PAPER if args.paper else {})
    if args.bundle:
        settings = settings.with_layer("--bundle", {"macros": args.bundle, "similarity_start": args.bundle})
    settings = settings.with_layer("--frozen", {"meta_learning_rate": 0.0} if args.frozen else {})
    return settings.with_layer("flag", {name: value for name, value in given_flags(args).items() if name != "env"})


def _base(args: argparse.Namespace) -> Settings:
    """The settings of the preset, or of --config."""
    if not args.config:
        if not args.env:
            raise UserError("which environment? Name one, as in 'masp train planted-grid', or give --config FILE")
        return _preset(args.preset, args.env)
    from masp.training.config_file import read_config, read_toml

    config = read_config(args.config, args.env, args.preset)
    if not str(args.config).endswith(".toml"):
        return Settings(config, dict.fromkeys(field_sections(), str(args.config)))
    preset, named = read_toml(args.config)
    origins = _preset(preset if args.preset == "auto" else args.preset, config.env).origins
    return Settings(config, origins | dict.fromkeys(named, str(args.config)))


def _preset(name: str, env: str) -> Settings:
    config = from_preset(name, env)
    name = default_preset(env) if name == "auto" else name
    return Settings(config, dict.fromkeys(PRESETS[name], f"preset {name}") | {"env": "argument"})
