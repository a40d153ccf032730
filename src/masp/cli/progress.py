"""The progress bar of training: frames, speed, newest return, time left; on stderr, so stdout stays clean."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class TrainProgress:
    """A bar that `masp.train` can call."""

    def __init__(self, label: str):
        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[shown]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._bar.add_task(label, total=None, shown="compiling and filling the replay")

    def __enter__(self) -> TrainProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._bar.stop()

    def __call__(self, frames: int, total: int, row: dict[str, Any]) -> None:
        """One more row of metrics."""
        shown = f"{frames:,}/{total:,} frames  {row['frames_per_second']:,.0f}/s"
        if row["return"] is not None:
            shown += f"  return {row['return']:.3g}"
        if row["success"] is not None:
            shown += f"  success {row['success']:.2f}"
        self._bar.update(self._task, completed=min(frames, total), total=total, shown=shown)
