"""Training from a configuration to a finished run directory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from masp.agent.agent import Agent, Report
from masp.config import TrainConfig, replace
from masp.environments import is_jax, make_env
from masp.environments.registry import stated_options
from masp.errors import UserError
from masp.macros.actions import ActionSet
from masp.similarity.bundle import Bundle, save_bundle
from masp.similarity.matrix import as_matrix
from masp.training import checkpoint
from masp.training.compiled import CompiledLoop
from masp.training.evaluation import Played
from masp.training.host import HostLoop
from masp.training.lanes import lane_actions, shared_config
from masp.training.rows import effects_row, evaluation_row, similarity_row, true_groups
from masp.training.run_dir import MetricsWriter, RunDir, write_json

Progress = Callable[[int, int, dict[str, Any]], None]
"""Called with frames done, frames in all, and the newest row of the metrics."""


@dataclass(frozen=True)
class Result:
    """A finished run."""

    run_dir: Path
    summary: dict[str, Any]


def train(config: TrainConfig, resume: bool = False, progress: Progress | None = None) -> Result:
    """Train one seed; returns when the run directory is complete."""
    return train_seeds(config, [config.seed], resume, progress)[0]


def train_seeds(
    config: TrainConfig, seeds: Sequence[int], resume: bool = False, progress: Progress | None = None
) -> list[Result]:
    """Train several seeds, each into its own directory; at once where the environment is in JAX."""
    return train_runs([_for_seed(config, seed, len(seeds) > 1) for seed in seeds], resume, progress)


def train_runs(configs: Sequence[TrainConfig], resume: bool = False, progress: Progress | None = None) -> list[Result]:
    """Train runs that differ only in `lanes.VARYING`, each into its own directory; at once where possible."""
    options = stated_options(configs[0].env, configs[0].env_options)
    runs = [replace(config, env_options=options).resolved() for config in configs]
    if len(runs) > 1 and not is_jax(make_env(runs[0].env, options)):
        return [result for run in runs for result in train_lanes([run], resume, progress)]
    return train_lanes(runs, resume, progress)


def train_lanes(configs: Sequence[TrainConfig], resume: bool = False, progress: Progress | None = None) -> list[Result]:
    """Train runs that differ only in `lanes.VARYING`, each into its own directory: at once, so the environment must be
    in JAX if there are several."""
    session = _Session([config.resolved() for config in configs], resume, progress or (lambda *_: None))
    try:
        return session.run()
    finally:
        session.close()


def _for_seed(config: TrainConfig, seed: int, several: bool) -> TrainConfig:
    """The configuration of one seed, with its own directory."""
    out = config.out or f"runs/{config.env}-{config.variant}"
    if several or not config.out:
        out = f"{out}-{seed}" if not config.out else f"{out}/seed-{seed}"
    return replace(config, seed=seed, out=out)


def make_loop(config: TrainConfig, actions: ActionSet | None = None) -> Any:
    """The loop that fits the environment; `actions` None: those that the configuration asks for."""
    env = make_env(config.env, config.env_options, config.num_envs)
    agent = Agent(config, env.info, lane_actions([config], env.info)[0] if actions is None else actions)
    if is_jax(env):
        return CompiledLoop(agent, env)
    evaluation_env = make_env(config.env, config.env_options, min(config.num_envs, config.eval_episodes))
    assert not is_jax(evaluation_env)
    return HostLoop(agent, env, evaluation_env)


class _Session:
    """One or more runs that train together."""

    def __init__(self, configs: list[TrainConfig], resume: bool, progress: Progress):
        self._configs, self._config, self._progress = configs, shared_config(configs), progress
        self._loop = make_loop(self._config)
        self._agent: Agent = self._loop.agent
        self._actions = lane_actions(configs, self._agent.info)
        self._runs = [RunDir(config.out) for config in configs]
        self._agent.replay_ticks  # noqa: B018 - raises before anything is written
        self._require_frames_beyond(self._config.agent.min_replay_steps * self._agent.info.frames_per_step - 1)
        resumed = resume and all(run.checkpoint_file.exists() for run in self._runs)
        for run, config, actions in zip(self._runs, configs, self._actions, strict=True):
            if resumed or (resume and run.config_file.exists() and not run.finished):
                _require_same(run, config)
            else:
                run.create(config, actions)
        self._state = self._loop.init(configs, self._actions)
        if resumed:
            self._state = self._restored()
        kept = self._loop.frames(self._state) if resumed else [None] * len(configs)
        self._writers = [
            MetricsWriter(run, None if frames is None else int(frames))
            for run, frames in zip(self._runs, kept, strict=True)
        ]
        # Checkpoints are made right after a row, so that a run that goes on counts from where it would have.
        self._usage = [report.usage for report in self._loop.reports(self._state)]
        self._started, self._started_frames = time.perf_counter(), self._frames()

    def run(self) -> list[Result]:
        config = self._config
        warm_up = config.agent.min_replay_steps * self._agent.info.frames_per_step
        while (missing := warm_up - self._frames()) > 0:
            self._state = self._loop.run(self._state, self._ticks(missing), False)
        while self._replay_is_empty():
            self._state = self._loop.run(self._state, 1, False)
        if not self._runs[0].read_metrics():
            self._require_frames_beyond(self._frames())
        while self._frames() < config.frames:
            before = self._frames()
            self._advance_to(min(_next_multiple(before, config.log_every_frames), config.frames))
            last = self._frames() >= config.frames
            self._log(evaluate=last or _crossed(before, self._frames(), config.eval_every_frames))
            if not last and _crossed(before, self._frames(), config.checkpoint_every_frames):
                self._save()
        return self._finish()

    def close(self) -> None:
        """Leave no file open and no process running, however the run ended."""
        self._loop.close()
        for writer in self._writers:
            writer.close()

    def _require_frames_beyond(self, warm_up: int) -> None:
        if self._config.frames <= warm_up:
            raise UserError(
                f"all of {self._config.frames:,} frames would be played before learning begins; "
                "give more frames, or lower min_replay_steps"
            )

    def _replay_is_empty(self) -> bool:
        """Whether a seed has not yet seen the end of any decision, so that there is nothing to sample."""
        top = np.asarray(self._state.agent.memory.tree[-1])
        return bool((top.sum(axis=-1) == 0).any())

    def _advance_to(self, frames: int) -> None:
        """Train until every seed has played so many frames."""
        while (missing := frames - self._frames()) > 0:
            self._state = self._loop.run(self._state, self._ticks(missing), True)

    def _ticks(self, frames: int) -> int:
        """The fewest ticks in which so many frames can be played."""
        return -(-frames // (self._config.num_envs * self._agent.info.frames_per_step))

    def _frames(self) -> int:
        """Frames of the seed that has played fewest: episodes end, and reset ticks cost none."""
        return int(self._loop.frames(self._state).min())

    def _log(self, evaluate: bool) -> None:
        """One row per seed."""
        frames = self._loop.frames(self._state)
        played: Played | None = None
        if evaluate:
            played = self._loop.evaluate(self._state, self._config.eval_episodes, int(self._state.agent.tick))
        seconds = time.perf_counter() - self._started
        speed = (self._frames() - self._started_frames) * len(self._configs) / seconds
        reports, values = self._loop.reports(self._state), self._loop.sampled_values(self._state)
        for i, (writer, shown) in enumerate(zip(self._writers, reports, strict=True)):
            row = {"frames": int(frames[i]), "seconds": round(seconds, 3), "frames_per_second": round(speed, 1)}
            row.update(self._progress_row(shown))
            row.update(self._action_rows(i, shown, values[i]))
            row.update(evaluation_row(self._agent.info, played, i))
            writer.write(row)
        self._progress(self._frames(), self._config.frames, row)
        self._usage = [shown.usage for shown in reports]
        self._state = self._loop.reset_tally(self._state)

    def _progress_row(self, shown: Report) -> dict[str, Any]:
        tally = shown.tally
        episodes, updates = max(int(tally.episodes), 1), max(int(tally.updates), 1)
        blank = None if int(tally.episodes) == 0 else 1
        succeeds = self._agent.info.success_above is not None
        row = {
            "updates": int(self._state.agent.learner.updates),
            "episodes": int(tally.episodes),
            "return": blank and float(tally.score) / episodes,
            "success": blank and int(tally.successes) / episodes if succeeds else None,
            "episode_steps": blank and int(tally.episode_steps) / episodes,
            "decision_steps": float(shown.steps) / max(float(shown.usage.sum()), 1.0),
        }
        row.update({name: float(value) / updates for name, value in tally.metrics._asdict().items()})
        return row

    def _action_rows(self, i: int, shown: Report, values: np.ndarray) -> dict[str, Any]:
        """What run `i` has learned about its own actions; `values` [B, A] are of states from its replay."""
        actions, active = self._actions[i], self._configs[i].penalised
        groups, similarity = true_groups(self._agent.info, actions), np.asarray(as_matrix(shown.similarity))
        row = similarity_row(similarity, groups if active else None)
        decisions, first_macro = shown.usage - self._usage[i], actions.num_primitives
        return row | effects_row(values, decisions, similarity, first_macro, groups, active)

    def _save(self) -> None:
        for run, state in zip(self._runs, self._loop.checkpoints(self._state), strict=True):
            checkpoint.save(run.checkpoint_file, state)

    def _restored(self) -> Any:
        """The state of the last checkpoints of all seeds."""
        templates = self._loop.checkpoints(self._state)
        files = [run.checkpoint_file for run in self._runs]
        pairs = zip(files, templates, strict=True)
        return self._loop.restore([checkpoint.load(file, like, any_shape=".envs") for file, like in pairs])

    def _finish(self) -> list[Result]:
        self._save()
        results = []
        for i, (run, shown) in enumerate(zip(self._runs, self._loop.reports(self._state), strict=True)):
            actions = self._actions[i]
            checkpoint.save(run.policy_file, {"params": shown.params, "similarity": shown.similarity})
            save_bundle(run.bundle_file, Bundle(actions, np.asarray(as_matrix(shown.similarity))))
            write_json(run.usage_file, {"actions": actions.names, "decisions": shown.usage.tolist()})
            last = {name: value for name, value in run.read_metrics()[-1].items() if not isinstance(value, list)}
            write_json(run.summary_file, last)
            results.append(Result(run.path, last))
        return results


def _require_same(run: RunDir, config: TrainConfig) -> None:
    """A run goes on only as it began."""
    if run.finished:
        raise UserError(f"{run.path} holds a finished run; there is nothing to resume")
    if run.read_config() != config:
        raise UserError(f"{run.path} was started with other settings; give the same ones to --resume, or another --out")


def _next_multiple(value: int, period: int) -> int:
    return (value // period + 1) * period


def _crossed(before: int, after: int, period: int) -> bool:
    return bool(period) and before // period != after // period
