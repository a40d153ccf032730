"""A callback that films the agent while it trains."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from masp.errors import UserError
from masp.report.video import film, require_format
from masp.training.callbacks import Callback, RunView
from masp.training.run import Run


class Videos(Callback):
    """Films one episode at an evaluation, in `videos/FRAMES.gif` of each run directory.

    The episode is played in an environment of its own, with the same seed every time, so that videos can be compared
    and training is not disturbed. An example is examples/tracking.py.

    Examples:
      >>> Videos(every=5, suffix=".webp")
      Videos(every=5, suffix='.webp')
    """

    def __init__(self, every: int = 1, suffix: str = ".gif", seed: int = 0):
        """`every`: evaluations per video; `suffix`: .gif, .webp, .png (animated) or .mp4 (needs ffmpeg)."""
        require_format(f"videos/episode{suffix}")
        if every < 1:
            raise UserError(f"every must be at least 1, got {every}")
        self.every, self.suffix, self.seed = every, suffix, seed
        self._evaluations: dict[Path, int] = {}

    def __repr__(self) -> str:
        return f"Videos(every={self.every}, suffix={self.suffix!r})"

    def on_evaluation(self, run: RunView, row: Mapping[str, Any]) -> None:
        number = self._evaluations[run.path] = self._evaluations.get(run.path, 0) + 1
        if (number - 1) % self.every:
            return
        policy = run.policy()
        filmed = Run(run.path, run.config, run.actions, [], policy["params"], policy["similarity"], run.info)
        folder = run.path / "videos"
        folder.mkdir(exist_ok=True)
        film(filmed, str(folder / f"{row['frames']}{self.suffix}"), self.seed)
