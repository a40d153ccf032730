"""Train `rainbow`, `macros` and `masp` on a small task, compare them, and show what similarity was learned.

The task is a 9x9 grid with a random goal. `rainbow` has the four moves; `macros` and `masp` have 32 copies of each in
hidden order, 128 actions in all, that nothing says are alike.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from masp import json_text
from masp.cli.progress import TrainProgress
from masp.config import TrainConfig, replace
from masp.errors import UserError
from masp.presets import PAPER, from_preset

VARIANTS = ("rainbow", "macros", "masp")
ENV, OPTIONS = "planted-grid", ("copies=32",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--frames", type=int, default=60_000, metavar="N", help="frames per seed (default: 60000)")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds per variant (default: 3)")
    parser.add_argument("--out", default="demo", metavar="DIR", help="where to write (default: demo; made anew)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    if args.seeds < 1:
        raise UserError(f"--seeds must be at least 1, got {args.seeds}")
    out = _fresh(Path(args.out))
    from masp.ops import tune_this_process

    tune_this_process("planted" if args.seeds == 1 else None)
    started = time.perf_counter()
    results = {variant: _train(variant, args.frames, args.seeds, out) for variant in VARIANTS}
    summary = _summarise(results)
    curves, heat_map = out / "learning-curves.png", out / "similarity.png"
    _draw(results, curves, heat_map)
    seconds = time.perf_counter() - started
    if args.json:
        print(json_text.dumps({"variants": summary, "figures": [str(curves), str(heat_map)], "seconds": seconds}))
        return 0
    _print_table(summary, args)
    print(f"learning curves  {curves}\nsimilarity map   {heat_map}\nruns             {out}/VARIANT/seed-N")
    print(f"took {seconds:.0f} s; look at one run with: masp similarity show {out}/masp/seed-0")
    return 0


def _fresh(out: Path) -> Path:
    """An empty directory; only an earlier demo is ever removed."""
    marker = out / ".masp-demo"
    if out.exists() and any(out.iterdir()):
        if not marker.exists():
            raise UserError(f"{out} exists and is not an earlier demo; choose another --out")
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    marker.touch()
    return out


def _train(variant: str, frames: int, seeds: int, out: Path) -> list[Any]:
    """Runs of all seeds of one variant."""
    from masp.training.run import load_run
    from masp.training.train import train_seeds

    config: TrainConfig = replace(
        from_preset("auto", ENV),
        **PAPER,
        variant=variant,
        env_options=OPTIONS,
        frames=frames,
        eval_every_frames=max(frames // 10, 1),
        log_every_frames=max(frames // 20, 1),
        out=str(out / variant / "seed-0") if seeds == 1 else str(out / variant),
    )
    results = train_seeds(config, list(range(seeds)), callbacks=[TrainProgress(f"{variant} x {seeds} seeds")])
    return [load_run(result.run_dir) for result in results]


def _summarise(results: dict[str, list[Any]]) -> dict[str, dict[str, Any]]:
    """Final evaluation of every variant, with intervals over seeds."""
    from masp.report.statistics import bootstrap_interval

    summary = {}
    for variant, runs in results.items():
        final = [run.metrics[-1]["eval_success"] for run in runs]
        curve = [run.metrics for run in runs]
        during = [sum(_known(rows)) / len(_known(rows)) for rows in curve]
        auc = [run.metrics[-1]["similarity_auc"] for run in runs if run.metrics[-1]["similarity_auc"] is not None]
        summary[variant] = {
            "actions": len(runs[0].actions),
            "seeds": len(runs),
            "success": sum(final) / len(final),
            "success_interval": bootstrap_interval(final),
            "success_over_training": sum(during) / len(during),
            "success_over_training_interval": bootstrap_interval(during),
            "similarity_auc": sum(auc) / len(auc) if auc else None,
        }
    return summary


def _known(rows: list[dict[str, Any]]) -> list[float]:
    return [row["eval_success"] for row in rows if row["eval_success"] is not None]


def _draw(results: dict[str, list[Any]], curves: Path, heat_map: Path) -> None:
    from masp.report.figures import learning_curves, similarity_map

    points = {
        variant: [
            [(r["frames"], r["eval_success"]) for r in run.metrics if r["eval_success"] is not None] for run in runs
        ]
        for variant, runs in results.items()
    }
    learning_curves(points, curves, "9x9 grid, 4 moves x 32 copies", "evaluation success")
    run = results["masp"][0]
    similarity_map(run.similarity, run.actions.names, heat_map, "learned similarity of 128 actions, seed 0")


def _print_table(summary: dict[str, dict[str, Any]], args: argparse.Namespace) -> None:
    title = f"{ENV} {OPTIONS[0]}, {args.frames:,} frames, {args.seeds} seeds, [95 % bootstrap interval]"
    table = Table(title=title)
    for column in ("variant", "actions", "final success", "success over training", "groups found (AUC)"):
        table.add_column(column)
    for variant, row in summary.items():
        low, high = row["success_interval"]
        low_all, high_all = row["success_over_training_interval"]
        auc = "" if row["similarity_auc"] is None else f"{row['similarity_auc']:.3f}"
        table.add_row(
            variant,
            str(row["actions"]),
            f"{row['success']:.3f} [{low:.3f}, {high:.3f}]",
            f"{row['success_over_training']:.3f} [{low_all:.3f}, {high_all:.3f}]",
            auc,
        )
    Console().print(table)
