"""Mine macros from recorded play and write them to a new macro file.

A SOURCE is a file or folder of Atari Grand Challenge text (.txt), a recording written by 'masp record' (.jsonl), or a
Minari data set (its folder, or minari:ID for one installed locally). Several sources are pooled. A sequence never
crosses the end of an episode or file.

By default, constant runs are excluded and macros are selected greedily by the additional play that they cover.
--literal gives the paper's set: the k most frequent subsequences, without filters.

examples:
  masp mine recordings/pitfall --stride 4 --out pitfall.json
  masp mine run1.jsonl run2.jsonl --top-scoring 0.25 --k 16 --out best.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from masp import json_text
from masp.cli.console import WIDE_HELP, print_table
from masp.errors import UserError
from masp.macros.actions import spell
from masp.macros.mining.mine import Progress, mine
from masp.macros.mining.report import report
from masp.macros.mining.settings import MiningSettings
from masp.macros.mining.sources import open_sources
from masp.printable import printable

_COMMON_OPTIONS = ("k", "min_length", "max_length", "stride", "only_successful", "top_scoring")
_THRESHOLDS = ("min_count", "contained_ratio")
_FILTERS = ("keep_constant", "keep_noop", "keep_contained", "drop_same_effect")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    defaults = MiningSettings()
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="recorded play: file, folder or minari:ID")
    parser.add_argument("--out", required=True, metavar="FILE", help="the macro file, a new file")
    parser.add_argument("--wide", action="store_true", help=WIDE_HELP)
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")

    size = parser.add_argument_group("which sequences")
    size.add_argument(
        "--k", type=int, default=defaults.k, metavar="N", help="maximum number of macros (default %(default)s)"
    )
    size.add_argument("--min-length", type=int, default=defaults.min_length, metavar="N", help="default %(default)s")
    size.add_argument("--max-length", type=int, default=defaults.max_length, metavar="N", help="default %(default)s")
    size.add_argument(
        "--stride",
        type=int,
        default=defaults.stride,
        metavar="N",
        help="take every N-th action: the frame skip of the agent that will play the macros; 4 for Atari (default 1)",
    )
    size.add_argument(
        "--literal", action="store_true", help="the paper's heuristic: the most frequent, without filters"
    )

    play = parser.add_argument_group("which play")
    play.add_argument("--only-successful", action="store_true", help="use successful episodes only")
    play.add_argument("--top-scoring", type=float, metavar="SHARE", help="use the best share of episodes, e.g. 0.25")
    play.add_argument("--skip-broken", action="store_true", help="skip what cannot be read, with a warning")

    _add_filters(parser)
    env = parser.add_argument_group("environment (default: taken from the recordings)")
    env.add_argument("--num-primitives", type=int, metavar="N", help="primitive actions (Atari Grand Challenge: 18)")
    env.add_argument("--env-id", default="", metavar="ID", help="environment id to store in the macro file")
    env.add_argument("--noop", type=int, metavar="N", help="the action that does nothing (default: the one named NOOP)")


def _add_filters(parser: argparse.ArgumentParser) -> None:
    defaults = MiningSettings()
    filters = parser.add_argument_group("filters")
    filters.add_argument("--keep-constant", action="store_true", help="allow macros that repeat one action")
    filters.add_argument("--keep-noop", action="store_true", help="allow macros of NOOPs only (with --keep-constant)")
    filters.add_argument(
        "--keep-contained", action="store_true", help="allow macros contained in a longer one that is as frequent"
    )
    filters.add_argument(
        "--contained-ratio",
        type=float,
        metavar="R",
        help=f"'as frequent': at least this share of the count (default {defaults.contained_ratio})",
    )
    filters.add_argument(
        "--drop-same-effect", action="store_true", help="of macros that differ only in waiting, keep one"
    )
    filters.add_argument(
        "--min-count", type=int, metavar="N", help=f"minimum number of occurrences (default {defaults.min_count})"
    )
    filters.add_argument(
        "--by-frequency", action="store_true", help="select the most frequent, not those that add most coverage"
    )


def run(args: argparse.Namespace) -> int:
    """Mine, save, report."""
    settings = _settings(args)
    out = Path(args.out)
    if out.exists():
        raise UserError(f"{out}: exists already; choose another file")
    if not out.parent.is_dir():
        raise UserError(f"{out}: cannot be written; --out names a file in an existing folder")
    if args.num_primitives is not None and args.num_primitives < 1:
        raise UserError(f"--num-primitives must be positive, got {args.num_primitives}")
    with _progress() as show:
        sources = open_sources(
            args.sources, args.num_primitives, args.skip_broken, lambda done, total: show("reading", done, total)
        )
        result = mine(sources, settings, args.num_primitives, (), args.env_id, args.noop, show)
        summary = {"out": str(out), **report(result)}
    result.actions.save(out)
    if args.json:
        print(json_text.dumps(summary))
    else:
        _print(summary, result.actions.primitive_names, args.wide)
    return 0


def _settings(args: argparse.Namespace) -> MiningSettings:
    common = {name: getattr(args, name) for name in _COMMON_OPTIONS}
    thresholds = {name: getattr(args, name) for name in _THRESHOLDS if getattr(args, name) is not None}
    if args.literal:
        if thresholds:
            names = ", ".join("--" + name.replace("_", "-") for name in thresholds)
            raise UserError(f"--literal filters no sequences; leave out {names}")
        return MiningSettings.literal(**common)
    filters = {name: getattr(args, name) for name in _FILTERS}
    return MiningSettings(**common, **thresholds, **filters, diverse=not args.by_frequency)


@contextmanager
def _progress() -> Iterator[Progress]:
    """A progress bar on stderr, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading")
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


def _print(summary: dict[str, Any], primitive_names: tuple[str, ...], wide: bool) -> None:
    lines = []
    for i, macro in enumerate(summary["macros"]):
        sources = " ".join(f"{Path(name).name}:{count}" for name, count in list(macro["sources"].items())[:3])
        more = len(macro["sources"]) - 3
        sources += f" +{more}" if more > 0 else ""
        text = spell(macro["actions"], primitive_names)
        lines.append((str(i), text, str(macro["length"]), str(macro["count"]), f"{macro['share']:.2%}", sources))
    columns, numbers = ("#", "macro", "length", "count", "share", "sources"), ("#", "length", "count", "share")
    print_table(columns, lines, wide=wide, optional=("length", "count", "sources"), numbers=numbers)
    rows = sum(source["rows_used"] for source in summary["sources"])
    episodes = sum(source["episodes_used"] for source in summary["sources"])
    covered, changes = summary["rows_covered"], summary["changes_covered"]
    print(
        f"{len(summary['macros'])} macros from {rows:,} rows of {episodes:,} episodes; "
        f"{summary['constant_macros']} are constant runs; they cover {covered:.1%} of the rows "
        f"and {changes:.1%} of the action changes; written to {printable(summary['out'])}"
    )
    for warning in summary["warnings"]:
        print(f"masp mine: note: {printable(warning)}", file=sys.stderr)
