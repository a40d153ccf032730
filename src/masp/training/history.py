"""Which macros a run had when: a file of JSON lines that grows during training.

The first line holds the macros to begin with; each further line one round of replacing them:

    {"frames": 25000, "episodes": 310, "good_episodes": 41, "replaced": [...], "actions": {...}}

`replaced` says for each place the old sequence, how often it was decided on while it was there, and the new one;
`actions` is what the macro file would hold from then on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from masp.macros.actions import ActionSet
from masp.training.run_dir import read_lines, replace_text


class MacroHistory:
    """The history of one run; its newest actions are those of the run."""

    def __init__(self, path: Path, actions: ActionSet, keep_to_frames: int | None):
        """Begin with `actions`; or go on, without the rounds after `keep_to_frames`, which were never checkpointed."""
        self._path, self.actions = path, actions
        kept = [] if keep_to_frames is None else [row for row in read_history(path) if row["frames"] <= keep_to_frames]
        replace_text(self._path, "".join(json.dumps(row) + "\n" for row in kept))
        if kept:
            self.actions = ActionSet.from_json(kept[-1]["actions"], str(path))
        else:
            self.add(0, actions, {})

    def add(self, frames: int, actions: ActionSet, about: dict[str, Any]) -> None:
        """One more round."""
        self.actions = actions
        with open(self._path, "a") as file:
            file.write(json.dumps({"frames": frames, **about, "actions": actions.to_json()}) + "\n")


def read_history(path: Path) -> list[dict[str, Any]]:
    """All rounds so far; none where macros stay."""
    return read_lines(path)
