"""List the records of the results store: one line per finished trial and seed.

  masp results
  masp results --where env=planted-grid control=masp --columns trial seed success frames
  masp results --json

The files below STORE/records are JSON lines, which pandas, Polars and DuckDB read directly.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from masp import json_text
from masp.cli.console import WIDE_HELP, print_table
from masp.errors import UserError, did_you_mean
from masp.printable import printable

OPTIONAL = ("trial", "env", "seconds", "commit", "finished")
"""Columns that a narrow terminal does without."""
COLUMNS = ("trial", "label", "env", "control", "seed", "frames", "return", "success", "seconds", "commit", "finished")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", default="results", metavar="DIR", help="results store (default: results)")
    parser.add_argument("--where", nargs="+", default=[], metavar="NAME=VALUE", help="only records with these values")
    parser.add_argument("--columns", nargs="+", default=list(COLUMNS), metavar="NAME", help="fields to show")
    parser.add_argument("--wide", action="store_true", help=WIDE_HELP)
    parser.add_argument("--json", action="store_true", help="print one JSON object with whole records")


def run(args: argparse.Namespace) -> int:
    from masp.experiments.store import Store

    store = Store(args.store)
    if not store.path.exists():
        raise UserError(f"{args.store}: there is no such results store; 'masp reproduce' creates one")
    conditions = [_condition(text) for text in args.where]
    records = [record for record in store.records().values() if all(_fits(record, *one) for one in conditions)]
    for where, reason in store.problems.items():
        print(printable(f"masp results: {where}: {reason}"), file=sys.stderr)
    if args.json:
        print(json_text.dumps({"records": records}))
    else:
        _print(records, args.columns, args.wide)
    return 0


def _condition(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UserError(f"--where {text!r}: expected NAME=VALUE, for example control=masp")
    return name, value


def _fits(record: dict[str, Any], name: str, value: str) -> bool:
    field = record.get(name, record["config"].get(name))
    return value in map(str, field) if isinstance(field, list) else value in (_text(field), str(field))


def _print(records: list[dict[str, Any]], columns: list[str], wide: bool) -> None:
    fields = {name for record in records for name in (*record, *record["config"])}
    for name in columns:
        if records and name not in fields:
            hint = did_you_mean(name, fields, f"they have {', '.join(sorted(fields))}")
            raise UserError(f"--columns: records have no {name!r}; {hint}")
    rows = [[_text(record.get(name, record["config"].get(name))) for name in columns] for record in records]
    asked_for = columns != list(COLUMNS)  # columns that were named are wrapped rather than left out
    print_table(columns, rows, wide=wide, optional=() if asked_for else OPTIONAL)
    print(f"{len(records)} records")


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
