"""Show a macro file, or corrupt it as in the paper's noise experiment."""

from __future__ import annotations

import argparse
from pathlib import Path

from masp import json_text
from masp.cli.console import WIDE_HELP, print_table
from masp.errors import UserError
from masp.macros.actions import ActionSet, spell
from masp.macros.noise import corrupt, replaced_indices
from masp.macros.overlap import overlap_matrix
from masp.printable import printable
from masp.whole_file import whole_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the two sub-commands."""
    commands = parser.add_subparsers(dest="what", required=True, metavar="show|noise")
    show = commands.add_parser("show", help="list the macros; optionally draw their overlaps")
    show.add_argument("file", metavar="FILE", help="macro file written by 'masp mine'")
    show.add_argument("--png", metavar="FILE", help="write a heat map of the overlaps to this file")
    show.add_argument("--wide", action="store_true", help=WIDE_HELP)
    show.add_argument("--json", action="store_true", help="print one JSON object")
    noise = commands.add_parser("noise", help="replace macros by random sequences of the same length")
    noise.add_argument("file", metavar="FILE", help="macro file written by 'masp mine'")
    noise.add_argument("--p", type=float, default=0.5, help="probability to replace each macro (default %(default)s)")
    noise.add_argument("--seed", type=int, default=0, help="same seed, same result (default %(default)s)")
    noise.add_argument("--out", required=True, metavar="FILE", help="where to write the corrupted macro file")
    noise.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Run the sub-command."""
    actions = ActionSet.load(args.file)
    return _show(actions, args) if args.what == "show" else _noise(actions, args)


def _show(actions: ActionSet, args: argparse.Namespace) -> int:
    sequences = [macro.actions for macro in actions.macros]
    overlap = overlap_matrix(sequences)
    number = len(sequences)
    mean = float((overlap.sum() - number) / (number * (number - 1))) if number > 1 else 0.0
    constant = sum(len(set(sequence)) == 1 and len(sequence) > 1 for sequence in sequences)
    if args.png:
        from masp.report.macro_overlap import overlap_figure

        with whole_file(args.png) as file:
            overlap_figure(actions).savefig(file, format="png", bbox_inches="tight")
    if args.json:
        summary = {
            "env_id": actions.env_id,
            "num_primitives": actions.num_primitives,
            "macros": [
                {"actions": list(m.actions), "name": name, "length": len(m.actions), "count": m.count}
                for m, name in zip(actions.macros, actions.names[actions.num_primitives :], strict=True)
            ],
            "constant_macros": constant,
            "mean_overlap": mean,
            "png": args.png,
        }
        print(json_text.dumps(summary))
        return 0
    _print_table(actions, args.wide)
    of = f" of {printable(actions.env_id)}" if actions.env_id else ""
    print(
        f"{number} macros on {actions.num_primitives} primitives{of}; "
        f"{constant} are constant runs; mean overlap {mean:.2f}"
    )
    if args.png:
        print(f"heat map written to {args.png}")
    return 0


def _print_table(actions: ActionSet, wide: bool) -> None:
    rows = []
    for i, macro in enumerate(actions.macros):
        text = spell(macro.actions, actions.primitive_names)
        text = f"{macro.name}: {text}" if macro.name else text
        count = "" if macro.count is None else str(macro.count)
        rows.append((str(actions.num_primitives + i), text, str(len(macro.actions)), count))
    columns = ("action", "macro", "length", "count")
    print_table(columns, rows, wide=wide, optional=("length", "count"), numbers=("action", "length", "count"))


def _noise(actions: ActionSet, args: argparse.Namespace) -> int:
    corrupted = corrupt(actions, args.p, args.seed)
    out = Path(args.out)
    if out.is_dir() or not out.parent.is_dir():
        raise UserError(f"{out}: cannot be written; --out names a file in an existing folder")
    corrupted.save(out)
    replaced = replaced_indices(len(actions.macros), args.p, args.seed)
    if args.json:
        print(json_text.dumps({"out": str(out), "p": args.p, "seed": args.seed, "replaced": replaced}))
    else:
        print(f"replaced {len(replaced)} of {len(actions.macros)} macros; written to {out}")
    return 0
