"""Write one HTML page about runs, or about an experiment's table: it opens from disk, without a network.

masp report runs/planted-grid-masp-0 --out report.html
masp report demo --out report.html                         all runs in a folder, grouped by their settings
masp report results --experiment minatar-k --out k.html    ours beside the paper's, from a results store
"""

from __future__ import annotations

import argparse
from pathlib import Path

from masp.errors import UserError
from masp.experiments.catalogue import NAMES
from masp.experiments.experiment import SCALES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run_dirs", nargs="+", metavar="RUN_DIR|STORE", help="run directories or folders of them, or a results store"
    )
    parser.add_argument("--out", default="report.html", metavar="FILE", help="page to write (default: report.html)")
    parser.add_argument("--title", default="", help="heading of the page (default: the tasks)")
    parser.add_argument("--experiment", choices=NAMES, metavar="NAME", help=f"of a store: {', '.join(NAMES)}")
    parser.add_argument("--scale", choices=SCALES, help="of the experiment (default: the largest with results)")


def run(args: argparse.Namespace) -> int:
    from masp.report.page.document import write_page, write_report

    if args.scale and not args.experiment:
        raise UserError("--scale belongs to --experiment")
    if args.experiment:
        path = write_page(_experiment(args), args.out)
    else:
        path = write_report(args.run_dirs, args.out, args.title)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB; open it in a browser")
    return 0


def _experiment(args: argparse.Namespace) -> dict[str, object]:
    """The content of the page of an experiment."""
    from masp.cli.table import stored_table
    from masp.experiments.store import Store
    from masp.report.page.experiment import experiment_page

    if len(args.run_dirs) > 1:
        raise UserError(f"--experiment needs one results store, got {len(args.run_dirs)} folders")
    if not Path(args.run_dirs[0]).is_dir():
        raise UserError(f"{args.run_dirs[0]}: there is no such results store; 'masp reproduce' creates one")
    store = Store(args.run_dirs[0])
    table = stored_table(store, args.experiment, args.scale)
    page = experiment_page(table, store.records(), store.path)
    return page | ({"title": args.title} if args.title else {})
