"""What one run writes while it trains: rows of the metrics, the replay's log, checkpoints, policies, the summary.

Files that may be large are handed to the background writer, from copies, so that training goes on at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from masp.agent.agent import Agent, Report
from masp.config import TrainConfig
from masp.macros.actions import ActionSet
from masp.similarity.bundle import Bundle, save_bundle
from masp.similarity.matrix import as_matrix
from masp.training import array_file
from masp.training.background import BackgroundWriter
from masp.training.evaluation import Played
from masp.training.policy import about_policy
from masp.training.replay_log import ReplayLog
from masp.training.rows import effects_row, evaluation_row, similarity_row, training_row, true_groups
from masp.training.run_dir import MetricsWriter, RunDir, write_json
from masp.training.similarity_history import SimilarityHistory

FRESH: dict[str, Any] = {"seconds": 0.0, "best": None}
"""The description that a checkpoint of a new run would have."""


class RunOutput:
    """The files of one run that are open while it trains, and the state that their next entries depend on."""

    def __init__(
        self,
        run: RunDir,
        config: TrainConfig,
        actions: ActionSet,
        agent: Agent,
        writer: BackgroundWriter,
        about: Mapping[str, Any],
    ):
        """`about`: what the checkpoint says that the run goes on from, or `FRESH`."""
        self._run, self._config, self._actions, self._info = run, config, actions, agent.info
        self._writer = writer
        self._log = ReplayLog(run.checkpoints.folder, agent.replay_ticks, about.get("replay", ()))
        kept_frames = about.get("row_frames")
        self._metrics = MetricsWriter(run, kept_frames)
        self._history = SimilarityHistory(run.history_file, len(actions), kept_frames) if config.penalised else None
        self._usage_at_row = np.array(about["row_usage"]) if "row_usage" in about else np.zeros(len(actions), np.int64)
        self._best: float | None = about["best"]

    def write_row(
        self, report: Report, values: np.ndarray, played: Played | None, i: int, so_far: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Write one row of the metrics and return it.

        Args:
          values: [B, A] action values in states of the replay.
          played: an evaluation of all runs, of which this is number `i`; None: this row has none.
          so_far: frames, seconds and other figures of the training as a whole.
        """
        row = dict(so_far)
        row.update(training_row(report, self._info))
        row.update(self._penalty_row(report, values))
        row.update(evaluation_row(self._info, played, i))
        self._metrics.write(row)
        self._usage_at_row = report.usage
        self.keep_similarity(report, row["frames"])
        if played is not None:
            self.write_policy(report, row["frames"], row["eval_return"])
        return row

    def _penalty_row(self, report: Report, values: np.ndarray) -> dict[str, Any]:
        """What the run has learned of the similarity, and what the penalty does."""
        actions, penalised = self._actions, self._config.penalised
        groups, similarity = true_groups(self._info, actions), np.asarray(as_matrix(report.similarity))
        row = similarity_row(similarity, groups if penalised else None)
        decisions = report.usage - self._usage_at_row
        row |= effects_row(values, decisions, similarity, actions.num_primitives, groups, penalised)
        return row | {"rewards": [float(f"{reward:.6g}") for reward in report.tally.rewards]}

    def keep_similarity(self, report: Report, frames: int) -> None:
        """Add the similarity to its history, after a row, or before the first one."""
        if self._history is not None:
            matrix = np.array(as_matrix(report.similarity))
            self._writer.submit(partial(self._history.add, self._metrics.rows, frames, matrix))

    def write_policy(self, report: Report, frames: int, score: float | None = None) -> None:
        """The current policy, its bundle and usage; also as the best one, where `score` is the best so far."""
        run = self._run
        arrays = array_file.named_arrays({"params": report.params, "similarity": report.similarity})
        arrays = {name: array.copy() for name, array in arrays.items()}
        about = about_policy(self._config, self._info, self._actions, frames)
        self._writer.submit(partial(array_file.save, run.policy_file, arrays, about))
        if score is not None and (self._best is None or score > self._best):
            self._best = score
            self._writer.submit(partial(array_file.save, run.best_file, arrays, {**about, "eval_return": score}))
        matrix = np.asarray(as_matrix(report.similarity))
        self._writer.submit(partial(save_bundle, run.bundle_file, Bundle(self._actions, matrix)))
        usage = {"actions": self._actions.names, "decisions": report.usage.tolist()}
        self._writer.submit(partial(write_json, run.usage_file, usage))

    def log_replay(self, start: int, rows: np.ndarray) -> None:
        """Append rows of the replay, the first of them that of tick `start`."""
        self._writer.submit(partial(self._log.append, start, rows))

    def write_checkpoint(self, tick: int, state: Any, frames: int, about_training: Mapping[str, Any]) -> None:
        """Everything that going on needs; `about_training` is what the session must remember."""
        arrays = {name: array.copy() for name, array in array_file.named_arrays(state).items()}
        about = {
            **about_policy(self._config, self._info, self._actions, frames),
            **about_training,
            "row_frames": self._metrics.last_frames,
            "row_usage": self._usage_at_row.tolist(),
            "best": self._best,
        }
        self._writer.submit(partial(self._run.checkpoints.save, tick, arrays, about, self._log))

    def write_summary(self) -> dict[str, Any]:
        """The figures of the last row, which mark the run as finished."""
        summary = {name: value for name, value in self._metrics.last_row.items() if not isinstance(value, list)}
        write_json(self._run.summary_file, summary)
        return summary

    def close(self) -> None:
        self._metrics.close()
        self._log.close()
