"""Two small tasks, three agents: what macros cost, what they bring, and what MASP makes of them. About three minutes.

1. A 9x9 grid whose four moves come in 32 copies each, in hidden order: 128 actions, none of which is new. Here macros
   can only hurt.
2. A 13x13 grid with 124 real macros, random sequences of two to four moves: they reach far goals that single moves
   do not find. Here macros can help.

`rainbow` has the four moves, `macros` has all actions and treats them as unrelated, `masp` also learns which of them
are similar and lets them share what they learn. All three have the same settings, those of the preset; the first task
is without our additions to the paper's algorithm.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from masp import json_text
from masp.cli.console import WIDE_HELP, print_table, print_text
from masp.cli.progress import TrainProgress
from masp.config import TrainConfig, replace
from masp.errors import UserError
from masp.presets import PAPER, from_preset

ENV = "planted-grid"
MEANING = {
    # what each agent has to choose from; the same for both tasks
    "rainbow": "the 4 moves alone",
    "macros": "all 128 actions, as if unrelated",
    "masp": "the same 128, and learns which of them are alike",
}
BRIEFLY = {"rainbow": "4 moves", "macros": "128 actions", "masp": "128, similarity"}
"""The same in a column of a narrow terminal."""
NEXT = {
    "masp demo --seeds 10 --out demo-10": "narrower intervals",
    "masp envs": "what else to train on",
    "masp train CartPole-v1 --variant rainbow": "any Gymnasium id, or yours",
}
PLAIN = (
    "The first task has the paper's algorithm alone (--paper); on the second, agents also learn from what happens "
    "inside macros, which this project adds to it."
)
WHEN = "When macros and masp help, and when they do not: docs/when-to-use.md in the repository."


@dataclass(frozen=True)
class DemoTask:
    """One of the two tasks."""

    name: str
    title: str
    options: tuple[str, ...]
    changes: Mapping[str, Any]
    """What differs from the preset."""
    question: str


TASKS = (
    DemoTask(
        "copies",
        "9x9 grid, each of the 4 moves in 32 copies",
        ("copies=32",),
        PAPER,
        "A copy counts as a macro of one step. Copies bring nothing new, so rainbow is the ceiling. How much do they "
        "cost, and how much of that does masp win back?",
    ),
    DemoTask(
        "real-macros",
        "13x13 grid, 4 moves and 124 macros of two to four moves",
        ("size=13", "max_steps=40", "sequences=124"),
        {},
        "Macros reach far goals. Do they help, and does masp, which learns which of them are alike, help more?",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--frames", type=int, default=60_000, metavar="N", help="frames per run (default: 60000)")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds per variant (default: 3)")
    parser.add_argument("--out", default="demo", metavar="DIR", help="where to write (default: demo; made anew)")
    parser.add_argument("--wide", action="store_true", help=WIDE_HELP)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    if args.seeds < 1:
        raise UserError(f"--seeds must be at least 1, got {args.seeds}")
    _config(TASKS[0], "masp", args, Path(args.out))  # raises for settings that cannot be
    out = _fresh(Path(args.out))
    _introduce(args)
    from masp.ops import cache_programs, tune_this_process

    tune_this_process("planted" if args.seeds == 1 else None)
    cache_programs()
    started = time.perf_counter()
    results = {task.name: {v: _train(task, v, args, out) for v in MEANING} for task in TASKS}
    summaries = {name: {v: _summary(runs) for v, runs in variants.items()} for name, variants in results.items()}
    files = _draw(results, out)
    page = _write_page(summaries, out)
    seconds = time.perf_counter() - started
    if args.json:
        about = {"figures": list(map(str, files)), "page": str(page), "seconds": round(seconds, 1)}
        print(json_text.dumps({"tasks": summaries, **about}))
        return 0
    for task in TASKS:
        _print_task(task, summaries[task.name], args)
    _print_files(files, page, args, seconds)
    return 0


def _introduce(args: argparse.Namespace) -> None:
    """What will happen, and how long it takes, before anything else."""
    lines = [
        "masp demo: two small tasks, each learned by three agents from scratch",
        f"({args.seeds} seeds, {args.frames:,} frames each); about {_minutes(args)} minutes on two free cores.",
        *(f"  {variant:<8} {meaning}" for variant, meaning in MEANING.items()),
        "At the end: tables that say what came out, and a page to open in a browser.",
    ]
    print("\n".join(lines), file=sys.stderr if args.json else sys.stdout, flush=True)


def _minutes(args: argparse.Namespace) -> int:
    """Three with the default seeds and frames, of which two thirds is training."""
    return round(1 + 2 * args.seeds * args.frames / 180_000)


def _fresh(out: Path) -> Path:
    """An empty directory; only an earlier demo is ever removed."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; choose another --out")
    marker = out / ".masp-demo"
    if out.exists() and any(out.iterdir()):
        if not marker.exists():
            raise UserError(f"{out} exists and is not an earlier demo; choose another --out")
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    marker.touch()
    return out


def _config(task: DemoTask, variant: str, args: argparse.Namespace, out: Path) -> TrainConfig:
    folder = out / task.name / variant
    return replace(
        from_preset("auto", ENV),
        **task.changes,
        variant=variant,
        env_options=task.options,
        frames=args.frames,
        eval_every_frames=max(args.frames // 10, 1),
        log_every_frames=max(args.frames // 20, 1),
        out=str(folder / "seed-0") if args.seeds == 1 else str(folder),
    )


def _train(task: DemoTask, variant: str, args: argparse.Namespace, out: Path) -> list[Any]:
    """Runs of all seeds of one variant."""
    step = [t.name for t in TASKS].index(task.name) * len(MEANING) + list(MEANING).index(variant) + 1
    with TrainProgress(f"[{step}/{len(TASKS) * len(MEANING)}] {task.name}, {variant}") as progress:
        from masp.training.run import load_run
        from masp.training.train import train_seeds

        results = train_seeds(_config(task, variant, args, out), list(range(args.seeds)), callbacks=[progress])
    return [load_run(result.run_dir) for result in results]


def _summary(runs: Sequence[Any]) -> dict[str, Any]:
    """Success of one variant with intervals over seeds, and how well it found the groups."""
    from masp.report.statistics import bootstrap_interval

    final = [run.metrics[-1]["eval_success"] for run in runs]
    during = [fmean(value for _, value in _curve(run)) for run in runs]
    auc = [run.metrics[-1]["similarity_auc"] for run in runs if run.metrics[-1]["similarity_auc"] is not None]
    return {
        "actions": len(runs[0].actions),
        "seeds": len(runs),
        "success": fmean(final),
        "success_interval": bootstrap_interval(final),
        "success_over_training": fmean(during),
        "success_over_training_interval": bootstrap_interval(during),
        "similarity_auc": fmean(auc) if auc else None,
    }


def _curve(run: Any) -> list[tuple[int, float]]:
    return [(row["frames"], row["eval_success"]) for row in run.metrics if row["eval_success"] is not None]


def _draw(results: Mapping[str, Mapping[str, Sequence[Any]]], out: Path) -> list[Path]:
    """Learning curves of both tasks, and the similarity learned on the first."""
    from masp.report.figures import learning_curves
    from masp.report.similarity_map import similarity_map

    files = []
    for task in TASKS:
        files.append(out / f"learning-curves-{task.name}.png")
        curves = {variant: list(map(_curve, runs)) for variant, runs in results[task.name].items()}
        learning_curves(curves, files[-1], task.title, "success in evaluation")
    run = results[TASKS[0].name]["masp"][0]
    files.append(out / "similarity.png")
    similarity_map(run.similarity, run.actions.names, files[-1], "learned similarity of 128 copies of 4 moves, seed 0")
    return files


def _write_page(summaries: Mapping[str, Mapping[str, Mapping[str, Any]]], out: Path) -> Path:
    """The report page of all runs, which tells what was compared, what came out and what to do next."""
    from masp.report.page import write_report

    print("writing the page", file=sys.stderr, flush=True)
    runs = [out / task.name / variant for task in TASKS for variant in MEANING]
    conclusions = [(task.title, f"{task.question} Measured: {conclusion(summaries[task.name])}") for task in TASKS]
    agents = "; ".join(f"{variant} has {meaning}" for variant, meaning in MEANING.items())
    compared = (
        f"Three agents learned each task from scratch, with the same seeds and settings: {agents}. "
        "An agent walks a grid to a goal; success is the share of evaluation episodes that reach it, and success over "
        f"training the mean of that over all evaluations. {PLAIN}"
    )
    commands = "; ".join(f"`{command}` for {what}" for command, what in NEXT.items())
    story = [("What was compared", compared), *conclusions, ("What to do next", f"{commands}. {WHEN}")]
    titles = {" ".join((ENV, f"({' '.join(task.options)})")): task.title for task in TASKS}
    return write_report(runs, out / "report.html", "masp demo", story, MEANING | titles)


def _print_task(task: DemoTask, summary: Mapping[str, Mapping[str, Any]], args: argparse.Namespace) -> None:
    print_text(f"\n{task.title}\n{task.question}", args.wide)
    columns = ("agent", "what it has", "success at the end", "mean over training", "groups found")
    rows = [
        (
            variant,
            BRIEFLY[variant],
            _figure(row["success"], row["success_interval"]),
            _figure(row["success_over_training"], row["success_over_training_interval"]),
            "" if row["similarity_auc"] is None else f"{row['similarity_auc']:.2f}",
        )
        for variant, row in summary.items()
    ]
    print_table(columns, rows, wide=args.wide, optional=("groups found",))
    print_text(f"=> {conclusion(summary)}", args.wide)


def _figure(mean: float, interval: Sequence[float]) -> str:
    return f"{mean:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]"


def conclusion(summary: Mapping[str, Mapping[str, Any]]) -> str:
    """What came out, in sentences that follow from the figures alone."""
    rainbow, macros, masp = (summary[variant]["success_over_training"] for variant in ("rainbow", "macros", "masp"))
    more = summary["macros"]["actions"] - summary["rainbow"]["actions"]
    first, second = _doubt(summary, "rainbow", "macros"), _doubt(summary, "macros", "masp")
    if macros < rainbow:
        said = f"The {more} additional actions cost {rainbow - macros:.2f} of success over training"
        said += f" ({rainbow:.2f} to {macros:.2f}){first}. masp wins back "
        share = (masp - macros) / (rainbow - macros)
        part = f"{100 * min(share, 1):.0f} % of it"
        said += "all of it" if share >= 1 else part if share > 0 else "nothing of it on these seeds"
    else:
        said = f"The {more} additional actions help: success over training {rainbow:.2f} without, {macros:.2f} with"
        said += " them"
        said += f"{first}. masp adds " + ("to that" if masp > macros else "nothing to that on these seeds")
    return f"{said} ({masp:.2f}){second}."


def _doubt(summary: Mapping[str, Mapping[str, Any]], *variants: str) -> str:
    """Why two variants may not differ; empty if their intervals are apart."""
    (low, high), (other_low, other_high) = (summary[v]["success_over_training_interval"] for v in variants)
    if summary[variants[0]]["seeds"] == 1:
        return ", but one seed tells little"
    return "" if low > other_high or high < other_low else ", but the intervals overlap: more seeds would have to tell"


def _print_files(files: Sequence[Path], page: Path, args: argparse.Namespace, seconds: float) -> None:
    print_text(f"\n{_legend(args.seeds)}\n{PLAIN} {WHEN}\n\ntook {seconds:.0f} s", args.wide)
    for file in files:
        print(f"picture    {file}")
    print(f"runs       {args.out}/TASK/VARIANT/seed-N")
    print(f"page       {page}   <- open this in a browser")
    width = max(map(len, NEXT))
    for number, (command, what) in enumerate(NEXT.items()):
        print(f"{'' if number else 'next':<11}{command:<{width}}  {what}")


def _legend(seeds: int) -> str:
    """What the columns of the tables are."""
    from masp.report.render import FEW

    interval = "" if seeds == 1 else ", [95 % bootstrap interval over seeds]"
    interval += f"; with {seeds} seeds that is little more than their range" if 1 < seeds < FEW else ""
    return (
        "Success: share of evaluation episodes that reach the goal, at the end and as the mean over all evaluations of "
        f"training{interval}. Groups found: chance that two actions of the same effect were learned to be more similar "
        "than two of different effects (0.5: chance, 1: perfect)."
    )
