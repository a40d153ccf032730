"""What was mined, from what, and how much of the play it covers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from masp.macros.mining.coverage import measure
from masp.macros.mining.mine import Mined
from masp.macros.mining.names import noop_action


def report(mined: Mined) -> dict[str, Any]:
    """A JSON object about the macros, their sources and their coverage."""
    sequences = [macro.actions for macro in mined.actions.macros]
    stream = np.concatenate(mined.streams)
    rows, changes = measure(mined.alphabet, stream, sequences)
    noop = noop_action(mined.actions.primitive_names)
    return {
        "env_id": mined.actions.env_id,
        "num_primitives": mined.actions.num_primitives,
        "settings": asdict(mined.settings),
        "sources": _sources(mined),
        "macros": _macros(mined),
        "constant_macros": sum(len(set(s)) == 1 for s in sequences),
        "noop_macros": sum(set(s) == {noop} for s in sequences),
        "rows_covered": rows,
        "changes_covered": changes,
        "warnings": _warnings(mined),
    }


def _macros(mined: Mined) -> list[dict[str, Any]]:
    names = mined.actions.primitive_names or [str(a) for a in range(mined.actions.num_primitives)]
    lengths = np.concatenate([episodes.lengths for episodes in mined.used])
    entries = []
    for macro in mined.actions.macros:
        length = len(macro.actions)
        places = int(np.maximum(lengths - length + 1, 0).sum())
        counts: dict[str, int] = {}
        for source, table in zip(mined.sources, mined.tables, strict=True):
            counts[source.name] = counts.get(source.name, 0) + table.count_of(mined.alphabet, macro.actions)
        entries.append(
            {
                "actions": list(macro.actions),
                "names": [names[action] for action in macro.actions],
                "length": length,
                "count": macro.count,
                "share": (macro.count or 0) / places,  # of all places where a sequence of this length could start
                "sources": {name: count for name, count in counts.items() if count},
            }
        )
    return entries


def _sources(mined: Mined) -> list[dict[str, Any]]:
    return [
        {
            "source": source.name,
            "files": source.files,
            "games": list(source.games),
            "episodes": source.episodes.count,
            "rows": len(source.episodes.actions),
            "episodes_used": used.count,
            "rows_used": len(used.actions),
        }
        for source, used in zip(mined.sources, mined.used, strict=True)
    ]


def _warnings(mined: Mined) -> list[str]:
    warnings = [warning for source in mined.sources for warning in source.warnings]
    games = sorted({game for source in mined.sources for game in source.games})
    if len(games) > 1:
        warnings.append(f"play of different folders is pooled ({', '.join(games[:8])}); are they one game?")
    names = [source.name for source in mined.sources]
    if len(set(names)) < len(names):
        warnings.append("a source is given twice, so its play counts twice")
    if len(mined.actions.macros) < mined.settings.k:
        warnings.append(
            f"only {len(mined.actions.macros)} of {mined.settings.k} macros found; "
            "more play, a smaller min_count or fewer filters give more"
        )
    if games and mined.settings.stride == 1:
        warnings.append("macros are in emulator frames; for an agent that repeats each action 4 frames use stride 4")
    return warnings
