"""One or more runs that train together, from the first tick to finished run directories.

A session advances its loop in chunks of about a second. Between chunks it writes what must not be lost: rows of the
replay's log, rows of the metrics, and by time a checkpoint. All files are written by one background thread.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from masp.agent.agent import Agent, Report
from masp.config import TrainConfig
from masp.errors import TrainingError, UserError
from masp.similarity.bundle import Bundle, save_bundle
from masp.similarity.matrix import as_matrix
from masp.training import array_file
from masp.training.background import BackgroundWriter
from masp.training.callbacks import Callback, RunView
from masp.training.evaluation import Played
from masp.training.lanes import lane_actions, shared_config
from masp.training.loop import make_loop
from masp.training.replay_log import ReplayLog
from masp.training.rows import effects_row, evaluation_row, similarity_row, training_row
from masp.training.run_dir import MetricsWriter, RunDir, write_json
from masp.training.stopping import StoppedBySignal, StopRequest

CHUNK_SECONDS = 1.0
"""How long training may run before it looks at signals and the clock."""
CHECKPOINT_SECONDS = 180.0
"""Time between checkpoints."""


class Session:
    """Trains; `run` returns when the run directories are complete."""

    def __init__(self, configs: Sequence[TrainConfig], resume: bool, callbacks: Sequence[Callback]):
        self._configs, self._config, self._callbacks = configs, shared_config(configs), callbacks
        self._loop = make_loop(self._config)
        self._agent: Agent = self._loop.agent
        self._actions = lane_actions(configs, self._agent.info)
        self._agent.replay_ticks  # noqa: B018 - raises before anything is written
        self._require_frames_beyond(self._config.agent.min_replay_steps * self._agent.info.frames_per_step - 1)
        self._runs = [RunDir(config.out) for config in configs]
        self._writer = BackgroundWriter()
        self._metrics: list[MetricsWriter] = []
        self._logs: list[ReplayLog] = []
        self._chunk_ticks = 1
        self._state: Any = None
        self._resume = resume

    def run(self) -> None:
        """Train to the end, or until a signal or a callback says stop."""
        for run, config, actions in zip(self._runs, self._configs, self._actions, strict=True):
            run.open(config, actions, self._resume)
        with StopRequest() as stop:
            self._stop = stop
            self._begin()
            self._each("on_start")
            self._warm_up()
            while self._frames() < self._config.frames and not self._stopped_by_callback:
                self._advance_to_next_row()
            self._finish()

    def close(self) -> None:
        """Leave no file open and no process running, however the run ended."""
        self._loop.close()
        self._writer.close()
        for part in [*self._metrics, *self._logs, *self._runs]:
            part.close()

    def _begin(self) -> None:
        """A fresh state, or that of the newest checkpoint that all runs have."""
        self._state = self._loop.init(self._configs, self._actions)
        abouts = self._restore() if self._resume else None
        ticks = self._agent.replay_ticks
        for i, run in enumerate(self._runs):
            about = abouts[i] if abouts else {}
            self._logs.append(ReplayLog(run.checkpoints.folder, ticks, about.get("replay", ())))
            self._metrics.append(MetricsWriter(run, about.get("frames")))
        self._logged_tick = int(self._state.agent.tick) + 1 if abouts else 0
        self._seconds_before = abouts[0]["seconds"] if abouts else 0.0
        usage = [report.usage for report in self._loop.reports(self._state)]
        self._row_usage = [np.array(a["row_usage"]) for a in abouts] if abouts else [0 * one for one in usage]
        self._best = [a["best"] for a in abouts] if abouts else [None] * len(usage)
        self._started = self._saved = time.perf_counter()
        self._started_frames = self._frames()
        self._stopped_by_callback = False
