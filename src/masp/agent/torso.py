"""A network torso of the user's own, by name.

The configuration of a run keeps a torso as text: `module:Class`, followed by the fields of the Flax module as a JSON
object if it has any. A torso that cannot be written so is used in this process, under a name that begins with `local:`.
A class of the running script is kept under the name of the script's file, and used as it is while the script runs.
"""

from __future__ import annotations

import dataclasses
import json
import warnings
from functools import cache
from typing import Any

import flax.linen as nn

from masp.errors import UserError
from masp.importing import import_object, importable_name, one_line

LOCAL = "local:"

_LOCAL_TORSOS: dict[str, nn.Module] = {}


def torso_text(torso: nn.Module | str | None) -> str:
    """The text that stands for `torso` in a configuration; empty: the torso for the kind of observation."""
    if torso is None or isinstance(torso, str):
        return torso or ""
    if not isinstance(torso, nn.Module):
        got = f"the class {torso.__name__}" if isinstance(torso, type) else type(torso).__name__
        raise UserError(f"torso must be a Flax module, such as Torso(), or 'module:Class', got {got}")
    fields = _fields_text(torso)
    name = importable_name(type(torso))
    if name is not None and fields is not None:
        return name + fields
    text = LOCAL + type(torso).__name__ + (fields or "")
    _LOCAL_TORSOS[text] = torso
    make_torso.cache_clear()
    warnings.warn(
        f"the torso {type(torso).__name__} cannot be imported again, so other processes need it to open the run: "
        "masp.load_agent(path, torso=...)",
        stacklevel=2,
    )
    return text


@cache
def make_torso(text: str) -> nn.Module | None:
    """The torso that `text` stands for, the same object each time; None for an empty text."""
    if not text:
        return None
    if text.startswith(LOCAL):
        if text not in _LOCAL_TORSOS:
            raise UserError(
                f"the network has a torso {text.removeprefix(LOCAL)} that only the process that trained it had; "
                "pass it on: masp.load_agent(path, torso=...)"
            )
        return _LOCAL_TORSOS[text]
    name, brace, fields = text.partition("{")
    torso_class = import_object(name.strip())
    if not isinstance(torso_class, type) or not issubclass(torso_class, nn.Module):
        raise UserError(f"{name.strip()}: expected the class of a Flax module (flax.linen.Module), got {torso_class!r}")
    try:
        return torso_class(**_frozen(json.loads(brace + fields or "{}")))
    except Exception as error:
        raise UserError(f"torso {text}: it cannot be made: {one_line(error)}") from error


def require_torso(text: str) -> None:
    """Raise `UserError` where the torso of a stored network cannot be made, with what to do about it."""
    try:
        make_torso(text)
    except UserError as error:
        if text.startswith(LOCAL):
            raise
        raise UserError(f"the network has a torso of its own: {error}; or pass it on: torso=...") from None


def _fields_text(torso: nn.Module) -> str | None:
    """The fields of `torso` as a JSON object behind a space, empty without fields; None: they are no JSON values."""
    fields = {f.name: getattr(torso, f.name) for f in dataclasses.fields(torso) if f.name not in ("parent", "name")}
    try:
        text = json.dumps(fields, sort_keys=True)
    except TypeError:
        return None
    same = type(torso)(**_frozen(json.loads(text))) == torso
    return (f" {text}" if fields else "") if same else None


def _frozen(value: Any) -> Any:
    """JSON values with tuples for lists: fields of a module are hashed."""
    if isinstance(value, dict):
        return {name: _frozen(part) for name, part in value.items()}
    return tuple(_frozen(part) for part in value) if isinstance(value, list) else value
