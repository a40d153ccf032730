"""What came out of some runs: one sentence, one chart and one table per task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from masp.report.page.colours import shades
from masp.report.page.groups import Group
from masp.report.page.runs import ReportRun
from masp.report.render import FEW, number
from masp.report.statistics import bootstrap_interval

MEASURES = {"eval_success": "evaluation success", "eval_return": "evaluation return"}
SAME_FRAMES = 0.95
"""Groups whose frames differ by less are said to have the same number of frames; runs end with their tick."""


def measure_of(groups: Sequence[Group]) -> str | None:
    """Success where the task has it, else the return; None: nothing was evaluated yet."""
    runs = [run for group in groups for run in group.runs]
    return next((name for name in MEASURES if any(run.last(name) is not None for run in runs)), None)


def summary_blocks(
    task: str, groups: Sequence[Group], captions: Mapping[str, str], name_task: bool
) -> list[dict[str, Any]]:
    """The blocks of one task; `captions` say what a group of some label is."""
    measure = measure_of(groups)
    blocks: list[dict[str, Any]] = []
    if measure is not None:
        blocks.append(
            {
                "kind": "text",
                "tone": "finding",
                "text": _finding(f"{task}:" if name_task else "", groups, measure).strip(),
            }
        )
        blocks.append({"kind": "dots", "dots": [_dots(task, groups, measure)]})
    return [*blocks, _table(task, groups, measure, captions)]


def final_values(group: Group, measure: str) -> list[float]:
    """The last evaluation of every run that has one."""
    return [value for run in group.runs if (value := run.last(measure)) is not None]


def with_interval(values: Sequence[float], measure: str) -> str:
    """Mean and 95 % interval over seeds."""
    if not values:
        return "–"
    kind = measure.removeprefix("eval_")
    mean = number(float(np.mean(values)), kind)
    if len(values) < 2:
        return mean
    low, high = bootstrap_interval(values)
    return f"{mean} [{number(low, kind)}, {number(high, kind)}]"


def _finding(start: str, groups: Sequence[Group], measure: str) -> str:
    """One sentence with the groups and their scores, best first."""
    results = [(group, values) for group in groups if (values := final_values(group, measure))]
    results.sort(key=lambda result: -float(np.mean(result[1])))
    parts = [f"{group.label} {with_interval(values, measure)}" for group, values in results]
    frames = [max(run.frames for run in group.runs) for group, _ in results]
    if min(frames) < SAME_FRAMES * max(frames):
        parts = [f"{part} after {count:,} frames" for part, count in zip(parts, frames, strict=True)]
        when = ""
    else:
        when = f"after {max(frames):,} frames, "
    unfinished = [run for group in groups for run in group.runs if run.state != "finished"]
    text = f"{'so far, ' if unfinished else ''}{when}{MEASURES[measure]}: {'; '.join(parts)}."
    return f"{start} {text}" if start else text[0].upper() + text[1:]


def _dots(task: str, groups: Sequence[Group], measure: str) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for group in groups:
        values = final_values(group, measure)
        if not values:
            continue
        low, high = bootstrap_interval(values) if len(values) > 1 else (None, None)
        row = {"name": group.label, "colour": shades(group.colour), "value": float(np.mean(values))}
        rows.append(row | {"low": low, "high": high, "points": values})
    return {
        "id": f"final-{hash_text(task)}",
        "title": f"Last {MEASURES[measure]}",
        "read": "Large dot: mean over seeds, with its 95 % interval; small dots: single seeds."
        if any(len(row["points"]) > 1 for row in rows)
        else "One dot per run.",
        "x": MEASURES[measure],
        "rows": rows,
    }


def hash_text(text: str) -> str:
    """A short name for use in ids."""
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _table(task: str, groups: Sequence[Group], measure: str | None, captions: Mapping[str, str]) -> dict[str, Any]:
    figures = [] if measure is None else [f"last {MEASURES[measure]}", "mean over the run"]
    rows = []
    for group in groups:
        head = {"text": group.label, "colour": shades(group.colour), "note": captions.get(group.label, "")}
        row: list[Any] = [head]
        if measure is not None:
            during = [float(np.mean(curve)) for run in group.runs if len(curve := run.curve(measure)[1])]
            row += [with_interval(final_values(group, measure), measure), with_interval(during, measure)]
        rows.append([*row, f"{len(group.runs[0].actions):,}", _seeds(group)])
    return {
        "kind": "table",
        "caption": f"{task}: {_what_figures_are([len(group.runs) for group in groups])}",
        "columns": ["group", *figures, "actions", "seeds"],
        "rows": rows,
    }


def _what_figures_are(sizes: Sequence[int]) -> str:
    if max(sizes) == 1:
        return "one seed each"
    few = any(1 < size < FEW for size in sizes)
    note = f"; with fewer than {FEW} seeds an interval is little more than their range" if few else ""
    return f"means over seeds with 95 % intervals{note}"


def _seeds(group: Group) -> str:
    """How many there are, and how many of them are not finished."""
    states = [state for run in group.runs if (state := state_text(run)) != "finished"]
    return f"{len(group.runs)}" + (f" ({', '.join(sorted(set(states)))})" if states else "")


def state_text(run: ReportRun) -> str:
    """Finished, or how far it is."""
    if (state := run.state) == "finished":
        return state
    return f"{state} at {100 * run.frames / run.config.frames:.0f} %"
