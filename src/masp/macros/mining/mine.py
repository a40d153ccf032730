"""Mining macros from recorded play: read, count, select."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from masp.errors import UserError
from masp.macros.actions import ActionSet, Macro, noop_action
from masp.macros.episodes import UNKNOWN, Episodes
from masp.macros.mining.counting import Alphabet, CountTable, count_windows, merge
from masp.macros.mining.coverage import Coverage, Occurrences
from masp.macros.mining.selection import Selection, find_candidates, select_by_coverage, select_by_frequency
from masp.macros.mining.settings import MiningSettings
from masp.macros.mining.sources import Source, in_memory, open_sources, require_same_actions
from masp.macros.recording import RecordingHeader

Progress = Callable[[str, int, int], None]
"""Called with (name of the stage, units done, units in total)."""


@dataclass(frozen=True)
class MiningResult:
    """The macros, and what a report about them needs."""

    actions: ActionSet
    settings: MiningSettings
    sources: tuple[Source, ...]
    used: tuple[Episodes, ...]
    """Per source, the episodes that were counted, after applying the stride."""
    alphabet: Alphabet
    streams: tuple[np.ndarray, ...]
    """Per source, the counted play as symbols."""
    tables: tuple[CountTable, ...]
    """Per source, the counts of the windows of the longest length; constant ones may be missing if none is a macro."""


def mine_macros(
    sources: Any,
    k: int = 32,
    min_length: int = 3,
    max_length: int = 8,
    stride: int = 1,
    *,
    literal: bool = False,
    num_primitives: int | None = None,
    primitive_names: Sequence[str] = (),
    env_id: str = "",
    noop: int | None = None,
    **options: Any,
) -> ActionSet:
    """Mine macros from recorded play (examples/mining_from_minari.py).

    Examples:
      >>> [macro.actions for macro in mine_macros([0, 1, 2, 0, 1, 2, 0, 1, 2], k=1, max_length=3).macros]
      [(0, 1, 2)]

    Args:
      sources: a path or several (files, folders, `minari:ID`), or play in memory: one sequence of integer actions,
        or one per episode.
      k: number of macros.
      min_length: shortest macro, in actions.
      max_length: longest macro.
      stride: frames per decision of the recording, of which the last action counts.
      literal: use the paper's heuristic, the k most frequent subsequences without filters.
      num_primitives: number of primitive actions of the environment; default: taken from the recordings.
      primitive_names: their names; default: taken from the recordings.
      env_id: id of the environment; default: taken from the recordings.
      noop: the action that does nothing; default: the one named NOOP.
      options: any other field of `MiningSettings`.
    """
    if literal and (filters := set(options) - {"only_successful", "top_scoring"}):
        raise UserError(f"literal filters no sequences; leave out {', '.join(sorted(filters))}")
    make_settings = MiningSettings.literal if literal else MiningSettings
    settings = make_settings(k, min_length, max_length, stride, **options)
    return mine(_open(sources, num_primitives), settings, num_primitives, primitive_names, env_id, noop).actions


def mine(
    sources: Sequence[Source],
    settings: MiningSettings,
    num_primitives: int | None = None,
    primitive_names: Sequence[str] = (),
    env_id: str = "",
    noop: int | None = None,
    progress: Progress | None = None,
) -> MiningResult:
    """Mine macros from sources that are already read; all sources are pooled."""
    header = _common_header(sources, num_primitives, tuple(primitive_names), env_id)
    noop = noop_action(header.primitive_names) if noop is None else noop
    used = [episodes.every(settings.stride) for episodes in _filter_episodes(sources, settings)]
    alphabet = Alphabet.over(used, settings.max_length)
    streams = [alphabet.stream(episodes) for episodes in used]
    pooled = streams[0] if len(streams) == 1 else np.concatenate(streams)
    occurrences = Occurrences(alphabet, pooled, not settings.keep_constant) if settings.diverse else None
    if occurrences and len(streams) == 1:
        tables = [occurrences.table]
    else:
        tables = []
        for i, stream in enumerate(streams):
            if progress:
                progress("counting", i, len(streams))
            tables.append(count_windows(alphabet, stream))
    candidates = find_candidates(alphabet, merge(tables, alphabet), settings, noop)
    selection = Selection(candidates, settings, noop)
    if occurrences:
        coverage = Coverage(alphabet, pooled, occurrences, None if settings.keep_noop else noop)
        select_by_coverage(candidates, selection, coverage, progress and partial(progress, "selecting"))
    else:
        select_by_frequency(candidates, selection)
    macros = [Macro(candidates.sequence(r), count=int(candidates.counts[r])) for r in selection.ranks]
    actions = ActionSet(header.num_primitives, macros, header.primitive_names, header.env_id)
    return MiningResult(actions, settings, tuple(sources), tuple(used), alphabet, tuple(streams), tuple(tables))


def _open(sources: Any, num_primitives: int | None) -> list[Source]:
    """Read paths; anything else is play in memory. Only the first element is inspected: there may be millions."""
    if isinstance(sources, str | os.PathLike):
        sources = [sources]
    sources = sources if isinstance(sources, np.ndarray) else list(sources)
    if not len(sources):
        raise UserError("no play to mine: give at least one file, folder or sequence of actions")
    if isinstance(sources[0], str | os.PathLike):
        if not all(isinstance(source, str | os.PathLike) for source in sources):
            raise UserError("sources mix paths with sequences of actions; mine one kind at a time")
        return open_sources(sources, num_primitives)
    return [in_memory([sources] if np.ndim(sources[0]) == 0 else sources)]


def _common_header(
    sources: Sequence[Source], num_primitives: int | None, names: tuple[str, ...], env_id: str
) -> RecordingHeader:
    """Environment and primitives of the pooled play; the caller's values take precedence over those of the sources."""
    if not sources:
        raise UserError("no play to mine: give at least one file, folder or sequence of actions")
    first = sources[0]
    for source in sources[1:]:
        require_same_actions(first.header, first.name, source.header, source.name)
    number = num_primitives or first.header.num_primitives
    for source in sources:
        largest = int(source.episodes.actions.max(initial=0))
        if largest >= number:
            raise UserError(
                f"{source.name}: contains action {largest}, but the primitives are 0..{number - 1}; "
                "was it recorded in another environment or with the full action set?"
            )
    if not names and number == first.header.num_primitives:
        names = next((source.header.primitive_names for source in sources if source.header.primitive_names), ())
    env_id = env_id or next((source.header.env_id for source in sources if source.header.env_id), "")
    return RecordingHeader(env_id, number, names)


def _filter_episodes(sources: Sequence[Source], settings: MiningSettings) -> list[Episodes]:
    """Per source, the episodes that pass the filters on success and score."""
    masks = [np.ones(source.episodes.count, bool) for source in sources]
    if settings.only_successful:
        for source, mask in zip(sources, masks, strict=True):
            if (source.episodes.success == UNKNOWN).any():
                raise UserError(
                    f"{source.name}: does not say which episodes were successful; choose by score (top_scoring) instead"
                )
            mask &= source.episodes.success == 1
    if settings.top_scoring is not None:
        masks = _top_scoring(sources, masks, settings.top_scoring)
    episodes = [source.episodes.take(mask) for source, mask in zip(sources, masks, strict=True)]
    if not any(len(part.actions) for part in episodes):
        raise UserError(f"{sources[0].name}: no episode is left to mine; loosen the filters on episodes")
    return episodes


def _top_scoring(sources: Sequence[Source], masks: list[np.ndarray], share: float) -> list[np.ndarray]:
    """Of the episodes in `masks`, the best `share` over all sources, rounded up; ties: earlier episodes first."""
    for source in sources:
        if np.isnan(source.episodes.scores).any():
            raise UserError(f"{source.name}: has episodes without a score; top_scoring cannot choose among them")
    pooled = np.concatenate(masks)
    scores = np.concatenate([source.episodes.scores for source in sources])
    number = math.ceil(share * int(pooled.sum()) - 1e-9)
    best = np.argsort(-np.where(pooled, scores, -np.inf), kind="stable")[:number]
    top = np.zeros(len(pooled), bool)
    top[best] = True
    return np.split(top, np.cumsum([len(mask) for mask in masks])[:-1])
