"""What a trial needs before it can train: its macro file, its similarity, and the settings that a sweep chose."""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from masp.environments import make_env
from masp.environments.minigrid_solver import SolverPolicy
from masp.errors import UserError
from masp.experiments.controls import WHOLE_AGENTS
from masp.experiments.store import Store
from masp.experiments.trial import SWEPT, MacroSet, Play, Solver, Trial, macro_id, trial_id
from masp.macros.actions import ActionSet
from masp.macros.mining import mine_macros
from masp.macros.noise import corrupt
from masp.macros.recording import RecordedEpisode, RecordingHeader, RecordingWriter
from masp.report.tables import mean_score
from masp.similarity.bundle import Bundle, load_bundle, save_bundle
from masp.similarity.consensus import consensus
from masp.training.playing import make_player_env
from masp.training.playing import play as play_ticks
from masp.training.record import PlayedEpisode, play_episodes
from masp.training.run import Run, load_run
from masp.training.run_dir import RunDir, read_json

MOST_KEPT_ACTIONS = 256
"""Similarities of more actions stay in the run directory only; one of this size takes a quarter of a megabyte."""
PLAYER_ENVS = 16
"""Environments in which an agent is recorded."""


def prepare(trial: Trial, seed: int, store: Store) -> dict[str, Any]:
    """Settings that name the files which this trial needs. Each file is made once and kept in the store."""
    settings: dict[str, Any] = dict(chosen_settings(trial, store))
    if trial.demonstrations is not None:
        settings["demonstrations"] = str(_solver_file(trial.demonstrations, trial, store))
    if trial.control == "rainbow":
        return settings
    if trial.source is not None:
        source_seed = trial.source.seeds[trial.seeds.index(seed)]
        if trial.control in WHOLE_AGENTS:
            return settings | {"init_from": str(_agent_dir(trial_id(trial.source), source_seed, store))}
        file_of = _consensus_file if trial.control == "consensus" else _learned_file
        settings["similarity_start"] = str(file_of(trial_id(trial.source), source_seed, store))
    elif trial.control == "truth":
        settings["similarity_start"] = str(_truth_file(trial, store))
    elif trial.macros is not None:
        settings["macros"] = str(_macro_file(trial.macros, trial, seed, store))
    return settings


def chosen_settings(trial: Trial, store: Store) -> dict[str, float]:
    """The best candidate of the sweep on its own seeds, the first among equals; {} without a sweep."""
    candidates = trial.candidates()
    if not candidates:
        return {}
    assert trial.sweep is not None
    records = store.records()
    means = [
        mean_score([records[trial_id(candidate), seed] for seed in candidate.seeds], judged=trial.sweep.judged)
        for candidate in candidates
    ]
    best = dict(candidates[int(np.argmax(means))].overrides)
    return {name: best[name] for name in SWEPT if getattr(trial.sweep, name)}


def keep_bundle(trial: Trial, seed: int, run: RunDir, store: Store) -> None:
    """Copy a learned similarity into the store, where it survives its run directory."""
    if trial.control == "masp" and len(run.read_actions()) <= MOST_KEPT_ACTIONS:
        _make_once(
            store.bundle_file(f"{trial_id(trial)}-{seed}"), lambda partial: shutil.copy(run.bundle_file, partial)
        )


def _agent_dir(source_id: str, seed: int, store: Store) -> Path:
    """The run directory of an agent that another one goes on with."""
    folder = store.run_dir_of(source_id, seed)
    if not RunDir(folder).policy_file.exists():
        raise UserError(f"{folder} has no policy, and with it the agent to start from is missing; use a new --store")
    return folder


def _learned_file(source_id: str, seed: int, store: Store) -> Path:
    file = store.bundle_file(f"{source_id}-{seed}")
    if not file.exists():  # too large to copy, see `keep_bundle`
        file = RunDir(store.run_dir_of(source_id, seed)).bundle_file
    if not file.exists():
        raise UserError(f"{file} is missing, and with it the similarity to transfer; restore it, or use a new --store")
    return file


def _consensus_file(source_id: str, seed: int, store: Store) -> Path:
    """A learned similarity, denoised by comparing its rows."""
    file = store.bundle_file(f"consensus-{source_id}-{seed}")

    def make(partial: Path) -> None:
        learned = load_bundle(_learned_file(source_id, seed, store))
        save_bundle(partial, learned._replace(similarity=consensus(learned.similarity)))

    _make_once(file, make)
    return file


def _truth_file(trial: Trial, store: Store) -> Path:
    """A bundle in which two actions have similarity 1 if they are of the same group, else 0."""
    info = make_env(trial.env, trial.env_options).info
    if info.groups is None:
        raise UserError(f"{trial.env} has no known groups, so there is no true similarity")
    file = store.bundle_file(f"truth-{trial_id(trial)}")
    truth = (info.groups[:, None] == info.groups[None, :]).astype(np.float32)
    _make_once(file, lambda partial: save_bundle(partial, Bundle(info.actions, truth)))
    return file


def _macro_file(macros: MacroSet, trial: Trial, seed: int, store: Store) -> Path:
    """The macros of one seed: all seeds have the same, except for the replacements by noise."""
    file = store.macro_file(macro_id(macros, trial.env, trial.env_options, seed))

    def make(partial: Path) -> None:
        actions = make_env(trial.env, trial.env_options).info.actions
        if macros.play is not None:
            actions = _mined(macros, macros.play, actions, trial, store)
        corrupt(actions, macros.noise, seed).save(partial)

    _make_once(file, make)
    return file


def _mined(macros: MacroSet, play: Play, own: ActionSet, trial: Trial, store: Store) -> ActionSet:
    """Macros of recorded play, over the primitives of the environment's own action set."""
    mined = mine_macros(
        _sources(play, trial, store),
        macros.k,
        macros.min_length,
        macros.max_length,
        play.stride,
        literal=macros.literal,
        num_primitives=own.num_primitives,
        primitive_names=own.primitive_names,
        env_id=own.env_id,
        only_successful=play.solver is not None,
    )
    if len(mined.macros) < macros.k:
        raise UserError(
            f"only {len(mined.macros)} of {macros.k} macros were found in the play of {own.env_id}; play more"
        )
    return mined


def _sources(play: Play, trial: Trial, store: Store) -> list[Any]:
    """What macros are mined from: files, or episodes in memory."""
    if play.solver is not None:
        return [_solver_file(play.solver, trial, store)]
    return list(play.files) if play.agent is None else _recorded_play(play, play.agent, store)


def _solver_file(solver: Solver, trial: Trial, store: Store) -> Path:
    """Successful play of the planner for MiniGrid. A seed repeats an episode in the default backend, so other options
    of the trial, such as its view, do not matter."""
    file = store.recording_file(f"solver-{trial.env}-{solver.episodes}-{solver.seed}")

    def make(partial: Path) -> None:
        env = make_player_env(trial.env, (), min(PLAYER_ENVS, solver.episodes))
        names = env.info.actions.primitive_names
        header = RecordingHeader(env.info.env_id, env.info.actions.num_primitives, names)
        with RecordingWriter(str(partial), header) as writer:

            def write(episode: PlayedEpisode) -> None:
                success, frames = episode.success(env.info.success_above), len(episode.actions)
                writer.add(RecordedEpisode(episode.actions, episode.score, success, frames, episode.seed))

            play_episodes(env, SolverPolicy(env), solver.episodes, solver.seed, write, False)
        env.close()

    _make_once(file, make)
    return file


def _recorded_play(play: Play, agent: Trial, store: Store) -> list[list[int]]:
    """Play of a trained agent. It is kept, so that other numbers of macros are mined from the same play."""
    seed = agent.seeds[0]
    file = store.play_file(f"{trial_id(agent)}-{seed}-{play.steps}-{play.epsilon:g}-scored")

    def make(partial: Path) -> None:
        run = load_run(store.run_dir_of(trial_id(agent), seed))
        partial.write_text(json.dumps(record_play(run, play.steps, play.epsilon, seed)))

    _make_once(file, make)
    return best_episodes(read_json(file), play.successful)


def best_episodes(episodes: list[dict[str, Any]], share: float) -> list[list[int]]:
    """Primitives of the best `share` of the complete episodes by return, in the order of play; 1: of all play."""
    if share >= 1:
        return [episode["actions"] for episode in episodes]
    complete = [i for i, episode in enumerate(episodes) if episode["complete"]]
    by_return = sorted(complete, key=lambda i: -episodes[i]["return"])
    return [episodes[i]["actions"] for i in sorted(by_return[: math.ceil(share * len(complete))])]


def record_play(run: Run, steps: int, epsilon: float, seed: int) -> list[dict[str, Any]]:
    """Episodes with at least `steps` steps in total: their primitives, their return, and whether they came to an end.

    Those that are still running at the end are cut.
    """
    env = make_player_env(run.config.env, run.config.env_options, min(PLAYER_ENVS, run.config.num_envs))
    current = [_empty_episode() for _ in range(env.num_envs)]
    episodes = []
    played = 0
    for tick in play_ticks(run, env, seed, epsilon):
        done = np.asarray(tick.step.terminated) | np.asarray(tick.step.truncated)
        for i in np.flatnonzero(~tick.resetting):
            current[i]["actions"].append(int(tick.primitive[i]))
            current[i]["return"] += float(tick.step.reward[i])
            played += 1
            if done[i]:
                episodes.append({**current[i], "complete": True})
                current[i] = _empty_episode()
        if played >= steps:
            break
    env.close()
    return episodes + [episode for episode in current if episode["actions"]]


def _empty_episode() -> dict[str, Any]:
    return {"actions": [], "return": 0.0, "complete": False}


def _make_once(file: Path, make: Callable[[Path], Any]) -> None:
    """Make a file atomically unless it exists. If two processes both make it, one of the equal results stays."""
    if file.exists():
        return
    partial = file.with_name(f"{file.stem}-{secrets.token_hex(4)}.partial{file.suffix}")
    try:
        make(partial)
        os.replace(partial, file)
    finally:
        partial.unlink(missing_ok=True)
