"""What can be trained on: families of environments, which are installed, and the line that installs the others.

masp envs
masp envs MinAtar        all ids of one family
masp envs --all          all ids of all families
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from masp import json_text
from masp.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("family", nargs="?", metavar="FAMILY", help="list the ids of this family only")
    parser.add_argument("--all", action="store_true", help="list the ids of every family")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    from masp.environments.registry import FAMILIES

    if args.family and args.all:
        raise UserError("FAMILY and --all exclude each other")
    asked = (args.family or "").lower()
    chosen = [family for family in FAMILIES if family.name.lower().startswith(asked)]
    if args.family and len(chosen) != 1:
        raise UserError(f"there is no family {args.family!r}; there are {', '.join(f.name for f in FAMILIES)}")
    if args.family:
        chosen[0].require_installed(chosen[0].name)
    about = [_about(family) for family in chosen]
    if args.json:
        print(json_text.dumps({"families": about}))
    elif args.family or args.all:
        print("\n".join(env_id for family in about for env_id in family["ids"] or ()))
    else:
        _print_table(about)
    return 0


def _about(family: Any) -> dict[str, Any]:
    """One family, in words and numbers."""
    return {
        "name": family.name,
        "installed": family.installed,
        "install": family.install_line if family.package or family.extra else None,
        "preset": family.preset,
        "examples": list(family.examples),
        "ids": list(family.names()) if family.installed else None,
        "optional": [_about_package(package, f"backend={package.module}") for package in family.backends]
        + [_about_package(package, package.brings) for package in family.optional],
    }


def _about_package(package: Any, brings: str) -> dict[str, Any]:
    return {
        "package": package.module,
        "brings": brings,
        "installed": package.installed,
        "install": package.install_line,
    }


def _print_table(about: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("family", "", "ids", "for example", "preset", box=None, pad_edge=False)
    missing = []
    for family in about:
        state = "installed" if family["installed"] else "missing"
        count = str(len(family["ids"])) if family["installed"] else ""
        table.add_row(family["name"], state, count, escape(", ".join(family["examples"])), family["preset"])
        if not family["installed"]:
            missing.append((family["name"], family["install"]))
        for package in family["optional"]:
            state = "installed" if package["installed"] else "missing"
            table.add_row("", state, "", escape(f"with {package['package']}: {package['brings']}"), "")
            if not package["installed"]:
                missing.append((package["package"], package["install"]))
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    console.print(table)
    for name, line in missing:
        console.print(escape(f"for {name}: {line}"))
    console.print(escape("'masp envs FAMILY' lists the ids of a family; 'masp train ID' trains on one."))
