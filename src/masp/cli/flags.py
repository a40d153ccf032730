"""Every field of the configuration as a flag, with its docstring as help.

By hand, because the generators we know print a page where one line would do, and take a second to import.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import itertools
import textwrap
import typing
from functools import cache
from typing import Any, Literal

from masp.config import SECTIONS as NESTED
from masp.config import Pair, TrainConfig, field_sections, field_types, replace
from masp.errors import UserError

UNKNOWN_VALUES = " (name an environment before --help to see its values)"
SECTIONS: dict[str, type] = {"": TrainConfig, **NESTED}


def add_config_flags(parser: argparse.ArgumentParser, skip: tuple[str, ...]) -> None:
    """One flag per field; a flag that is not given leaves the preset's value."""
    groups = {
        section: parser.add_argument_group((kind.__doc__ or "").split(".")[0].lower() + UNKNOWN_VALUES)
        for section, kind in SECTIONS.items()
    }
    kinds = field_types()
    for name, section in field_sections().items():
        if name not in skip:
            _add_flag(groups[section], name, kinds[name], field_docs(SECTIONS[section])[name])


def add_track_flag(parser: argparse.ArgumentParser) -> None:
    """The flag for trackers (`masp.training.tracking.TRACKERS`, which is not imported for its names)."""
    parser.add_argument(
        "--track",
        action="append",
        default=[],
        choices=("tensorboard", "wandb", "mlflow"),
        help="also log the metrics of every run with this tracker; can be given several times",
    )


def _add_flag(group: Any, name: str, kind: Any, text: str) -> None:
    flag = "--" + name.replace("_", "-")
    options: dict[str, Any] = {"dest": name, "default": argparse.SUPPRESS, "help": text.replace("%", "%%")}
    if kind is bool:
        group.add_argument(flag, action=argparse.BooleanOptionalAction, **options)
    elif typing.get_origin(kind) is Literal:
        group.add_argument(flag, choices=typing.get_args(kind), **options)
    elif kind == Pair:
        group.add_argument(flag, nargs=2, type=_number, metavar=("A", "B"), **options)
    elif typing.get_origin(kind) is tuple:
        group.add_argument(flag, nargs="+", metavar="NAME=VALUE", **options)
    else:
        group.add_argument(
            flag, type=_number if kind in (int, float) else kind, metavar=kind.__name__.upper(), **options
        )


def _number(text: str) -> float | int:
    """A number; 200_000 and 2e5 are both fine for whole ones."""
    value = float(text)
    return int(value) if value.is_integer() else value


_number.__name__ = "number"


def with_flags(config: TrainConfig, args: argparse.Namespace) -> TrainConfig:
    """`config` with the flags that were given."""
    return replace(config, **given_flags(args))


def given_flags(args: argparse.Namespace) -> dict[str, Any]:
    """The settings whose flags were given; `env` counts where it is one of the arguments."""
    kinds = field_types()
    changes = {}
    for name, value in vars(args).items():
        if name in kinds and value is not None:
            kind = kinds[name]
            if kind is int and isinstance(value, float):
                raise UserError(f"--{name.replace('_', '-')} must be a whole number, got {value}")
            changes[name] = tuple(value) if isinstance(value, list) else float(value) if kind is float else value
    return changes


def from_text(name: str, text: str) -> Any:
    """The value of a setting as its flag would read it."""
    kind = field_types()[name]
    if typing.get_origin(kind) is Literal:
        kind, choices = str, typing.get_args(kind)
    else:
        choices = ("true", "false") if kind is bool else ()
    if kind not in (str, int, float, bool):
        raise UserError(f"{name} has no values that can be listed")
    if choices and text not in choices:
        raise UserError(f"{name} must be one of {', '.join(choices)}, got {text!r}")
    if kind in (str, bool):
        return text == "true" if kind is bool else text
    try:
        value = _number(text)
    except ValueError:
        raise UserError(f"{name} must be a number, got {text!r}") from None
    return float(value) if kind is float else value


def shown(value: Any) -> str:
    """A value as one would give it to its flag; "" and () are "none"."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return " ".join(map(shown, value)) or "none"
    if isinstance(value, int):
        return f"{value:,}" if value >= 10_000 else str(value)
    return f"{value:g}" if isinstance(value, float) else str(value) or "none"


@cache
def field_docs(kind: type) -> dict[str, str]:
    """The docstring below each field of a dataclass."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body  # type: ignore[attr-defined]
    docs = {}
    for field, doc in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant):
            docs[field.target.id] = str(doc.value.value)  # type: ignore[union-attr]
    return {name: docs.get(name, "") for name in kind.__dataclass_fields__}  # type: ignore[attr-defined]
