"""What can be trained on: families of environments, which are installed, and the line that installs the others.

masp envs
masp envs MinAtar        all ids of one family
masp envs --all          all ids of all families
"""

from __future__ import annotations

import argparse
from typing import Any

from masp import json_text
from masp.cli.console import WIDE_HELP, print_table
from masp.errors import UserError, did_you_mean


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("family", nargs="?", metavar="FAMILY", help="list the ids of this family only")
    parser.add_argument("--all", action="store_true", help="list the ids of every family")
    parser.add_argument("--wide", action="store_true", help=WIDE_HELP)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    from masp.environments.registry import FAMILIES

    if args.family and args.all:
        raise UserError("FAMILY and --all exclude each other")
    asked = (args.family or "").lower()
    chosen = [family for family in FAMILIES if family.name.lower().startswith(asked)]
    if args.family and len(chosen) != 1:
        names = [family.name for family in FAMILIES]
        hint = did_you_mean(args.family, names, f"there are {', '.join(names)}")
        raise UserError(f"there is no family {args.family!r}; {hint}")
    if args.family:
        chosen[0].require_installed(chosen[0].name)
    about = [_about(family) for family in chosen]
    if args.json:
        print(json_text.dumps({"families": about}))
    elif args.family or args.all:
        print("\n".join(env_id for family in about for env_id in family["ids"] or ()))
    else:
        _print_table(about, args.wide)
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


def _print_table(about: list[dict[str, Any]], wide: bool) -> None:
    rows, missing = [], []
    for family in about:
        state = "installed" if family["installed"] else "missing"
        count = str(len(family["ids"])) if family["installed"] else ""
        rows.append((family["name"], state, count, ", ".join(family["examples"]), family["preset"]))
        if not family["installed"]:
            missing.append((family["name"], family["install"]))
        for package in family["optional"]:
            state = "installed" if package["installed"] else "missing"
            rows.append(("", state, "", f"with {package['package']}: {package['brings']}", ""))
            if not package["installed"]:
                missing.append((package["package"], package["install"]))
    columns = ("family", "", "ids", "for example", "preset")
    print_table(columns, rows, wide=wide, optional=("preset",), numbers=("ids",))
    for name, line in missing:
        print(f"for {name}: {line}")
    print("'masp envs FAMILY' lists the ids of a family; 'masp train ID' trains on one.")
