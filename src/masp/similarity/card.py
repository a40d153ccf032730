"""The card of a bundle: what it was trained on, with which figures and versions. It may come from strangers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from masp import json_text
from masp.errors import UserError
from masp.json_text import shortened

MAX_TEXT, MAX_ENTRIES = 2_000, 64


@dataclass(frozen=True)
class Card:
    """Every field may be empty."""

    env: str = ""
    variant: str = ""
    frames: int = 0
    """Environment frames of the run that the similarity was learned in."""
    seed: int | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    """Final figures of that run by the names of its metrics (masp/report/metric_texts.py)."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of masp and of the libraries that made the bundle."""
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """The fields that are not empty."""
        return {name: value for name, value in asdict(self).items() if value or (value == 0 and name == "seed")}

    @classmethod
    def from_json(cls, data: Any, where: str) -> Card:
        """The card, or a `UserError` that names the field that is wrong."""
        if not isinstance(data, dict):
            raise UserError(f"{where}: expected a JSON object, got {type(data).__name__}")
        known = {entry.name for entry in fields(cls)}
        for name, value in data.items():
            if name not in known:
                raise UserError(f"{where}: {shortened(name)} is no field of a card")
            if not _CHECKS[name](value):
                raise UserError(f"{where}: {name} cannot be {shortened(value)}")
        return cls(**data)


def _is_text(value: Any) -> bool:
    return json_text.is_text(value) and len(value) <= MAX_TEXT


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _is_table(value: Any, check: Callable[[Any], bool]) -> bool:
    pairs = value.items() if isinstance(value, dict) and len(value) <= MAX_ENTRIES else [(None, None)]
    return all(_is_text(name) and check(entry) for name, entry in pairs)


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "env": _is_text,
    "variant": _is_text,
    "frames": _is_count,
    "seed": _is_count,
    "figures": lambda value: _is_table(value, json_text.is_number),
    "versions": lambda value: _is_table(value, _is_text),
    "note": _is_text,
}
