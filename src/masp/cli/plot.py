"""Draw metrics of runs: one line per group of runs that differ only in their seed, with a band over the seeds.

  masp plot runs/planted-grid-masp-0 --metric eval_success --out success.png
  masp plot runs/pole-*/ --metric td_loss --metric return --out pole.png

`masp plot RUN_DIR --metric help` lists the metrics that the runs have and explains them.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from masp import json_text
from masp.config import TrainConfig, replace, to_flat
from masp.errors import UserError, did_you_mean
from masp.printable import printable

Curve = list[tuple[int, float]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_dirs", nargs="+", metavar="RUN_DIR", help="run directories, or folders of them")
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help="column of the metrics, one panel each; may be repeated (default: eval_success, or eval_return)",
    )
    parser.add_argument("--out", default="plot.png", metavar="FILE", help=".png, .svg or .pdf (default: plot.png)")
    parser.add_argument("--json", action="store_true", help="print one JSON object with the points")


def run(args: argparse.Namespace) -> int:
    runs = [_read(path) for path in _run_dirs(args.run_dirs)]
    columns = list(dict.fromkeys(name for _, _, rows in runs for row in rows for name in row))
    names = [name for name in columns if _is_number(runs, name) and name != "frames"]
    if args.metric == ["help"]:
        print("\n".join(_explained(names)))
        return 0
    metrics = args.metric or ["eval_success" if "eval_success" in names else "eval_return"]
    for metric in metrics:
        if metric not in names:
            hint = did_you_mean(metric, names, f"there are {', '.join(names)}")
            raise UserError(f"--metric {metric}: these runs have no such number; {hint}")
    panels = {metric: _curves(runs, metric) for metric in metrics}
    _draw(panels, args.out)
    if args.json:
        print(json_text.dumps({"out": args.out, "curves": panels}))
    else:
        groups = {group for curves in panels.values() for group in curves}
        counts = f"{_count(len(runs), 'run')} in {_count(len(groups), 'group')}"
        print(printable(f"{args.out}: {', '.join(metrics)} of {counts}"))
    return 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)


def _explained(names: Sequence[str]) -> list[str]:
    """A line per metric, with what it means."""
    from masp.report.metric_texts import EFFECTS, METRICS

    width, texts = max(map(len, names), default=0), METRICS | EFFECTS
    return [printable(f"{name:{width}}  {texts.get(name, '')}".rstrip()) for name in names]


def _run_dirs(paths: Sequence[str]) -> list[Path]:
    """The run directories that were named, and those below folders that were named."""
    run_dirs: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            raise UserError(f"{path}: there is no such run directory")
        below = sorted(file.parent for file in path.rglob("config.json"))
        if not below:
            raise UserError(f"{path}: there is no run in this folder (no config.json)")
        run_dirs += [folder for folder in below if folder not in run_dirs]
    return run_dirs


Run = tuple[Path, TrainConfig, list[dict[str, Any]]]


def _read(path: Path) -> Run:
    from masp.training.run_dir import RunDir

    run = RunDir(path)
    return path, run.read_config(), run.read_metrics()


def _is_number(runs: Sequence[Run], name: str) -> bool:
    """Whether some row has a number of this name; lists of one number per action are not."""
    return any(json_text.is_number(row.get(name)) for _, _, rows in runs for row in rows)


def _curves(runs: Sequence[Run], metric: str) -> dict[str, list[Curve]]:
    """Group to the points of each of its runs; groups are named by what tells them apart."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        same = to_flat(replace(run[1], seed=0, out=""))
        groups.setdefault(json.dumps(same), []).append(run)
    names = _names([json.loads(key) for key in groups])
    curves = {}
    for name, members in zip(names, groups.values(), strict=True):
        points = [
            [(row["frames"], row[metric]) for row in rows if row.get(metric) is not None] for _, _, rows in members
        ]
        if any(points):
            curves[name] = [seed for seed in points if seed]
    return curves


def _names(configs: Sequence[dict[str, Any]]) -> list[str]:
    """One name per configuration: the settings in which they differ, variant and environment first."""

    def values(name: str, variant: str | None = None) -> set[str]:
        return {json.dumps(config[name]) for config in configs if variant in (None, config["variant"])}

    variants = {config["variant"] for config in configs}
    # settings that all runs of a variant share, such as the missing penalty of `macros`, add nothing to its name
    named = {name for name in configs[0] if any(len(values(name, variant)) > 1 for variant in variants)}
    differing = [name for name in configs[0] if name in named or (name == "variant" and len(variants) > 1)]
    names = []
    for config in configs:
        head = [str(config[name]) for name in ("variant", "env") if name in differing] or [str(config["variant"])]
        rest = [f"{name} {_text(config[name])}" for name in differing if name not in ("variant", "env")]
        names.append(", ".join(head + rest))
    return names


def _text(value: Any) -> str:
    from masp.cli.flags import shown

    return os.path.basename(value) if isinstance(value, str) and os.sep in value else shown(value)


def _draw(panels: dict[str, dict[str, list[Curve]]], out: str) -> None:
    from masp.report.figures import BAND, draw_curves, note, save_figure, subplots

    figure, axes = subplots(len(panels), 1, (7, 0.6 + 3.8 * len(panels)), squeeze=False)
    for axis, (metric, curves) in zip(axes[:, 0], panels.items(), strict=True):
        draw_curves(axis, curves, metric.replace("_", " "))
    if any(len(seeds) > 1 for curves in panels.values() for seeds in curves.values()):
        note(figure, BAND)
    save_figure(figure, out)
