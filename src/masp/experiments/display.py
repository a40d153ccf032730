"""Progress of units on standard error: one bar in total and one per running unit; without a terminal, lines."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from masp.experiments.estimate import Speeds, duration, seconds_of
from masp.experiments.plan import Unit
from masp.experiments.work import Outcome
from masp.printable import printable, rich_text


class Display:
    """The progress bars; a context manager."""

    def __init__(self, units: Sequence[Unit], speeds: Speeds, jobs: int):
        self._console = Console(stderr=True)
        self._cost = {unit.id: seconds_of(unit, speeds) for unit in units}
        self._left = dict(self._cost)
        self._jobs, self._began, self._ended = max(jobs, 1), time.monotonic(), 0
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[text]}", markup=False),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._all = self._bars.add_task("all trials", total=max(sum(self._cost.values()), 1.0), text="")
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Display:
        self._bars.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._bars.stop()

    def progress(self, unit: Unit, state: dict[str, Any]) -> None:
        """Show the frames that one unit has done, as its claim reports them."""
        if not state:
            return
        done, total = state["frames"], max(state["total"], 1)
        if unit.id not in self._tasks:
            self._tasks[unit.id] = self._bars.add_task(printable(_short(unit.label)), total=total, text="")
        text = f"{state['doing']} {done:,}/{total:,}"
        for name in ("success", "return"):
            if state.get(name) is not None:
                text += f"  {name} {state[name]:.3g}"
                break
        self._bars.update(self._tasks[unit.id], completed=min(done, total), total=total, text=text)
        self._left[unit.id] = self._cost[unit.id] * (1 - min(done / total, 1.0))
        self._update_all()

    def ended(self, unit: Unit, outcome: Outcome) -> None:
        """Show the outcome of a unit."""
        self._ended += 1
        self._left[unit.id] = 0.0
        if unit.id in self._tasks:
            self._bars.remove_task(self._tasks.pop(unit.id))
        self._update_all()
        result = "done" if outcome.state == "done" else f"FAILED: {outcome.message}"
        seeds = f"seed{'s' if len(unit.seeds) > 1 else ''} {', '.join(map(str, unit.seeds))}"
        line = f"[{self._ended}/{len(self._cost)}] {unit.label}, {seeds}: {result}; {self._remaining()}"
        self._console.print(rich_text(line), soft_wrap=True)

    def _update_all(self) -> None:
        done = sum(self._cost.values()) - sum(self._left.values())
        text = f"{self._ended}/{len(self._cost)} units, {self._remaining()}"
        self._bars.update(self._all, completed=done, text=text)

    def _remaining(self) -> str:
        """Time left: the estimate, corrected by the speed so far."""
        done, left = sum(self._cost.values()) - sum(self._left.values()), sum(self._left.values())
        elapsed = time.monotonic() - self._began
        rate = done / elapsed if elapsed > 30 and done > 0 else float(self._jobs)
        return f"about {duration(left / rate)} left"


def _short(label: str) -> str:
    return label if len(label) <= 48 else label[:47] + "…"
