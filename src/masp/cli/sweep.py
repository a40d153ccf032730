"""Train every combination of some settings with several seeds, and compare them.

  masp sweep planted-grid --vary penalty_weight=0.01,0.03,0.1 --vary meta_learning_rate=0.0003,0.001 --seeds 5
  masp sweep minatar-breakout --vary similarity_start=constant,overlap --seeds 3 --frames 1e6 --out sweeps/start

Where the environment is in JAX, all seeds and all values of penalty_weight, meta_learning_rate, similarity_start and
macros train at once, in one program that is compiled once. Other settings, and other environments, are trained one
after another. Choose settings on other seeds than you report.
"""

from __future__ import annotations

import argparse
import re
from typing import Any

from masp import json_text
from masp.cli.console import WIDE_HELP, print_table
from masp.cli.flags import add_config_flags, add_track_flag, from_text, with_flags
from masp.cli.progress import TrainProgress
from masp.config import field_types, unknown_setting
from masp.errors import UserError
from masp.presets import PRESETS, from_preset


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("env", help="environment id, as in 'masp train'")
    parser.add_argument("--preset", default="auto", metavar="NAME", help=f"auto, {', '.join(PRESETS)} (default: auto)")
    parser.add_argument(
        "--vary", action="append", default=[], metavar="NAME=A,B,...", help="a setting and its values; may be repeated"
    )
    parser.add_argument(
        "--seeds", type=int, default=3, metavar="N", help="seeds per combination, 0 to N-1 (default: 3)"
    )
    parser.add_argument("--out", default="", metavar="DIR", help="where to write (default: sweeps/ENV)")
    add_track_flag(parser)
    parser.add_argument("--wide", action="store_true", help=WIDE_HELP)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_config_flags(parser, skip=("env", "seed", "out"))


def run(args: argparse.Namespace) -> int:
    if args.seeds < 1:
        raise UserError(f"--seeds must be at least 1, got {args.seeds}")
    vary = dict(_axis(text) for text in args.vary)
    out = args.out or f"sweeps/{re.sub(r'[^A-Za-z0-9._-]+', '-', args.env)}"
    config = with_flags(from_preset(args.preset, args.env), _without_out(args))
    from masp.ops import cache_programs, tune_this_process
    from masp.training.sweep import sweep
    from masp.training.tracking import TRACKERS

    trackers = [TRACKERS[name]() for name in args.track]
    tune_this_process()
    cache_programs()
    with TrainProgress(f"{args.env} sweep") as progress:
        points = sweep(config, vary, range(args.seeds), out, [progress, *trackers])
    rows = [{**point.settings, **_figures([result.summary for result in point.results])} for point in points]
    if args.json:
        print(json_text.dumps({"env": args.env, "seeds": args.seeds, "points": rows, "out": out}))
    else:
        _print(rows, args)
        print(f"runs: {out}/NAME=VALUE/seed-N")
    return 0


def _axis(text: str) -> tuple[str, list[Any]]:
    name, equals, values = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or not values:
        raise UserError(f"--vary {text!r} should look like penalty_weight=0.01,0.03")
    if name not in field_types():
        raise UserError(f"--vary: {unknown_setting(name)}")
    return name, [from_text(name, value.strip()) for value in values.split(",")]


def _without_out(args: argparse.Namespace) -> argparse.Namespace:
    return argparse.Namespace(**{name: value for name, value in vars(args).items() if name != "out"})


def _figures(summaries: list[dict[str, Any]]) -> dict[str, Any]:
    from masp.report.statistics import bootstrap_interval

    figures: dict[str, Any] = {}
    for name in ("eval_return", "eval_success", "similarity_auc"):
        values = [summary[name] for summary in summaries]
        if None not in values:
            figures[name] = sum(values) / len(values)
            figures[f"{name}_interval"] = bootstrap_interval(values)
    return figures


def _print(rows: list[dict[str, Any]], args: argparse.Namespace) -> None:
    title = f"{args.env}, {args.seeds} seeds, last evaluation, [95 % bootstrap interval]"
    names = list(dict.fromkeys(name for row in rows for name in row if not name.endswith("_interval")))
    titles = [name.removeprefix("eval_").replace("_", " ") for name in names]
    print_table(titles, [[_shown(row, name) for name in names] for row in rows], title, args.wide)


def _shown(row: dict[str, Any], name: str) -> str:
    interval = row.get(f"{name}_interval")
    return str(row.get(name, "")) if interval is None else f"{row[name]:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"
