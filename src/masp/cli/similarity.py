"""Look at the similarity that a run learned, or export it with its macros for another task.

masp similarity show runs/planted-grid-masp-0 --png similarity.png
masp similarity show runs/planted-grid-masp-0 --effects effects.png
masp similarity export runs/planted-grid-masp-0 --consensus --out grid.safetensors
masp train planted-grid --bundle grid.safetensors --frozen --out runs/grid-again
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from masp import json_text
from masp.cli.console import WIDE_HELP, print_table
from masp.errors import UserError
from masp.printable import printable
from masp.similarity.bundle import Bundle, save_bundle
from masp.similarity.consensus import consensus
from masp.training.export import open_bundle


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="what", required=True, metavar="show|export")
    show = commands.add_parser("show", help="the most similar pairs, and a picture", prog="masp similarity show")
    show.add_argument("source", metavar="RUN_DIR|BUNDLE", help="run directory or exported bundle")
    show.add_argument("--png", metavar="FILE", help="write a heat map, similar actions side by side")
    show.add_argument("--effects", metavar="FILE", help="write a picture of what the penalty did during the run")
    show.add_argument("--pairs", type=int, default=12, metavar="N", help="pairs to list (default: 12)")
    show.add_argument("--wide", action="store_true", help=WIDE_HELP)
    show.add_argument("--json", action="store_true", help="print one JSON object with the whole matrix")
    export = commands.add_parser("export", help="macros and similarity as one file", prog="masp similarity export")
    export.add_argument("source", metavar="RUN_DIR|BUNDLE", help="run directory or exported bundle")
    for command in (show, export):
        command.add_argument(
            "--consensus",
            action="store_true",
            help="two actions are alike if they are similar to the same others: less noise (docs/transfer.md)",
        )
    export.add_argument("--out", required=True, metavar="BUNDLE", help="file to write")
    export.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    bundle = open_bundle(args.source)
    if args.consensus:
        bundle = bundle._replace(similarity=consensus(bundle.similarity))
    if args.what == "export":
        if Path(args.out).exists():
            raise UserError(f"{args.out} exists; choose another --out")
        save_bundle(args.out, bundle)
        about = {"out": args.out, "actions": len(bundle.actions), "macros": len(bundle.actions.macros)}
        text = f"{args.out}: {about['actions']} actions, {about['macros']} of them macros"
        print(json_text.dumps(about) if args.json else printable(text))
        return 0
    names = bundle.actions.names
    if args.effects:
        _draw_effects(args.source, names, args.effects)
    if args.png:
        from masp.report.similarity_map import similarity_map

        similarity_map(bundle.similarity, names, args.png, f"similarity of {len(names)} actions")
    if args.json:
        print(json_text.dumps({"actions": names, "similarity": bundle.similarity.tolist()}))
    else:
        _print_pairs(bundle, args.pairs, args.wide)
        if args.png:
            print(f"heat map: {args.png}")
        if args.effects:
            print(f"what the penalty did: {args.effects}")
    return 0


def _draw_effects(source: str, names: list[str], path: str) -> None:
    """A picture of the metrics of a run."""
    from masp.training.run_dir import RunDir

    rows = RunDir(source).read_metrics() if Path(source).is_dir() else []
    if not rows or "advantage" not in rows[-1]:
        raise UserError(f"{source}: --effects needs the metrics of a run, as 'masp train' writes them now")
    from masp.report.figures import effects_picture

    effects_picture(rows, names, path, f"{Path(source).name}: what the penalty does")


def _print_pairs(bundle: Bundle, count: int, wide: bool) -> None:
    names = bundle.actions.names
    rows, columns = np.triu_indices(len(names), 1)
    values = bundle.similarity[rows, columns]
    title = f"most similar of {len(values):,} pairs (mean {values.mean() if values.size else 0:.3f})"
    top = np.argsort(-values, kind="stable")[:count]
    lines = [(f"{values[k]:.3f}", names[rows[k]], names[columns[k]]) for k in top]
    print_table(("similarity", "action", "and action"), lines, title, wide, numbers=("similarity",))
