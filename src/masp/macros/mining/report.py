"""Report on mining: the macros, their sources, and the share of the play that they cover."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from masp.macros.actions import noop_action
from masp.macros.mining.coverage import covered_shares
from masp.macros.mining.mine import MiningResult


def report(result: MiningResult) -> dict[str, Any]:
    """A JSON object about the macros, their sources and their coverage."""
    sequences = [macro.actions for macro in result.actions.macros]
    stream = np.concatenate(result.streams)
    rows, changes = covered_shares(result.alphabet, stream, sequences)
    noop = noop_action(result.actions.primitive_names)
    return {
        "env_id": result.actions.env_id,
        "num_primitives": result.actions.num_primitives,
        "settings": asdict(result.settings),
        "sources": _sources(result),
        "macros": _macros(result),
        "constant_macros": sum(len(set(s)) == 1 for s in sequences),
        "noop_macros": sum(set(s) == {noop} for s in sequences),
        "rows_covered": rows,
        "changes_covered": changes,
        "warnings": _warnings(result),
    }


def _macros(result: MiningResult) -> list[dict[str, Any]]:
    names = result.actions.primitive_names or [str(a) for a in range(result.actions.num_primitives)]
    lengths = np.concatenate([episodes.lengths for episodes in result.used])
    entries = []
    for macro in result.actions.macros:
        length = len(macro.actions)
        positions = int(np.maximum(lengths - length + 1, 0).sum())
        counts: dict[str, int] = {}
        for source, table in zip(result.sources, result.tables, strict=True):
            counts[source.name] = counts.get(source.name, 0) + table.count_of(result.alphabet, macro.actions)
        entries.append(
            {
                "actions": list(macro.actions),
                "names": [names[action] for action in macro.actions],
                "length": length,
                "count": macro.count,
                "share": (macro.count or 0) / positions,  # of all positions where a sequence of this length can start
                "sources": {name: count for name, count in counts.items() if count},
            }
        )
    return entries


def _sources(result: MiningResult) -> list[dict[str, Any]]:
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
        for source, used in zip(result.sources, result.used, strict=True)
    ]


def _warnings(result: MiningResult) -> list[str]:
    warnings = [warning for source in result.sources for warning in source.warnings]
    games = sorted({game for source in result.sources for game in source.games})
    if len(games) > 1:
        warnings.append(f"play of different folders is pooled ({', '.join(games[:8])}); are they one game?")
    names = [source.name for source in result.sources]
    if len(set(names)) < len(names):
        warnings.append("a source is listed twice, so its play counts twice")
    if len(result.actions.macros) < result.settings.k:
        warnings.append(
            f"only {len(result.actions.macros)} of {result.settings.k} macros found; "
            "to get more, add play, lower min_count or use fewer filters"
        )
    if games and result.settings.stride == 1:
        warnings.append("macros are in emulator frames; for an agent that repeats each action 4 frames use stride 4")
    return warnings
