"""What stable-retro has on disk: games, their ROMs, states and buttons. No emulator runs here."""

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
    """An integrated game; its ROM may be missing."""

    id: str
    folders: tuple[str, ...]
    """Where its files are; the first that has one is used."""

    def file(self, name: str) -> Path | None:
        paths = (Path(folder, self.id, name) for folder in self.folders)
        return next((path for path in paths if path.exists()), None)

    @property
    def rom(self) -> Path | None:
        endings = stable_retro.data.EMU_EXTENSIONS
        return next((found for ending in endings if (found := self.file(f"rom{ending}"))), None)

    @property
    def console(self) -> dict[str, Any]:
        """What stable-retro knows of the machine that the game runs on, by the ending of its ROM."""
        return stable_retro.data.EMU_INFO[stable_retro.data.EMU_EXTENSIONS[self.require_rom().suffix]]

    def require_rom(self) -> Path:
        rom = self.rom
        if rom is None:
            digests = self.file("rom.sha")
            known = f" (SHA-1 {digests.read_text().split()[0]})" if digests else ""
            raise UserError(
                f"{self.id}: its ROM{known} is not there; put your own copy into a folder DIR, then {IMPORT_COMMAND}"
            )
        return rom


def folders(integrations: str = "") -> tuple[str, ...]:
    """Where games are looked for: the user's own folder first, then what comes with stable-retro."""
    if integrations and not Path(integrations).is_dir():
        raise UserError(f"integrations={integrations}: there is no such folder")
    own = (os.path.abspath(integrations),) if integrations else ()
    base = Path(stable_retro.data.path())
    return (*own, *(str(base / kind) for kind in ("stable", "contrib", "experimental")))


def find_game(name: str, integrations: str = "") -> Game:
    """The game called `name`: a full id, or `retro-` and the beginning of one, up to a dash."""
    where = folders(integrations)
    short = name.removeprefix(PREFIX)
    ids = {entry for folder in where for entry in os.listdir(folder)}
    if short in ids:
        return Game(short, where)
    found = sorted(entry for entry in ids if entry.lower().startswith(f"{short.lower()}-"))
    stable = [entry for entry in found if Path(where[-3], entry).exists()]
    found = stable or found
    if not found:
        near = sorted(entry for entry in ids if entry.lower().startswith(short.lower()))
        near = (near or difflib.get_close_matches(short, ids))[:3]
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UserError(f"stable-retro has no game called {short!r}{hint}")
    if len(found) > 1:
        raise UserError(f"{name} may be {' or '.join(found)}; give one of these")
    return Game(found[0], where)


def games_with_rom() -> list[str]:
    """Ids of the games that can be played here."""
    roms = {f"rom{ending}" for ending in stable_retro.data.EMU_EXTENSIONS}
    found = set()
    for folder in folders():
        for entry in os.scandir(folder):
            if entry.is_dir() and roms.intersection(os.listdir(entry)):
                found.add(entry.name)
    return sorted(found)


def find_states(game: Game, pattern: str) -> list[Path]:
    """The states that `pattern` means.

    Args:
      pattern: a name, or several by `*`, of the states that come with the game, or the path of state files; empty: the
        one that the integration names. No state at all means: from power on.
    """
    if not pattern:
        metadata = game.file("metadata.json")
        pattern = json.loads(metadata.read_text()).get("default_state", "") if metadata else ""
        if not pattern:
            return []
    known = {path.stem: path for folder in reversed(game.folders) for path in Path(folder, game.id).glob("*.state")}
    chosen = [known[name] for name in fnmatch.filter(sorted(known), pattern.removesuffix(".state"))]
    if not chosen:
        path = Path(os.path.abspath(pattern))
        chosen = [found for found in sorted(path.parent.glob(path.name)) if found.is_file()]
    if not chosen:
        raise UserError(f"{game.id}: there is no state {pattern!r}; there are {', '.join(sorted(known)) or 'none'}")
    return chosen


def read_state(path: Path) -> bytes:
    """What the emulator wrote, which is kept packed."""
    try:
        return gzip.decompress(path.read_bytes())
    except (OSError, EOFError) as error:
        raise UserError(f"{path}: cannot be read as a state of stable-retro: {error}") from None


def button_choices(game: Game, only: Sequence[str] = ()) -> list[tuple[str, ...]]:
    """Every combination of buttons that the integration allows, in stable-retro's own order of discrete actions.

    Args:
      only: leave out combinations with other buttons than these; empty: leave out none.
    """
    scenario = game.file("scenario.json")
    groups = (json.loads(scenario.read_text()) if scenario else {}).get("actions") or game.console["actions"]
    known = {button for group in groups for choice in group for button in choice}
    if unknown := set(only) - known:
        raise UserError(f"{game.id} has no button {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}")
    bits = {button: 1 << i for i, button in enumerate(game.console["buttons"])}
    allowed = [{choice for choice in map(tuple, group) if not only or set(choice) <= set(only)} for group in groups]
    ordered = [sorted(choices, key=lambda choice: sum(bits[button] for button in choice)) for choices in allowed]
    # The first group varies fastest.
    return [tuple(itertools.chain(*reversed(choice))) for choice in itertools.product(*reversed(ordered))]


def has_script(game: Game) -> bool:
    """Whether the rewards come from a program beside the emulator, which remembers things of its own."""
    scenario = game.file("scenario.json")
    return scenario is not None and "scripts" in json.loads(scenario.read_text())


def integration_type(game: Game) -> Integrations:
    """What makes stable-retro look where `game` was found."""
    standard = {str(Path(stable_retro.data.path(), kind)) for kind in ("stable", "contrib", "experimental")}
    for folder in game.folders:
        if folder not in standard and folder not in Integrations.CUSTOM.paths:
            Integrations.add_custom_path(folder)
    return Integrations.CUSTOM if Path(game.folders[-3], game.id).exists() else Integrations.ALL
