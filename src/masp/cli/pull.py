"""Fetch macros and their similarity that somebody shared with 'masp push'.

masp pull me/planted-grid --out grid.safetensors
masp train planted-grid --bundle grid.safetensors --frozen

The bundle is read strictly before anything is written; no code in it is executed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from masp import sharing
from masp.errors import UserError
from masp.printable import printable
from masp.similarity.bundle import is_bundle, save_bundle


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("place", metavar="OWNER/NAME|FOLDER", help="repository, or a folder that begins with . / or ~")
    parser.add_argument("--out", required=True, metavar="BUNDLE", help="file to write, NAME.safetensors")
    parser.add_argument("--revision", help="commit, branch or tag of the repository (default: its newest)")


def run(args: argparse.Namespace) -> int:
    if not is_bundle(args.out):
        raise UserError(f"{args.out}: the name of a bundle ends with .safetensors")
    if Path(args.out).exists():
        raise UserError(f"{args.out} exists; choose another --out")
    bundle = sharing.pull(args.place, args.revision)
    save_bundle(args.out, bundle)
    card = bundle.card
    trained = f", trained on {card.env} ({card.variant}, {card.frames:,} frames)" if card.env else ""
    line = f"{args.out}: {len(bundle.actions)} actions, {len(bundle.actions.macros)} of them macros{trained}"
    print(printable(line))
    return 0
