"""Which charts the page has, with the sentence that says how to read each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from masp.report.page.colours import shades
from masp.report.page.curves import ENOUGH_SEEDS, band, line
from masp.report.page.groups import Group

MOST_SINGLE_RUNS = 60
"""Runs of a chart that also have a thin line of their own."""
SINGLE_POINTS = 120


@dataclass(frozen=True)
class ChartKind:
    """Metrics in one chart: the second one, if there is one, is dashed."""

    title: str
    metrics: tuple[str, ...]
    read: str
    unit: str = ""
    dashes: tuple[str, ...] = ("", "")
    """What the metrics are called in the legend, if there are two."""
    reference: float | None = None
    """A value with a meaning of its own, which gets a dotted line."""
    penalised: bool = False
    """Only groups with a penalty."""
    single: bool = False
    """Whether every run is drawn, too, where the band is not their range anyway."""


LEARNING = (
    ChartKind(
        "Evaluation success",
        ("eval_success",),
        "Share of evaluation episodes that reach the goal. Higher is better; further left is faster.",
        "share of episodes",
        single=True,
    ),
    ChartKind(
        "Evaluation return",
        ("eval_return",),
        "Mean return of evaluation episodes, played without noise. Higher is better; further left is faster.",
        "return of an episode",
        single=True,
    ),
    ChartKind(
        "Return while training",
        ("return",),
        "Mean return of the episodes that were learned from, random decisions included; it trails the evaluation.",
        "return of an episode",
    ),
    ChartKind(
        "Length of evaluation episodes",
        ("eval_episode_steps",),
        "Where reaching a goal ends the episode, shorter is better; where surviving is the aim, longer is.",
        "steps",
    ),
)
USAGE = (
    ChartKind(
        "Share of decisions that are macros",
        ("macro_share",),
        "0: macros are never chosen. An agent that decides at random is at the share of macros among all actions.",
        "share of decisions",
    ),
    ChartKind(
        "Steps per decision",
        ("decision_steps",),
        "Since the start of training. 1: every decision was a single step; the further above, the longer the macros.",
        "steps",
    ),
)
PENALTY = (
    ChartKind(
        "Spread of action values",
        ("q_spread_between", "q_spread_within"),
        "The penalty should push the dashed line (alike actions) down and leave the solid one (groups), "
        "or the agent cannot tell good from bad.",
        "standard deviation of values",
        ("between groups", "within groups"),
    ),
    ChartKind(
        "Over-estimation",
        ("overestimation",),
        "Expected minus obtained return of evaluation episodes: above 0, the agent overestimates its returns.",
        "return",
        reference=0.0,
    ),
    ChartKind(
        "Effective number of actions",
        ("effective_actions",),
        "How many actions share the decisions: 1 is always the same one. It usually falls as the policy "
        "settles; equivalent actions keep it high.",
        "actions",
    ),
    ChartKind(
        "Effective number of neighbours",
        ("effective_neighbours",),
        "How many actions each value is averaged over: 1 leaves values alone; it should come near the size of a "
        "group of alike actions.",
        "actions",
        penalised=True,
    ),
    ChartKind(
        "Best macro above best primitive",
        ("macro_lead",),
        "No macro is worth more than its first step and the best decisions after it: above 0, macros are "
        "over-estimated; far below 0, they are not wanted.",
        "value",
        reference=0.0,
    ),
    ChartKind(
        "What the similarity has learned",
        ("similarity_std",),
        "Standard deviation over pairs of actions. Near 0, all pairs are equally alike: nothing was learned.",
        "standard deviation",
        penalised=True,
    ),
    ChartKind(
        "True groups found",
        ("similarity_auc",),
        "How well the similarity tells pairs of the same true group from others: 0.5 is chance, 1 is perfect.",
        "AUC",
        reference=0.5,
        penalised=True,
    ),
    ChartKind(
        "Parts of the loss",
        ("td_loss", "penalty"),
        "The penalty (dashed, with its weight) should stay well below the loss of learning itself (solid).",
        "loss",
        ("TD loss", "penalty"),
        penalised=True,
    ),
)
SYSTEM = (
    ChartKind(
        "Speed",
        ("speed",),
        "Environment frames of one run per second since the row before, learning and evaluation included. Runs that "
        "train together share the time, so their speeds add up.",
        "frames per second",
    ),
)


def charts(kinds: Sequence[ChartKind], groups: Sequence[Group], prefix: str) -> list[dict[str, Any]]:
    """The charts of one task that have anything to show."""
    built = [_chart(kind, groups, f"{prefix}-{kind.metrics[0].replace('_', '-')}") for kind in kinds]
    return [chart for chart in built if chart["lines"]]


def _chart(kind: ChartKind, groups: Sequence[Group], name: str) -> dict[str, Any]:
    lines = []
    for group in groups:
        if kind.penalised and not group.runs[0].config.penalised:
            continue
        for number, metric in enumerate(kind.metrics):
            if curve := band([run.curve(metric) for run in group.runs]):
                suffix = f", {kind.dashes[number]}" if len(kind.metrics) > 1 else ""
                singles = _singles(kind, group, metric) if number == 0 else []
                names = {"name": group.label + suffix, "group": group.label}
                look = {"colour": shades(group.colour), "dash": number > 0}
                lines.append({**names, **look, **curve, "runs": singles})
    return {
        "id": name,
        "title": kind.title,
        "read": kind.read,
        "x": "environment frames",
        "y": kind.unit,
        "reference": kind.reference,
        "lines": lines,
        "dashes": list(kind.dashes) if len(kind.metrics) > 1 else [],
        "note": flat_note(lines),
    }


def _singles(kind: ChartKind, group: Group, metric: str) -> list[dict[str, Any]]:
    if not kind.single or not ENOUGH_SEEDS <= len(group.runs) <= MOST_SINGLE_RUNS:
        return []
    curves = [(run, line(run.curve(metric), SINGLE_POINTS)) for run in group.runs]
    return [{"name": f"seed {run.config.seed}", **curve} for run, curve in curves if curve is not None]


def flat_note(lines: Sequence[dict[str, Any]]) -> str:
    """Lines that lie on the axis, or all the time on one another, are easily taken for missing ones."""
    flat: dict[float, list[str]] = {}
    for drawn in lines:
        if len(values := {value for value in drawn["y"] if value is not None}) == 1:
            flat.setdefault(values.pop(), []).append(drawn["name"])
    notes = []
    for value, names in flat.items():
        if value == 0 or len(names) > 1:
            where = ", on the axis" if value == 0 and len(names) < len(lines) else ""
            notes.append(f"{', '.join(names)}: {value:g} all the time{where}.")
    return " ".join(notes)


def bands_note(groups: Sequence[Group]) -> str:
    """What the bands of some groups are."""
    return bands_text([len(group.runs) for group in groups])


def bands_text(sizes: Sequence[int]) -> str:
    """What the bands are, for groups of so many runs."""
    few, many = any(1 < size < ENOUGH_SEEDS for size in sizes), any(size >= ENOUGH_SEEDS for size in sizes)
    parts = []
    if many:
        parts.append("bands are 95 % bootstrap intervals of the mean over seeds")
    if few:
        parts.append(f"with fewer than {ENOUGH_SEEDS} seeds a band is the range of the seeds")
    text = "; ".join(parts)
    return f"Lines are means over seeds; {text}." if text else "One run per line."
