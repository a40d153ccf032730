"""One or more runs that train together, from the first tick to finished run directories.

A session advances its loop in chunks of about a second. Between chunks it looks at signals, appends to the replay's
log and, by time, writes a checkpoint. Rows of the metrics come at fixed numbers of frames, so that what a run computes
depends neither on the chunks nor on the clock.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from masp.agent.agent import Agent, Report
from masp.config import TrainConfig
from masp.errors import UserCodeError, UserError
from masp.importing import one_line
from masp.training.background import BackgroundWriter, os_errors_end_the_run
from masp.training.callbacks import Callback, RunView
from masp.training.demonstrations import load_demonstrations
from masp.training.finite import require_finite, require_finite_evaluation
from masp.training.initial import messages_for
from masp.training.lanes import lane_actions, shared_config
from masp.training.loop import Loop, make_loop
from masp.training.run_dir import RunDir
from masp.training.run_output import FRESH, RunOutput
from masp.training.stopping import StoppedBySignal, StopRequest

CHUNK_SECONDS = 1.0
"""How long training may run before it looks at signals and the clock."""
CHECKPOINT_SECONDS = float(os.environ.get("MASP_CHECKPOINT_SECONDS", "180"))
"""Time between checkpoints."""


class Session:
    """Trains into run directories; a context manager that leaves no file open and no process running."""

    def __init__(self, configs: Sequence[TrainConfig], resume: bool, callbacks: Sequence[Callback]):
        self._configs, self._config, self._callbacks = configs, shared_config(configs), callbacks
        self._loop: Loop = make_loop(self._config)
        self._agent: Agent = self._loop.agent
        self._actions = lane_actions(configs, self._agent.info)
        self._agent.replay_ticks  # noqa: B018 - raises before anything is written
        self._demonstrations = load_demonstrations(self._config, self._agent.info)
        self._require_frames_beyond(self._config.agent.min_replay_steps * self._agent.info.frames_per_step - 1)
        self._runs = [RunDir(config.out) for config in configs]
        self._resume = resume
        self._state: Any = None
        self._outputs: list[RunOutput] = []
        self._wants_stop: set[int] = set()
        self._frames_at_row: int | None = None  # frames at the last row, or at the end of the warm-up
        self._chunk_ticks = 1
        self._compiled: set[str] = set()  # descriptions of the programs compiled so far
        self._views: list[RunView] = []  # empty until there is a state to save
        self._writer = BackgroundWriter()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        parts: list[Any] = [self._loop, self._writer, *self._outputs, *self._runs]
        with contextlib.ExitStack() as stack:  # closes all of them, even if one raises
            for callback in reversed(self._callbacks):
                if kind is not None:  # an error on the way out must not hide the one that ended training
                    stack.enter_context(contextlib.suppress(UserError))
                stack.callback(self._invoke, callback, "close")
            for part in reversed(parts):
                stack.callback(part.close)

    def run(self) -> list[dict[str, Any]]:
        """Train to the end, or until a signal or a callback says stop; the summary of every run."""
        for run, config, actions in zip(self._runs, self._configs, self._actions, strict=True):
            for message in run.open(config, actions, self._resume):
                self._tell(message)
        with os_errors_end_the_run(), StopRequest() as self._stop:
            self._begin()
            self._pretrain()
            self._warm_up()
            if self._frames_at_row is None:
                self._frames_at_row = self._frames()
                if self._is_pretrained:
                    self._write_rows(evaluate=True)
            while self._frames_at_row < self._config.frames and len(self._wants_stop) < len(self._runs):
                target = min(_next_multiple(self._frames_at_row, self._config.log_every_frames), self._config.frames)
                self._advance(target, learn=True)
                self._write_rows(evaluate=self._evaluation_due(self._frames_at_row))
            return self._finish()

    def _begin(self) -> None:
        """A fresh state, or that of the newest checkpoint that all runs have."""
        self._report(0, "making the network and the replay")
        self._state = self._loop.init(self._configs, self._actions, self._demonstrated)
        if self._demonstrations and self._state.agent.memory.masks is not None:
            raise UserError(f"{self._config.env} has action masks, which demonstrations do not hold; leave them out")
        restored = self._restore() if self._resume else None
        if restored is None:
            self._start_anew()
            for message in messages_for(self._agent):
                self._tell(message)
        abouts = restored or [FRESH for _ in self._runs]
        frames = self._loop.frames(self._state)
        for run, config, actions, about in zip(self._runs, self._configs, self._actions, abouts, strict=True):
            self._outputs.append(RunOutput(run, config, actions, self._agent, self._writer, about))
        for output, report, played in zip(self._outputs, self._loop.reports(self._state), frames, strict=True):
            output.keep_similarity(report, int(played))
        # Not the frames of the checkpoint: a run that was saved just before a row must still write it.
        self._frames_at_row = abouts[0].get("frames_at_row")
        self._next_logged_tick = int(self._state.agent.tick) + 1 if restored else 0
        self._seconds_before = float(abouts[0]["seconds"])
        self._started = self._saved = time.perf_counter()
        self._started_frames = self._frames()
        self._views = [
            RunView(run.path, config, actions, partial(self._policy, i), self._agent.info)
            for i, (run, config, actions) in enumerate(zip(self._runs, self._configs, self._actions, strict=True))
        ]
        self._each("on_start")

    def _start_anew(self) -> None:
        """Keep earlier metrics aside, and remove checkpoints of runs that cannot go on together."""
        for run in self._runs:
            if run.checkpoints.ticks():
                self._tell(
                    f"{run.path}: the runs that train together have no checkpoint in common; starting anew, earlier "
                    "metrics are kept aside"
                )
            run.set_metrics_aside()
            run.checkpoints.remove_after(-1)

    def _restore(self) -> list[dict[str, Any]] | None:
        """Restore the newest usable checkpoint and return its description of every run; None if there is none."""
        common = set.intersection(*(set(run.checkpoints.ticks()) for run in self._runs))
        if common:
            self._report(0, "reading the checkpoint")
        templates = self._loop.checkpoints(self._state)
        shape = self._loop.ring_shape(self._state)
        problems: list[UserError] = []
        for tick in sorted(common, reverse=True):
            rings = [np.zeros(shape, self._agent.info.observation_dtype) for _ in self._runs]
            try:
                pairs = [
                    run.checkpoints.load(tick, like, ring)
                    for run, like, ring in zip(self._runs, templates, rings, strict=True)
                ]
            except UserError as problem:
                problems.append(problem)
                continue
            for damage in problems:
                self._tell(f"{damage}; going on from the checkpoint before")
            for run in self._runs:
                run.checkpoints.remove_after(tick)
            abouts = [about for _, about in pairs]
            self._require_same_demonstrations(abouts[0])
            self._state = self._loop.restore([state for state, _ in pairs], rings, self._demonstrated)
            return abouts
        if problems:
            raise problems[0]
        return None

    @property
    def _demonstrated(self) -> Any:
        """The demonstrations as the loops hold them; () without any."""
        return self._demonstrations.memory if self._demonstrations else ()

    @property
    def _is_pretrained(self) -> bool:
        """Whether the agent is trained before its first step, so that its initial performance is evaluated."""
        return self._demonstrations is not None or bool(self._config.init_from)

    def _require_same_demonstrations(self, about: dict[str, Any]) -> None:
        digest = self._demonstrations.digest if self._demonstrations else ""
        if about.get("demonstrations", "") != digest:
            source = self._config.demonstration.demonstrations
            raise UserError(f"{source}: holds other demonstrations than when the run began; it cannot go on with them")

    def _pretrain(self) -> None:
        """Learn from demonstrations before the first step; a resumed run makes the updates that are missing."""
        if self._demonstrations is None:
            return
        self._tell(self._demonstrations.message)
        chunk = 1
        while int(self._state.agent.tick) == 0:
            missing = self._config.demonstration.demonstration_updates - int(self._state.agent.learner.updates)
            if missing <= 0:
                return
            started = time.perf_counter()
            self._state = self._loop.pretrain(self._state, min(chunk, missing))
            int(self._state.agent.learner.updates)  # waits for the chunk
            chunk = max(1, min(2 * chunk, int(chunk * CHUNK_SECONDS / (time.perf_counter() - started))))
            self._between_chunks()

    def _warm_up(self) -> None:
        """Fill the replay before learning starts."""
        self._advance(self._config.agent.min_replay_steps * self._agent.info.frames_per_step, learn=False)
        while self._loop.replay_is_empty(self._state):
            self._state = self._loop.run(self._state, 1, False)
        if self._frames_at_row is None:
            self._require_frames_beyond(self._frames())

    def _require_frames_beyond(self, warm_up: int) -> None:
        if self._config.frames <= warm_up:
            raise UserError(
                f"all of {self._config.frames:,} frames would be played before learning begins, which needs "
                f"{warm_up + 1:,}; give --frames more than that, or lower --min-replay-steps"
            )

    def _advance(self, frames: int, learn: bool = True) -> None:
        """Play (and learn) until every seed has played so many frames."""
        per_tick = self._config.num_envs * self._agent.info.frames_per_step
        while (missing := frames - self._frames()) > 0:
            ticks = min(-(-missing // per_tick), self._chunk_ticks)
            started = time.perf_counter()
            if (program := self._loop.program(learn)) not in self._compiled:
                self._report(self._frames(), f"compiling the program that {program}")
                self._compiled.add(program)
            self._state = self._loop.run(self._state, ticks, learn)
            self._report(self._frames(), "learning" if learn else "filling the replay")  # waits for the chunk
            seconds = max(time.perf_counter() - started, 1e-6)
            if ticks == self._chunk_ticks:
                self._chunk_ticks = max(1, min(2 * ticks, int(ticks * CHUNK_SECONDS / seconds)))
            self._between_chunks()

    def _between_chunks(self) -> None:
        self._log_replay()
        if self._stop.number:
            self._stop_by_signal()
        if time.perf_counter() - self._saved > CHECKPOINT_SECONDS:
            self._save()

    def _frames(self) -> int:
        """Frames of the seed that has played fewest: episodes end at different ticks, and reset ticks play none."""
        return int(self._loop.frames(self._state).min())

    def _seconds(self) -> float:
        """Seconds of training, those before the run was resumed included."""
        return self._seconds_before + time.perf_counter() - self._started

    def _evaluation_due(self, before: int) -> bool:
        period, now = self._config.eval_every_frames, self._frames()
        return now >= self._config.frames or (bool(period) and before // period != now // period)

    def _write_rows(self, evaluate: bool) -> None:
        """One row of the metrics per run."""
        reports, values = self._loop.reports(self._state), self._loop.sampled_values(self._state)
        self._require_finite(reports)
        episodes, number = self._config.eval_episodes, int(self._state.agent.tick)
        if evaluate:
            self._report(self._frames(), "evaluating")
        played = self._loop.evaluate(self._state, episodes, number) if evaluate else None
        if played is not None:
            hint = f"; at {self._frames():,} frames; checkpoints from before stay, --resume goes on from the last"
            require_finite_evaluation(played, self._config.env, hint)
        so_far = self._so_far()
        rows: list[dict[str, Any]] = []
        for i, (output, report) in enumerate(zip(self._outputs, reports, strict=True)):
            frames = int(self._loop.frames(self._state)[i])
            rows.append(output.write_row(report, values[i], played, i, {"frames": frames, **so_far}))
        self._frames_at_row = self._frames()
        self._state = self._loop.reset_tally(self._state)
        for i, row in enumerate(rows):  # last: a callback that raises leads to a checkpoint of the state after the rows
            self._call_row(i, row, evaluate)

    def _so_far(self) -> dict[str, Any]:
        """Figures of the training as a whole, the same in the rows of all runs."""
        elapsed = time.perf_counter() - self._started
        speed = (self._frames() - self._started_frames) * len(self._runs) / elapsed
        return {
            "seconds": round(self._seconds(), 3),
            "frames_per_second": round(speed, 1),
            "updates": int(self._state.agent.learner.updates),
            "demonstrated_steps": self._demonstrations.steps if self._demonstrations else 0,
        }

    def _call_row(self, i: int, row: dict[str, Any], evaluated: bool) -> None:
        self._call("on_row", i, row)
        if evaluated:
            self._call("on_evaluation", i, row)

    def _call(self, moment: str, i: int, *args: Any) -> None:
        """Tell all callbacks of a moment of run `i`."""
        for callback in self._callbacks:
            if self._invoke(callback, moment, self._views[i], *args):
                self._wants_stop.add(i)

    def _invoke(self, callback: Callback, moment: str, *args: Any) -> Any:
        """Call one callback; if it raises, that ends training, after everything was saved."""
        try:
            return getattr(callback, moment)(*args)
        except Exception as error:
            if self._views and moment not in ("on_start", "on_checkpoint", "on_end", "close"):
                self._save()
                self._writer.wait()
            if isinstance(error, UserError):  # says itself what to do
                raise
            paths = ", ".join(str(run.path) for run in self._runs)
            finished = all(run.finished for run in self._runs)
            saved = "training was over" if finished else "what was trained so far is saved, --resume goes on"
            name = f"{type(callback).__name__}.{moment}"
            raise UserCodeError(f"{paths}: the callback {name} raised {one_line(error)}; {saved}") from error

    def _each(self, moment: str, *args: Any) -> None:
        for i in range(len(self._runs)):
            self._call(moment, i, *args)

    def _require_finite(self, reports: Sequence[Report]) -> None:
        for run, report in zip(self._runs, reports, strict=True):
            require_finite(report, self._config.env, run.path, self._frames())

    def _policy(self, i: int) -> dict[str, Any]:
        report = self._loop.reports(self._state)[i]
        return {"params": report.params, "similarity": report.similarity}

    def _log_replay(self) -> None:
        """Hand the newest rows of the replay to its log."""
        first, last = self._next_logged_tick, int(self._state.agent.tick)
        if first <= last:
            rows_of_runs = self._loop.replay_rows(self._state, first, last)
            for output, (start, rows) in zip(self._outputs, rows_of_runs, strict=True):
                output.log_replay(start, rows)
            self._next_logged_tick = last + 1

    def _save(self) -> None:
        """Hand a checkpoint of every run to the writer; training goes on at once."""
        self._log_replay()
        self._require_finite(self._loop.reports(self._state))
        tick, frames = int(self._state.agent.tick), self._loop.frames(self._state)
        about = {
            "frames_at_row": self._frames_at_row,
            "seconds": self._seconds(),
            "demonstrations": self._demonstrations.digest if self._demonstrations else "",
        }
        for i, (output, state) in enumerate(zip(self._outputs, self._loop.checkpoints(self._state), strict=True)):
            output.write_checkpoint(tick, state, int(frames[i]), about)
        self._saved = time.perf_counter()
        for i in range(len(self._runs)):
            self._call("on_checkpoint", i, int(frames[i]))

    def _save_all(self) -> None:
        """A checkpoint and the current policy of every run, on disk when this returns."""
        self._save()
        frames = self._loop.frames(self._state)
        for output, report, played in zip(self._outputs, self._loop.reports(self._state), frames, strict=True):
            output.write_policy(report, int(played))
        self._writer.wait()

    def _stop_by_signal(self) -> None:
        """Save everything and end."""
        self._save_all()
        self._each("on_end", None)
        raise StoppedBySignal(
            self._stop.number,
            f"stopped at {self._frames():,} of {self._config.frames:,} frames; everything is saved in "
            f"{', '.join(str(run.path) for run in self._runs)}; --resume goes on from there",
        )

    def _finish(self) -> list[dict[str, Any]]:
        self._save_all()
        summaries = [output.write_summary() for output in self._outputs]
        for i, summary in enumerate(summaries):
            self._call("on_end", i, summary)
        return summaries

    def _report(self, frames: int, doing: str) -> None:
        for callback in self._callbacks:
            self._invoke(callback, "on_progress", frames, doing)

    def _tell(self, message: str) -> None:
        for callback in self._callbacks:
            self._invoke(callback, "on_message", message)


def _next_multiple(value: int, period: int) -> int:
    return (value // period + 1) * period
