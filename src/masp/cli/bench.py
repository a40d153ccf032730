"""Measure speed, as ratios inside one run, with the interval of the middle 80 % of the turns.

masp bench overhead    wall time of masp over macros
masp bench throughput  steps and updates per second, environment included
masp bench scaling     growth with the number of actions, similarity as a matrix and embedded
masp bench mining      mining over collections.Counter, growth to 50 million rows
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import Any

from masp import json_text

BENCHMARKS = {
    # name: module and function
    "overhead": ("masp.bench.training", "overhead"),
    "throughput": ("masp.bench.training", "throughput"),
    "scaling": ("masp.bench.scaling", "run"),
    "mining": ("masp.bench.mining", "run"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", choices=list(BENCHMARKS), metavar="NAME", help=" or ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="a short run that only shows that it works")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    from masp import ops

    module, function = BENCHMARKS[args.name]
    how_long = "about a minute" if args.quick else "several minutes"
    print(f"masp bench: measuring {args.name}, {how_long} on a quiet machine", file=sys.stderr, flush=True)
    figures = getattr(importlib.import_module(module), function)(args.quick)
    figures |= {"load_average": os.getloadavg()[0], "kernels": ops.kernels_used()}
    if args.json:
        print(json_text.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:36} {_rounded(value)}")
    return 0


def _rounded(value: Any) -> str:
    """A figure for reading; those of --json have all digits."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_rounded(part)}" for name, part in value.items())
    if isinstance(value, list):
        texts = [_rounded(part) for part in value]
        return "".join(f"\n  {text}" for text in texts) if value and isinstance(value[0], dict) else ", ".join(texts)
    return str(value)
