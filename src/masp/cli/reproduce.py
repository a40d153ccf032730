"""Run an experiment of the paper, or one of ours, and print its table.

  masp reproduce planted --scale smoke          minutes, shows that everything works
  masp reproduce minatar-k --scale laptop       hours on two cores
  masp reproduce atari --scale paper            prints the plan; --run or --ray runs it

It first prints the plan with an estimate of its time. Finished trials are skipped and interrupted ones resume from
their checkpoint: the command can be stopped and started again at any time, and several can share one --store.

experiments:
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from masp import json_text
from masp.cli.console import WIDE_HELP
from masp.errors import UserError
from masp.experiments.catalogue import NAMES, TITLES
from masp.experiments.experiment import SCALES
from masp.printable import printable

MOST_JOBS = 4
"""Default limit, because each process holds a replay of up to a gigabyte."""

__doc__ += "".join(f"  {name:<{max(map(len, NAMES)) + 2}}{TITLES[name]}\n" for name in NAMES)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", choices=NAMES, help="one of the experiments above")
    parser.add_argument("--scale", choices=SCALES, default="smoke", help="how much to run (default: smoke)")
    parser.add_argument("--store", default="results", metavar="DIR", help="results store (default: results)")
    parser.add_argument("--plan", "--dry-run", action="store_true", help="print the plan and stop")
    parser.add_argument("--run", action="store_true", help="run the scale paper, which otherwise only prints its plan")
    parser.add_argument("--only", default="", metavar="A,B", help="only these columns of the table, e.g. macros,masp")
    parser.add_argument(
        "--rows", default="", metavar="TEXT", help="only rows with this in their name, e.g. 'Four Rooms'"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="processes here (default: one per core, at most 4)")
    parser.add_argument("--ray", default="", metavar="ADDRESS", help="run on a Ray cluster; auto: start a local one")
    parser.add_argument("--cpus-per-trial", type=float, default=1.0, metavar="N", help="for Ray (default: 1)")
    parser.add_argument("--gpus-per-trial", type=float, default=0.0, metavar="N", help="for Ray (default: 0)")
    parser.add_argument(
        "--cluster-cores", type=int, default=1024, metavar="N", help="also estimate for this many cores"
    )
    parser.add_argument("--human", default="", metavar="DIR", help="mine macros from human play: DIR/GAME/*.txt")
    parser.add_argument("--figures", metavar="DIR", help="also draw the figures")
    parser.add_argument("--wide", action="store_true", help=WIDE_HELP)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    if (args.jobs is not None and args.jobs < 1) or args.cluster_cores < 1:
        raise UserError("--jobs and --cluster-cores must be at least 1")
    from masp.experiments.catalogue import experiment
    from masp.experiments.cores import possible_jobs
    from masp.experiments.estimate import summary
    from masp.experiments.plan import plan
    from masp.experiments.runner import Where, reproduce, require_installed
    from masp.experiments.store import Store
    from masp.ops import tune_this_process

    store = Store(args.store)
    jobs = possible_jobs(args.jobs, MOST_JOBS)
    planned = plan(experiment(args.name), args.scale, args.human, [c for c in args.only.split(",") if c], args.rows)
    figures = summary(planned, store, jobs, args.cluster_cores)
    print(describe(figures), file=sys.stderr if args.json else sys.stdout, flush=True)
    only_plan = args.plan or (args.scale == "paper" and not (args.run or args.ray))
    if only_plan:
        if args.json:
            print(json_text.dumps({"plan": figures}))
        elif not args.plan:
            print("nothing was run: --run runs it here, --ray ADDRESS on a cluster")
        return 0
    require_installed(planned)
    tune_this_process()
    where = Where(jobs, args.ray, args.cpus_per_trial, args.gpus_per_trial)
    failed = reproduce(planned, store, where, _command(args))
    return _finish(args, store, failed)


def _command(args: argparse.Namespace) -> str:
    """The command as records keep it, without folders of this machine."""
    only = f" --only '{args.only}'" if args.only else ""
    only += f" --rows '{args.rows}'" if args.rows else ""
    return f"masp reproduce {args.name} --scale {args.scale}{only}{' --human DIR' if args.human else ''}"


def describe(figures: dict[str, Any]) -> str:
    """The plan in up to three lines."""
    from masp.experiments.estimate import duration

    text = (
        f"{figures['experiment']}, scale {figures['scale']}: {figures['trials']:,} trials, {figures['runs']:,} runs, "
        f"{figures['frames']:,} frames"
    )
    if figures["runs_left"] < figures["runs"]:
        text += f"; {figures['runs_left']:,} runs left ({figures['frames_left']:,} frames)"
    if figures["runs_left"]:
        text += f"\nestimate: {duration(figures['seconds_left'])} with {figures['jobs']} process(es) of this machine"
    if figures["scale"] == "paper":
        hours, cores = figures["core_seconds_left"] / 3600, figures["cluster_cores"]
        assumed = figures["core_seconds_assumed"] / 3600
        text += (
            f"\n{hours:,.0f} core hours, {assumed:,.0f} of them at speeds no record shows; no GPU hours are assumed"
            f"\n{duration(figures['cluster_seconds_left'])} on a cluster of {cores:,} such cores "
            f"({cores / 32:,.0f} machines with 32 cores), one core per trial"
        )
    return text


def _finish(args: argparse.Namespace, store: Any, failed: dict[str, str]) -> int:
    """Print the table, draw the figures and list the failures."""
    from masp.cli.table import figures, print_table, stored_table

    table = stored_table(store, args.name, args.scale)
    files = figures(store, table, args.figures) if args.figures else []
    print_table(table, "json" if args.json else "text", files, args.wide, **({"failed": failed} if args.json else {}))
    for label, reason in failed.items():
        print(printable(f"masp reproduce: {label} failed: {reason}"), file=sys.stderr)
    if failed:
        print(f"masp reproduce: {len(failed)} units failed; the same command tries them again", file=sys.stderr)
    return 1 if failed else 0
