"""Write one HTML page about runs: it opens from disk, without a network, on a phone too.

masp report runs/planted-grid-masp-0 --out report.html
masp report demo --out report.html                         all runs in a folder, grouped by their settings
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_dirs", nargs="+", metavar="RUN_DIR", help="run directories, or folders of them")
    parser.add_argument("--out", default="report.html", metavar="FILE", help="page to write (default: report.html)")
    parser.add_argument("--title", default="", help="heading of the page (default: the tasks)")


def run(args: argparse.Namespace) -> int:
    from masp.report.page import write_report

    path = write_report(args.run_dirs, args.out, args.title)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB; open it in a browser")
    return 0
