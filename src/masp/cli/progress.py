"""What training shows on stderr: a bar in a terminal, elsewhere one plain line per row of the metrics."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import Progress, ProgressColumn, Task
from rich.text import Text

from masp.experiments.estimate import duration
from masp.printable import printable
from masp.training.callbacks import Callback, RunView

FIGURES = {"return": "return", "success": "success", "eval_return": "eval return", "eval_success": "eval success"}
"""Metrics that a line shows, and their names there; success replaces the return where a task has both."""
MAX_BAR, MIN_BAR = 24, 6


class TrainProgress(Callback):
    """Shows runs that train together: frames of the one that is last, figures as means over all.

    A context manager: a display that has not shown any frames vanishes at its end, so an error stands alone.
    """

    def __init__(self, label: str):
        self._label = printable(label)
        self._frames: dict[Path, int] = {}  # budget of each run that trains now
        self._rows: list[Mapping[str, Any]] = []  # of runs that have reached the next row
        self._doing = ""
        self._last_row: tuple[float, int] | None = None  # its time and frames
        self._bar: Progress | None = None

    def __enter__(self) -> TrainProgress:
        self.on_progress(0, "loading JAX and the environment")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def on_start(self, run: RunView) -> None:
        self._frames[run.path] = run.config.frames

    def on_progress(self, frames: int, doing: str) -> None:
        if sys.stderr.isatty():
            self._update(frames, doing=doing)
        elif doing != self._doing and doing not in ("learning", "evaluating"):
            self._print(doing)
        self._doing = doing

    def on_row(self, run: RunView, row: Mapping[str, Any]) -> None:
        self._rows.append(row)
        if len(self._rows) < len(self._frames):
            return
        frames, total = min(row["frames"] for row in self._rows), run.config.frames
        speed, figures = self._speed(frames), figures_of(self._rows)
        self._rows = []
        if sys.stderr.isatty():
            self._update(min(frames, total), speed=speed, runs=len(self._frames), figures=figures)
            return
        parts = [f"{frames:,}/{total:,} frames", *([f"{speed:,.0f}/s"] if speed else []), *figures]
        parts += [f"(mean of {len(self._frames)} runs)"] if len(self._frames) > 1 else []
        if speed and frames < total:
            parts.append(f"about {duration((total - frames) * len(self._frames) / speed)} left")
        self._print("  ".join(parts))

    def on_message(self, text: str) -> None:
        if self._bar is None:
            _print_status(printable(text))
        else:
            self._bar.console.print(Text(printable(text)))

    def close(self) -> None:
        if self._bar is not None:
            self._bar.live.transient = not self._bar.tasks[0].completed
            self._bar.stop()
        self._bar, self._frames, self._rows, self._last_row = None, {}, [], None

    def _speed(self, frames: int) -> float | None:
        """Frames per second of all runs since the last row; None in the first one, most of which is compilation."""
        last, self._last_row = self._last_row, (time.monotonic(), frames)
        if last is None or frames <= last[1]:
            return None
        return (frames - last[1]) * len(self._frames) / max(self._last_row[0] - last[0], 1e-6)

    def _print(self, text: str) -> None:
        _print_status(f"{self._label}: {text}")

    def _update(self, frames: int, **fields: Any) -> None:
        """Show the bar; it starts with the first report."""
        total = next(iter(self._frames.values()), None)
        if self._bar is None:
            self._bar = Progress(TrainingColumn(), console=Console(stderr=True))
            self._bar.add_task(self._label, total=total, speed=None, runs=1, figures=[], **fields)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=min(frames, total or 0), total=total, **fields)


def _print_status(text: str) -> None:
    """A line on stderr; training goes on where nobody can read it, as behind a closed pipe."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


class TrainingColumn(ProgressColumn):
    """The whole line: it fits the terminal by a shorter bar, then without the label, then with fewer figures."""

    def render(self, task: Task) -> RenderableType:
        width = self.console_width()
        if not task.completed:
            elapsed = "" if task.elapsed is None else f" ({task.elapsed:.0f} s)"
            return Text(f"{task.description}: {task.fields['doing']}{elapsed}", no_wrap=True, overflow="ellipsis")
        total = task.total or 1
        frames = f"{int(task.completed):,}/{int(total):,}"
        parts = [frames, *task.fields["figures"], *self._times(task, total)]
        return Text(progress_line(task.description, task.completed / total, parts, width), no_wrap=True)

    @staticmethod
    def _times(task: Task, total: float) -> list[str]:
        """Frames per second of all runs and the time left, by the speed since the last row; not in the first one."""
        speed = task.fields["speed"]
        if task.completed >= total:
            return [*([f"{speed:,.0f}/s"] if speed else []), "done"]
        if not speed:
            return []
        left = (total - task.completed) * task.fields["runs"] / speed
        return [f"{speed:,.0f}/s", f"{duration(left)} left"]

    @staticmethod
    def console_width() -> int:
        """Columns of the terminal, less one, because a full last column makes some terminals wrap."""
        return Console(stderr=True).width - 1


def progress_line(label: str, share: float, parts: Sequence[str], width: int) -> str:
    """Label, bar and parts in at most `width` columns; the parts are numbers and go last, from the end."""
    numbers = [part for part in parts if part]
    while len(numbers) > 1 and MIN_BAR + 2 + len("  ".join(numbers)) > width:
        numbers.pop()
    text = "  ".join(numbers)
    with_label = len(label) + 2 + MIN_BAR + 2 + len(text) <= width
    head = f"{label}  " if with_label else ""
    bar = max(0, min(MAX_BAR, width - len(head) - len(text) - 2))
    filled = round(bar * min(share, 1.0))
    return f"{head}{'━' * filled}{'╌' * (bar - filled)}  {text}"


def figures_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Means of the figures of some rows, rounded."""
    texts = []
    for name, title in FIGURES.items():
        values = [row[name] for row in rows if row.get(name) is not None]
        better = [row.get(name.replace("return", "success")) for row in rows]
        if values and (not name.endswith("return") or None in better):
            texts.append(f"{title} {fmean(values):.3g}")
    return texts
