"""Print the table of an experiment: the results in the store beside the paper's figures.

masp table planted
masp table minatar-k --markdown --figures figures/
masp table atari                  without results: the paper's figures alone
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from masp import json_text
from masp.cli.console import WIDE_HELP, console
from masp.experiments.catalogue import NAMES
from masp.experiments.experiment import SCALES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", choices=NAMES, help=", ".join(NAMES))
    parser.add_argument("--scale", choices=SCALES, help="default: the largest with results")
    parser.add_argument("--store", default="results", metavar="DIR", help="results store (default: results)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object")
    form.add_argument("--latex", action="store_true", help="print LaTeX")
    form.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--wide", action="store_true", help=WIDE_HELP)
    parser.add_argument(
        "--judged",
        choices=("last", "run"),
        help="last evaluation or mean over the run (default: as defined)",
    )
    parser.add_argument("--figures", metavar="DIR", help="also draw the figures as PNG")


def run(args: argparse.Namespace) -> int:
    from masp.experiments.store import Store

    store = Store(args.store)
    table = stored_table(store, args.name, args.scale, args.judged)
    files = figures(store, table, args.figures) if args.figures else []
    form = "markdown" if args.markdown else "latex" if args.latex else "text"
    print_table(table, "json" if args.json else form, files, args.wide)
    return 0


def stored_table(store: Any, name: str, scale: str | None, judged: str | None = None) -> Any:
    """The table of the results in the store; without results, the paper's figures alone."""
    from masp.experiments.catalogue import experiment
    from masp.experiments.plan import plan, plan_data
    from masp.report.paper import paper_remarks
    from masp.report.tables import build

    records = store.records()
    data = _stored_plan(store, name, scale)
    notes = []
    if data is None:
        data = plan_data(plan(experiment(name), scale or "paper"))  # type: ignore[arg-type]
        notes.append(f"nothing was run yet: masp reproduce {name} --scale smoke")
    elif not data.get("human") and data != plan_data(plan(experiment(name), data["scale"])):
        notes.append(f"the definition of {name} has changed since; the table shows what was run")
    if data["scale"] != "smoke":
        notes += paper_remarks(data["paper_table"], [tuple(cell["row"]) for cell in data["cells"]])
    notes += [f"{where}: {reason}" for where, reason in store.problems.items()]
    return build({**data, "judged": judged} if judged else data, records, tuple(notes))


def _stored_plan(store: Any, name: str, scale: str | None) -> dict[str, Any] | None:
    """The plan with results of the largest scale, else the one of the largest scale."""
    plans = [store.read_plan(name, candidate) for candidate in ([scale] if scale else reversed(SCALES))]
    readable = [plan for plan in plans if plan is not None]
    finished = {trial for trial, _ in store.records()}
    with_results = [plan for plan in readable if any(cell["trial"] in finished for cell in plan["cells"])]
    return next(iter(with_results + readable), None)


def figures(store: Any, table: Any, folder: str) -> list[Path]:
    """Draw the figures of the table; returns the files."""
    from masp.report.experiment_figures import draw

    return draw(table, store.records(), store.path, Path(folder))


def print_table(table: Any, form: str, files: list[Path], wide: bool, **more: Any) -> None:
    """Print the table to standard output."""
    from masp.report.render import render
    from masp.report.tables import summarise

    if form == "json":
        data = {**table.to_json(), "summary": summarise(table), "figures": [str(file) for file in files], **more}
        print(json_text.dumps(data))
        return
    print(render(table, form, console(wide).width))  # type: ignore[arg-type]
    for file in files:
        print(f"figure: {file}")
