"""Runs by task and by group: the runs of a group differ in their seed only, and share a curve."""

from __future__ import annotations

import typing
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from masp.config import Variant, to_flat
from masp.report.figures import colour_of
from masp.report.page.runs import ReportRun

APART = ("seed", "out")
"""Settings that do not make a group of their own."""
VARIANTS = typing.get_args(Variant)
TASK = ("env", "env_options")
SPARE_COLOURS = ("#b5523b", "#2f7f86", "#94741f", "#5b4b9a", "#3f7d3a", "#a23b72", "#4a6fa5", "#7a5c3e")
"""Colours, in order, of groups whose variant has none of its own."""


@dataclass(frozen=True)
class Group:
    """Runs of one task that differ in their seed alone."""

    label: str
    task: str
    colour: str
    runs: tuple[ReportRun, ...]

    @property
    def variant(self) -> str:
        return self.runs[0].config.variant


def grouped(runs: Sequence[ReportRun]) -> list[Group]:
    """The groups of some runs: in each task `rainbow` first, then the order of `VARIANTS`, then that of the runs."""
    members: dict[str, list[ReportRun]] = {}
    for run in runs:
        members.setdefault(repr(_settings(run)), []).append(run)
    parts = sorted(members.values(), key=lambda part: VARIANTS.index(part[0].config.variant))
    tasks = [task_name(part[0]) for part in parts]
    labels = [
        _label(part[0], [p[0] for p, t in zip(parts, tasks, strict=True) if t == task])
        for part, task in zip(parts, tasks, strict=True)
    ]
    colours = _colours(parts, labels, tasks)
    return [
        Group(label, task, colour, tuple(sorted(part, key=lambda run: run.config.seed)))
        for label, task, colour, part in zip(labels, tasks, colours, parts, strict=True)
    ]


def task_name(run: ReportRun) -> str:
    """The environment with its options."""
    options = " ".join(run.config.env_options)
    return f"{run.config.env} ({options})" if options else run.config.env


def differing(runs: Sequence[ReportRun]) -> list[str]:
    """Names of the settings that are not the same in all runs."""
    flats = [to_flat(run.config) for run in runs]
    return [name for name in flats[0] if name != "out" and len({repr(flat[name]) for flat in flats}) > 1]


def setting_text(value: Any) -> str:
    """A setting as a person writes it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return " ".join(map(setting_text, value)) or "–"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value) or "–"


def _settings(run: ReportRun) -> dict[str, Any]:
    return {name: value for name, value in to_flat(run.config).items() if name not in APART}


def _label(run: ReportRun, of_task: Sequence[ReportRun]) -> str:
    """The variant, and what tells the group from others of the same variant."""
    same = [other for other in of_task if other.config.variant == run.config.variant]
    flat = to_flat(run.config)
    names = [name for name in differing(same) if name not in (*APART, *TASK)]
    details = ", ".join(f"{name.replace('_', ' ')} {setting_text(flat[name])}" for name in names[:3])
    return f"{run.config.variant}, {details}" if details else run.config.variant


def _colours(parts: Sequence[Sequence[ReportRun]], labels: Sequence[str], tasks: Sequence[str]) -> list[str]:
    """The variant's colour where it has one group in a task, else a colour of its own; the same label, the same one."""
    variants = [part[0].config.variant for part in parts]
    crowded = {variant for (variant, _), count in Counter(zip(variants, tasks, strict=True)).items() if count > 1}
    chosen: dict[str, str] = {}
    for label, variant in zip(labels, variants, strict=True):
        own = None if variant in crowded else colour_of(variant)
        chosen.setdefault(label, own or SPARE_COLOURS[len(chosen) % len(SPARE_COLOURS)])
    return [chosen[label] for label in labels]
