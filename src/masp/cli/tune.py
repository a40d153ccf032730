"""Search for better settings with Optuna.

  masp tune planted-grid --trials 30 --seeds 4
  masp tune CartPole-v1 --trials 40 --seeds 2 --vary learning_rate=1e-4:1e-2 --vary n_step=1,3,5 --frames 50000
  masp train --config tune/planted-grid-masp/best.toml --seed 0

The first trial is the preset. A trial trains several seeds, all at once where the environment is in JAX, and is pruned
when it falls behind. Its score is the mean of all evaluations, over all seeds. The same command goes on with an
interrupted search; run it in several terminals, and they share the trials. Seeds of trials are 2^29 and above: results
that you report come from other ones. --check N trains the preset and the winner with the seeds 0 to N-1 and compares.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from masp import json_text
from masp.cli.flags import add_config_flags, from_text, with_flags
from masp.cli.progress import TrainProgress
from masp.errors import UserError
from masp.presets import PRESETS, default_preset, from_preset


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("env", help="environment id, as in 'masp train'")
    parser.add_argument("--trials", type=int, default=30, metavar="N", help="trials in all (default: 30)")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds per trial (default: 3)")
    parser.add_argument("--preset", default="auto", metavar="NAME", help=f"auto, {', '.join(PRESETS)} (default: auto)")
    parser.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="NAME=RANGE",
        help="a setting and its range LOW:HIGH or its values A,B,...; may be repeated (default: learning rate, target "
        "period, exploration, n-step, and of the penalty its weight and meta-learning rate, around the preset)",
    )
    parser.add_argument("--metric", default="eval_return", choices=("eval_return", "eval_success"))
    parser.add_argument("--check", type=int, default=0, metavar="N", help="compare with the preset on N other seeds")
    parser.add_argument("--out", default="", metavar="DIR", help="where to write (default: tune/ENV-VARIANT)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_config_flags(parser, skip=("env", "seed", "out"))


def run(args: argparse.Namespace) -> int:
    for name, least in (("trials", 1), ("seeds", 1), ("check", 0)):
        if getattr(args, name) < least:
            raise UserError(f"--{name} must be at least {least}, got {getattr(args, name)}")
    preset = default_preset(args.env) if args.preset == "auto" else args.preset
    flags = argparse.Namespace(**{name: value for name, value in vars(args).items() if name != "out"})
    config = with_flags(from_preset(preset, args.env), flags)
    from masp.ops import cache_programs, tune_this_process
    from masp.tuning.outcome import check, draw, importances, write_best
    from masp.tuning.search import Search, ended, search
    from masp.tuning.space import default_axes, parse_axis

    tune_this_process()
    cache_programs()
    axes = [parse_axis(text, from_text) for text in args.vary] or default_axes(config)
    if len({axis.name for axis in axes}) < len(axes):
        raise UserError("--vary names a setting twice")
    out = Path(args.out or f"tune/{args.env.replace('/', '_')}-{config.variant}")
    what = Search(config, tuple(axes), args.seeds, args.metric, out)
    study = search(what, args.trials, [TrainProgress(f"{args.env} trial")])
    file = write_best(study, what, preset)
    picture = draw(study, what)
    best = study.best_trial
    result: dict[str, Any] = {"env": args.env, "trials": len(ended(study)), "best": best.number}
    result |= {"score": best.value, "settings": best.params, "config": str(file), "picture": str(picture)}
    result["importances"] = importances(study)
    if args.check:
        result["check"] = check(study, what, args.check, [TrainProgress(f"{args.env} check")]).figures()
    print(json_text.dumps(result)) if args.json else _print(result, args)
    return 0


def _print(result: dict[str, Any], args: argparse.Namespace) -> None:
    shown = ", ".join(f"{name} {_short(value)}" for name, value in result["settings"].items())
    print(
        f"best of {result['trials']} trials: number {result['best']}, mean {args.metric} {result['score']:.4g}: {shown}"
    )
    if result["importances"]:
        print("importance: " + ", ".join(f"{name} {share:.2f}" for name, share in result["importances"].items()))
    if "check" in result:
        figures = result["check"]
        cells = [
            f"{name} {figures[name]:.4g} [{figures[f'{name}_interval'][0]:.4g}, {figures[f'{name}_interval'][1]:.4g}]"
            for name in ("preset", "tuned", "difference")
        ]
        print(f"seeds 0-{args.check - 1}, mean {args.metric}: {', '.join(cells)}")
    print(f"masp train --config {result['config']}", file=sys.stdout)


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
