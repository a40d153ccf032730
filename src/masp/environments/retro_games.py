"""The files of stable-retro: games, their ROMs, states and buttons. This module starts no emulator."""

from __future__ import annotations

import difflib
import fnmatch
import gzip
import itertools
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import stable_retro.data
from stable_retro.data import Integrations

from masp.errors import UserError

PREFIX = "retro-"
IMPORT_COMMAND = "python -m stable_retro.import DIR"


@dataclass(frozen=True)
class Game:
    """A game with an integration; its ROM may be missing."""

    id: str
    folders: tuple[str, ...]
    """Folders of its files, in order of precedence."""

    def file(self, name: str) -> Path | None:
        paths = (Path(folder, self.id, name) for folder in self.folders)
        return next((path for path in paths if path.exists()), None)

    @property
    def rom(self) -> Path | None:
        suffixes = stable_retro.data.EMU_EXTENSIONS
        return next((path for suffix in suffixes if (path := self.file(f"rom{suffix}"))), None)

    @property
    def console(self) -> dict[str, Any]:
        """Stable-retro's description of the console, which the suffix of the ROM identifies."""
        return stable_retro.data.EMU_INFO[stable_retro.data.EMU_EXTENSIONS[self.require_rom().suffix]]

    def require_rom(self) -> Path:
        rom = self.rom
        if rom is None:
            digests = self.file("rom.sha")
            digest = f" (SHA-1 {digests.read_text().split()[0]})" if digests else ""
            raise UserError(
                f"{self.id}: its ROM{digest} is not installed; put your own copy into a folder DIR, "
                f"then {IMPORT_COMMAND}"
            )
        return rom


def folders(integrations: str = "") -> tuple[str, ...]:
    """Folders to search for games: the user's own first, then those of stable-retro."""
    if integrations and not Path(integrations).is_dir():
        raise UserError(f"integrations={integrations}: there is no such folder")
    own = (os.path.abspath(integrations),) if integrations else ()
    base = Path(stable_retro.data.path())
    return (*own, *(str(base / kind) for kind in ("stable", "contrib", "experimental")))


def find_game(name: str, integrations: str = "") -> Game:
    """The game called `name`: a full id, or `retro-` and the beginning of one, up to a dash."""
    search_path = folders(integrations)
    short = name.removeprefix(PREFIX)
    ids = {entry for folder in search_path for entry in os.listdir(folder)}
    if short in ids:
        return Game(short, search_path)
    matches = sorted(entry for entry in ids if entry.lower().startswith(f"{short.lower()}-"))
    stable_matches = [entry for entry in matches if Path(search_path[-3], entry).exists()]
    matches = stable_matches or matches
    if not matches:
        similar = sorted(entry for entry in ids if entry.lower().startswith(short.lower()))
        similar = (similar or difflib.get_close_matches(short, ids))[:3]
        hint = f"; did you mean {' or '.join(similar)}?" if similar else ""
        raise UserError(f"stable-retro has no game called {short!r}{hint}")
    if len(matches) > 1:
        raise UserError(f"{name} may be {' or '.join(matches)}; give one of these")
    return Game(matches[0], search_path)


def games_with_rom() -> list[str]:
    """Ids of the games whose ROM is installed."""
    roms = {f"rom{suffix}" for suffix in stable_retro.data.EMU_EXTENSIONS}
    games = set()
    for folder in folders():
        for entry in os.scandir(folder):
            if entry.is_dir() and roms.intersection(os.listdir(entry)):
                games.add(entry.name)
    return sorted(games)


def find_states(game: Game, pattern: str) -> list[Path]:
    """The start states that match `pattern`; an empty list means power-on.

    Args:
      pattern: name of a state of the game, a pattern with `*`, or path of state files; empty: the game's default.
    """
    if not pattern:
        metadata = game.file("metadata.json")
        pattern = json.loads(metadata.read_text()).get("default_state", "") if metadata else ""
        if not pattern:
            return []
    states = {path.stem: path for folder in reversed(game.folders) for path in Path(folder, game.id).glob("*.state")}
    matches = [states[name] for name in fnmatch.filter(sorted(states), pattern.removesuffix(".state"))]
    if not matches:
        absolute = Path(os.path.abspath(pattern))
        matches = [path for path in sorted(absolute.parent.glob(absolute.name)) if path.is_file()]
    if not matches:
        raise UserError(f"{game.id}: there is no state {pattern!r}; there are {', '.join(sorted(states)) or 'none'}")
    return matches


def read_state(path: Path) -> bytes:
    """The decompressed state of the emulator in a file."""
    try:
        return gzip.decompress(path.read_bytes())
    except (OSError, EOFError) as error:
        raise UserError(f"{path}: cannot be read as a state of stable-retro: {error}") from None


def button_choices(game: Game, only: Sequence[str] = ()) -> list[tuple[str, ...]]:
    """All combinations of buttons that the integration allows, in stable-retro's order of discrete actions.

    Args:
      only: the buttons to use; empty: all.
    """
    scenario = game.file("scenario.json")
    groups = (json.loads(scenario.read_text()) if scenario else {}).get("actions") or game.console["actions"]
    buttons = {button for group in groups for choice in group for button in choice}
    if unknown := set(only) - buttons:
        raise UserError(f"{game.id} has no button {', '.join(sorted(unknown))}; it has {', '.join(sorted(buttons))}")
    bits = {button: 1 << i for i, button in enumerate(game.console["buttons"])}
    allowed = [{choice for choice in map(tuple, group) if not only or set(choice) <= set(only)} for group in groups]
    ordered = [sorted(choices, key=lambda choice: sum(bits[button] for button in choice)) for choices in allowed]
    # The first group varies fastest.
    return [tuple(itertools.chain(*reversed(choice))) for choice in itertools.product(*reversed(ordered))]


def has_script(game: Game) -> bool:
    """Whether a script computes the rewards; its variables are not in the state of the emulator."""
    scenario = game.file("scenario.json")
    return scenario is not None and "scripts" in json.loads(scenario.read_text())


def integration_type(game: Game) -> Integrations:
    """The argument with which stable-retro loads `game` from its folders."""
    standard = {str(Path(stable_retro.data.path(), kind)) for kind in ("stable", "contrib", "experimental")}
    for folder in game.folders:
        if folder not in standard and folder not in Integrations.CUSTOM.paths:
            Integrations.add_custom_path(folder)
    return Integrations.CUSTOM if Path(game.folders[-3], game.id).exists() else Integrations.ALL
