"""The enlarged action space: primitives first, then macros; their names, their file, and a default set."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from masp import json_text
from masp.errors import UserError
from masp.json_text import shortened

FORMAT = "masp-macros"
VERSION = 1
ALE_ACTIONS = (
    *("NOOP", "FIRE", "UP", "RIGHT", "LEFT", "DOWN", "UPRIGHT", "UPLEFT", "DOWNRIGHT", "DOWNLEFT"),
    *("UPFIRE", "RIGHTFIRE", "LEFTFIRE", "DOWNFIRE", "UPRIGHTFIRE", "UPLEFTFIRE", "DOWNRIGHTFIRE", "DOWNLEFTFIRE"),
)
"""The full action set of the Arcade Learning Environment, in its order."""
MAX_ACTIONS = 65536
"""Upper limit of the number of primitives, and of macros in a file."""
MAX_TABLE = 1 << 23
"""Upper limit of actions times steps of the longest macro, in a file: tables of this size are built."""
_MAX_BYTES = 1 << 25


@dataclass(frozen=True)
class Macro:
    """A fixed sequence of primitive actions.

    Examples:
      >>> Macro((1, 1, 0), name="hop").actions
      (1, 1, 0)
    """

    actions: tuple[int, ...]
    """Primitive actions in the order they are played."""
    name: str = ""
    """Readable name; if empty, it is derived from the names of its actions."""
    count: int | None = None
    """How often it occurs in the play that it was mined from."""


@dataclass(frozen=True, init=False)
class ActionSet:
    """The actions that the agent chooses from: `num_primitives` primitives, then macros.

    Action i < num_primitives is primitive i; action num_primitives + j plays `macros[j]`. Macros of length one
    (aliases of a primitive) and duplicate macros are allowed, because noise can produce both.

    Examples:
      >>> actions = ActionSet(2, [(0, 0, 0), (0, 1)])
      >>> len(actions), actions.sequence(3)
      (4, (0, 1))
    """

    num_primitives: int
    macros: tuple[Macro, ...]
    primitive_names: tuple[str, ...]
    env_id: str

    def __init__(
        self,
        num_primitives: int,
        macros: Iterable[Macro | Sequence[int]] = (),
        primitive_names: Sequence[str] = (),
        env_id: str = "",
    ):
        is_integer = isinstance(num_primitives, (int, np.integer)) and not isinstance(num_primitives, bool)
        if not is_integer or num_primitives < 1:
            raise UserError(f"num_primitives must be a positive integer, got {shortened(num_primitives)}")
        if num_primitives > MAX_ACTIONS:
            raise UserError(f"num_primitives must be at most {MAX_ACTIONS:,}, got {shortened(num_primitives)}")
        if primitive_names and len(primitive_names) != num_primitives:
            raise UserError(f"{len(primitive_names)} primitive names for {num_primitives} primitives")
        num_primitives = int(num_primitives)
        valid_macros = tuple(_validated(i, macro, num_primitives) for i, macro in enumerate(macros))
        object.__setattr__(self, "num_primitives", num_primitives)
        object.__setattr__(self, "macros", valid_macros)
        object.__setattr__(self, "primitive_names", tuple(primitive_names))
        object.__setattr__(self, "env_id", env_id)

    def __len__(self) -> int:
        return self.num_primitives + len(self.macros)

    def sequence(self, action: int) -> tuple[int, ...]:
        """The primitives that `action` plays."""
        if not 0 <= action < len(self):
            raise IndexError(f"action {action} is not in 0..{len(self) - 1}")
        return (action,) if action < self.num_primitives else self.macros[action - self.num_primitives].actions

    def sequences(self) -> list[tuple[int, ...]]:
        """The primitives of every action, [A] of varying length."""
        return [self.sequence(action) for action in range(len(self))]

    @property
    def lengths(self) -> np.ndarray:
        """[A] int32, the number of steps of each action."""
        return np.array([len(s) for s in self.sequences()], np.int32)

    @property
    def table(self) -> np.ndarray:
        """[A, longest] int32, the primitives of each action, padded with its last primitive."""
        longest = int(self.lengths.max())
        return np.array([list(s) + [s[-1]] * (longest - len(s)) for s in self.sequences()], np.int32)

    @property
    def names(self) -> list[str]:
        """One readable name per action."""
        primitives = list(self.primitive_names) or [str(action) for action in range(self.num_primitives)]
        return primitives + [m.name or "-".join(primitives[action] for action in m.actions) for m in self.macros]

    def without_macros(self) -> ActionSet:
        """The primitives alone."""
        return ActionSet(self.num_primitives, (), self.primitive_names, self.env_id)

    def require_primitives(self, num_primitives: int, env_id: str) -> None:
        """Raise `UserError` unless the environment has `num_primitives` actions, as these macros assume."""
        for i, macro in enumerate(self.macros):
            for action in macro.actions:
                if action >= num_primitives:
                    raise UserError(
                        f"macro {i} uses action {action}, but {env_id} has actions 0..{num_primitives - 1}; "
                        "was it mined on the full action set?"
                    )
        if self.num_primitives != num_primitives:
            raise UserError(
                f"the macros were made for {self.num_primitives} primitive actions, but {env_id} has "
                f"{num_primitives}; mine them again or change num_primitives in the file"
            )

    def to_json(self) -> dict[str, Any]:
        """The content of a macro file."""
        macros = []
        for macro in self.macros:
            entry: dict[str, Any] = {"actions": list(macro.actions)}
            if macro.name:
                entry["name"] = macro.name
            if macro.count is not None:
                entry["count"] = macro.count
            macros.append(entry)
        return {
            "format": FORMAT,
            "version": VERSION,
            "env_id": self.env_id,
            "num_primitives": self.num_primitives,
            "primitive_names": list(self.primitive_names),
            "macros": macros,
        }

    @classmethod
    def from_json(cls, data: Any, where: str = "macro file") -> ActionSet:
        """The action set of a parsed macro file; `where` names the source in errors."""
        if not isinstance(data, dict):
            raise UserError(f"{where}: expected a JSON object, got {type(data).__name__}")
        if data.get("format") != FORMAT:
            raise UserError(
                f"{where}: not a macro file: 'format' is {shortened(data.get('format'))}, expected '{FORMAT}'"
            )
        if data.get("version") is True or data.get("version") != VERSION:
            version = shortened(data.get("version"))
            raise UserError(f"{where}: version {version} is not supported, expected {VERSION}")
        entries = data.get("macros")
        if not isinstance(entries, list) or len(entries) > MAX_ACTIONS:
            raise UserError(f"{where}: 'macros' must be a list of objects with 'actions', at most {MAX_ACTIONS:,}")
        names = data.get("primitive_names") or []
        if not isinstance(names, list) or not all(map(json_text.is_text, names)):
            raise UserError(f"{where}: 'primitive_names' must be a list of strings")
        env_id = data.get("env_id") or ""
        if not json_text.is_text(env_id):
            raise UserError(f"{where}: 'env_id' must be a string, got {shortened(env_id)}")
        try:
            macros = [_macro_from_json(i, entry) for i, entry in enumerate(entries)]
            actions = cls(data.get("num_primitives"), macros, names, env_id)  # type: ignore[arg-type]
            longest = max((len(macro.actions) for macro in macros), default=1)
            if len(actions) * longest > MAX_TABLE:
                raise UserError(f"{len(actions):,} actions of up to {longest:,} steps are more than masp can hold")
            return actions
        except UserError as error:
            raise UserError(f"{where}: {error}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the macro file; an existing one is replaced whole or not at all."""
        json_text.write(Path(path), self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ActionSet:
        """Read a macro file; raises `UserError` if it cannot be read or is invalid."""
        file = Path(path)
        if not file.exists():
            raise UserError(f"{path}: no such macro file; 'masp mine' writes one")
        try:
            text = json_text.read_bytes(file, _MAX_BYTES).decode()
        except UnicodeDecodeError as error:
            raise UserError(f"{path}: cannot be read as a macro file: {error}") from None
        except UserError as error:
            raise UserError(f"{path}: cannot be read as a macro file: {str(error).removeprefix(f'{path}: ')}") from None
        return cls.from_json(json_text.parse(text, str(path)), str(path))


def _macro_from_json(index: int, entry: Any) -> Macro:
    if not isinstance(entry, dict) or not isinstance(entry.get("actions"), list):
        raise UserError(f"macro {index} must be an object with a list 'actions'")
    count = entry.get("count")
    if count is not None and (type(count) is not int or not json_text.is_number(count)):
        raise UserError(f"macro {index}: 'count' must be an integer, got {shortened(count)}")
    name = entry.get("name") or ""
    if not json_text.is_text(name):
        raise UserError(f"macro {index}: 'name' must be a string, got {shortened(name)}")
    return Macro(tuple(entry["actions"]), name, count)


def _validated(index: int, macro: Macro | Sequence[int], num_primitives: int) -> Macro:
    """`macro` as a `Macro` of plain integers, each of which is a primitive."""
    if not isinstance(macro, Macro):
        macro = Macro(tuple(macro))
    if not macro.actions:
        raise UserError(f"macro {index} is empty; a macro plays at least one action")
    for action in macro.actions:
        if isinstance(action, bool) or not isinstance(action, (int, np.integer)):
            raise UserError(f"macro {index} holds {shortened(action)}; actions are integers")
        if not 0 <= action < num_primitives:
            shown = shortened(int(action))
            raise UserError(f"macro {index} uses action {shown}, but the primitives are 0..{num_primitives - 1}")
    return Macro(tuple(int(a) for a in macro.actions), macro.name, macro.count)


def noop_action(primitive_names: Sequence[str]) -> int | None:
    """The action named NOOP, if there is one."""
    upper = [name.upper() for name in primitive_names]
    return upper.index("NOOP") if "NOOP" in upper else None


def spell(sequence: Sequence[int], primitive_names: Sequence[str]) -> str:
    """A sequence in readable form, with repeats abbreviated: `RIGHT×3 FIRE`."""
    runs = [(action, len(list(run))) for action, run in groupby(sequence)]
    named_runs = [(primitive_names[action] if primitive_names else str(action), n) for action, n in runs]
    return " ".join(name if n == 1 else f"{name}×{n}" for name, n in named_runs)


def default_macros(
    num_primitives: int, primitive_names: Sequence[str] = (), env_id: str = "", lengths: Sequence[int] = (2, 4)
) -> ActionSet:
    """Macros for an environment without recorded play: each primitive except NOOP, repeated `lengths` times."""
    if any(length < 2 for length in lengths):
        raise UserError(f"a repeat plays an action at least twice, got lengths {tuple(lengths)}")
    primitives = ActionSet(num_primitives, (), primitive_names, env_id)
    noop = noop_action(primitives.primitive_names)
    names = primitives.names
    macros = [
        Macro((action,) * length, name=f"{names[action]}x{length}")
        for length in lengths
        for action in range(num_primitives)
        if action != noop
    ]
    return ActionSet(num_primitives, macros, primitive_names, env_id)
