"""What training shows on stderr: a bar in a terminal, one plain line per row of the metrics elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from masp.printable import rich_text
from masp.training.callbacks import Callback, RunView


class TrainProgress(Callback):
    """Follows the last of the runs that train together; its frames are those of all."""

    def __init__(self, label: str):
        self._label = label
        self._bar: Progress | None = None
        if sys.stderr.isatty():
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=16),
                TextColumn("{task.fields[figures]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._task = self._bar.add_task(rich_text(label), total=None, figures="compiling and filling the replay")
            self._bar.start()
        else:
            print(f"{label}: compiling and filling the replay", file=sys.stderr, flush=True)

    def on_row(self, run: RunView, row: Mapping[str, Any]) -> None:
        total = run.config.frames
        figures = f"{row['frames']:,}/{total:,} frames  {row['frames_per_second']:,.0f}/s"
        for name in ("return", "success", "eval_return", "eval_success"):
            if row.get(name) is not None:
                figures += f"  {name.replace('_', ' ')} {row[name]:.3g}"
        if self._bar is None:
            print(f"{self._label}: {figures}", file=sys.stderr, flush=True)
        else:
            self._bar.update(self._task, completed=min(row["frames"], total), total=total, figures=figures)

    def on_message(self, text: str) -> None:
        if self._bar is None:
            print(text, file=sys.stderr, flush=True)
        else:
            self._bar.console.print(rich_text(text))

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
