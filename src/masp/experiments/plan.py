"""From the cells of an experiment to units of work in an order in which they can run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from masp.errors import UserError
from masp.experiments import trial as trials
from masp.experiments.experiment import Cell, Experiment, Scale
from masp.experiments.trial import SWEPT, Trial, trial_id

TOGETHER = 10
"""Most seeds that one unit trains together: enough to fill a core, few enough that several cores can share thirty
seeds, and that ten finished seeds stay finished when more are asked for."""


@dataclass(frozen=True)
class Unit:
    """The work that one process does without interruption: one trial with one seed, or with several together."""

    trial: Trial
    trial_id: str
    seeds: tuple[int, ...]
    label: str
    """Name in progress bars and listings."""
    needs: tuple[tuple[str, int], ...]
    """Trial ids and seeds whose records must exist before this unit can start."""

    @property
    def id(self) -> str:
        return f"{self.trial_id}-{'-'.join(map(str, self.seeds))}"

    @property
    def frames(self) -> int:
        """Frames over all seeds."""
        return self.trial.frames * len(self.seeds)


@dataclass(frozen=True)
class Plan:
    """An experiment at one scale."""

    experiment: Experiment
    scale: Scale
    cells: tuple[Cell, ...]
    units: tuple[Unit, ...]
    """Every unit comes after those that it needs."""
    human: bool = False
    """Whether macros come from human play, where there is some."""

    @property
    def trials(self) -> int:
        return len({unit.trial_id for unit in self.units})


def plan(experiment: Experiment, scale: Scale, human: str = "", only: Sequence[str] = (), rows: str = "") -> Plan:
    """All units that a table needs, or some columns or rows of it.

    The first seed of every trial comes before the second of any, so that a run that is stopped early leaves a complete
    table with fewer seeds.

    Args:
      human: a folder of human play to mine macros from.
      only: the columns to run; empty: all.
      rows: part of the names of the rows to run; empty: all.
    """
    if human and not experiment.uses_human_play:
        raise UserError(f"{experiment.name} does not take --human: its macros are not mined from human play")
    cells = tuple(experiment.cells(scale, human) if human else experiment.cells(scale))
    columns = dict.fromkeys(cell.column for cell in cells)
    for column in only:
        if column not in columns:
            raise UserError(f"{experiment.name} has no column {column!r}; it has {', '.join(columns)}")
    names = dict.fromkeys(" ".join(cell.row) for cell in cells)
    if not any(rows.lower() in name.lower() for name in names):
        raise UserError(f"{experiment.name} has no row with {rows!r} in its name; it has {'; '.join(names)}")
    units: dict[str, Unit] = {}
    for cell in cells:
        if (not only or cell.column in only) and rows.lower() in " ".join(cell.row).lower():
            _add(units, cell.trial, " ".join((*cell.row, cell.column)))
    return Plan(experiment, scale, cells, tuple(_first_seeds_first(list(units.values()))), bool(human))


def _first_seeds_first(units: list[Unit]) -> list[Unit]:
    """Sort the units by the position of their seeds, keeping every unit behind those that it needs."""
    rounds: dict[tuple[str, int], int] = {}
    for unit in units:
        places = [unit.trial.seeds.index(unit.seeds[0]), *(rounds[need] for need in unit.needs)]
        rounds.update({(unit.trial_id, seed): max(places) for seed in unit.seeds})
    return sorted(units, key=lambda unit: rounds[unit.trial_id, unit.seeds[0]])


def _add(units: dict[str, Unit], trial: Trial, label: str) -> None:
    """Add the units of `trial`, after those that it needs."""
    for candidate in trial.candidates():
        settings = " ".join(f"{value:g}" for name, value in candidate.overrides if name in SWEPT)
        _add(units, candidate, f"{label}, candidate {settings}")
    for role, needed in (("source of the similarity", trial.source), ("player for mining", trial.player)):
        if needed is not None:
            _add(units, needed, f"{needed.env} {needed.control}, {role}")
    size = TOGETHER if trial.together else 1
    for i in range(0, len(trial.seeds), size):
        seeds = trial.seeds[i : i + size]
        unit = Unit(trial, trial_id(trial), seeds, label, _needs(trial, seeds))
        units.setdefault(unit.id, unit)


def _needs(trial: Trial, seeds: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
    needs = [(trial_id(candidate), seed) for candidate in trial.candidates() for seed in candidate.seeds]
    if trial.source is not None:
        needs += [(trial_id(trial.source), trial.source.seeds[trial.seeds.index(seed)]) for seed in seeds]
    if trial.player is not None:
        needs.append((trial_id(trial.player), trial.player.seeds[0]))
    return tuple(needs)


def plan_data(plan: Plan) -> dict[str, Any]:
    """The plan as the store keeps it: enough to print the table without running anything."""
    experiment = plan.experiment
    return {
        "experiment": experiment.name,
        "scale": plan.scale,
        "title": experiment.titles.get(plan.scale, experiment.title),
        "measure": experiment.measure,
        "judged": experiment.judged,
        "row_names": list(experiment.row_names),
        "paper_table": experiment.paper_table,
        "kind": experiment.kind,
        "note": experiment.notes.get(plan.scale, ""),
        **({"human": True} if plan.human else {}),
        "cells": [
            {
                "row": list(cell.row),
                "column": cell.column,
                "trial": trial_id(cell.trial),
                "seeds": list(cell.trial.seeds),
                "control": cell.trial.control,
                "env": cell.trial.env,
                "frames": cell.trial.frames,
                **({"judged": cell.judged} if cell.judged else {}),
            }
            for cell in plan.cells
        ],
    }


def unit_to_json(unit: Unit) -> dict[str, Any]:
    """The unit as JSON values, to send it to another process."""
    return {"trial": trials.to_json(unit.trial), "seeds": list(unit.seeds), "label": unit.label}


def unit_from_json(data: dict[str, Any]) -> Unit:
    """The inverse of `unit_to_json`."""
    trial = trials.from_json(data["trial"])
    seeds = tuple(data["seeds"])
    return Unit(trial, trial_id(trial), seeds, data["label"], _needs(trial, seeds))
