"""Measure speed, as ratios inside one run, with the interval of the middle 80 % of the turns.

masp bench overhead    wall time of masp against macros
masp bench throughput  steps and updates per second, environment included
masp bench scaling     growth with the number of actions, similarity as matrix and as factors
masp bench mining      mining against collections.Counter, growth to 50 million rows
"""

from __future__ import annotations

import argparse
import importlib
import json
import os

NAMES = ("overhead", "throughput", "scaling", "mining")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", choices=NAMES, metavar="NAME", help=" or ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="a short run, to see that it works")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    figures = importlib.import_module(f"masp.bench.{args.name}").run(args.quick)
    figures["load_average"] = os.getloadavg()[0]
    if args.name != "mining":
        from masp import ops

        figures |= {"kernels": ops.kernels_used(), "kernels_status": ops.kernels_status()}
    if args.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:36} {value:.4g}" if isinstance(value, float) else f"{name:36} {value}")
    return 0
