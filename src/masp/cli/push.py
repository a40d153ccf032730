"""Share the macros and the similarity of a run, with a card, in a Hugging Face repository or a folder.

masp push runs/planted-grid-masp-0 me/planted-grid
masp push grid.safetensors me/planted-grid --note "consensus of ten seeds"
masp push runs/planted-grid-masp-0 ./shared/planted-grid      # a folder begins with . or / or ~
"""

from __future__ import annotations

import argparse

from masp import sharing
from masp.training.export import open_bundle


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="RUN_DIR|BUNDLE", help="run directory or exported bundle")
    parser.add_argument("place", metavar="OWNER/NAME|FOLDER", help="repository, or a folder that begins with . / or ~")
    parser.add_argument("--note", default="", help="a sentence for the card")
    parser.add_argument("--private", action="store_true", help="a new repository is private")
    parser.add_argument("--replace", action="store_true", help="replace the bundle in a folder")


def run(args: argparse.Namespace) -> int:
    bundle = open_bundle(args.source, args.note)
    where = sharing.push(bundle, args.place, args.replace, args.private)
    print(f"{where}: {len(bundle.actions)} actions, {len(bundle.actions.macros)} of them macros")
    return 0
