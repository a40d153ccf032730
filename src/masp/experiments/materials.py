"""What a trial needs before it can train: its macro file, its similarity, and the settings that a sweep chose."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from masp.environments import make_env
from masp.errors import UserError
from masp.experiments.identity import macro_id, trial_id
from masp.experiments.play import play
from masp.experiments.store import Store
from masp.experiments.trial import SWEPT, MacroSet, Play, Trial
from masp.macros.actions import ActionSet
from masp.macros.mining import mine_macros
from masp.macros.noise import corrupt
from masp.report.scores import mean_score
from masp.similarity.bundle import Bundle, load_bundle, save_bundle
from masp.similarity.consensus import consensus
from masp.training.run import load_run
from masp.training.run_dir import RunDir, read_json

MOST_KEPT_ACTIONS = 256
"""Similarities of more actions stay in the run directory alone: a quarter of a megabyte is enough for each."""


def prepare(trial: Trial, seed: int, store: Store) -> dict[str, Any]:
    """Fields of the configuration that point at what was prepared; everything is made at most once."""
    fields: dict[str, Any] = dict(chosen_settings(trial, store))
    if trial.control == "rainbow":
        return fields
    if trial.source is not None:
        source_seed = trial.source.seeds[trial.seeds.index(seed)]
        of = _consensus_file if trial.control == "consensus" else _learned_file
        fields["similarity_start"] = str(of(trial_id(trial.source), source_seed, store))
    elif trial.control == "truth":
        fields["similarity_start"] = str(_truth_file(trial, store))
    elif trial.macros is not None:
        fields["macros"] = str(_macro_file(trial.macros, trial, store))
    return fields


def keep_bundle(trial: Trial, found_id: str, seed: int, run: RunDir, store: Store) -> None:
    """Keep what a finished run learned where others find it once its run directory is gone."""
    if trial.control == "masp" and len(run.read_actions()) <= MOST_KEPT_ACTIONS:
        _once(store.bundle_file(f"{found_id}-{seed}"), lambda partial: shutil.copy(run.bundle_file, partial))


def _learned_file(found_id: str, seed: int, store: Store) -> Path:
    kept = store.bundle_file(f"{found_id}-{seed}")
    found = kept if kept.exists() else RunDir(store.run_dir_of(found_id, seed)).bundle_file
    if not found.exists():
        raise UserError(f"{found} is gone, and with it the similarity to take over; restore it, or use a new --store")
    return found


def _consensus_file(found_id: str, seed: int, store: Store) -> Path:
    """What the rows of a learned similarity agree on."""
    file = store.bundle_file(f"consensus-{found_id}-{seed}")

    def make(partial: Path) -> None:
        learned = load_bundle(_learned_file(found_id, seed, store))
        save_bundle(partial, learned._replace(similarity=consensus(learned.similarity)))

    _once(file, make)
    return file


def chosen_settings(trial: Trial, store: Store) -> dict[str, float]:
    """What the sweep found best on its own seeds, earlier candidates first among equals; {} without a sweep."""
    candidates = trial.candidates()
    if not candidates:
        return {}
    records = store.records()
    assert trial.sweep is not None
    found = [[records[trial_id(candidate), seed] for seed in candidate.seeds] for candidate in candidates]
    means = [mean_score(runs, judged=trial.sweep.judged) for runs in found]
    best = dict(candidates[int(np.argmax(means))].overrides)
    return {name: best[name] for name in SWEPT if getattr(trial.sweep, name)}


def _truth_file(trial: Trial, store: Store) -> Path:
    """A bundle in which actions are alike exactly if they are of the same group."""
    info = make_env(trial.env, trial.env_options).info
    if info.groups is None:
        raise UserError(f"{trial.env} has no known groups, so there is no true similarity")
    file = store.bundle_file(f"truth-{trial_id(trial)}")
    truth = (info.groups[:, None] == info.groups[None, :]).astype(np.float32)
    _once(file, lambda partial: save_bundle(partial, Bundle(info.actions, truth)))
    return file


def _macro_file(macros: MacroSet, trial: Trial, store: Store) -> Path:
    file = store.macro_file(macro_id(macros, trial.env, trial.env_options))

    def make(partial: Path) -> None:
        actions = make_env(trial.env, trial.env_options).info.actions
        if macros.play is not None:
            actions = _mined(macros, macros.play, actions, store)
        corrupt(actions, macros.noise, macros.noise_seed).save(partial)

    _once(file, make)
    return file


def _mined(macros: MacroSet, source: Play, own: ActionSet, store: Store) -> ActionSet:
    """Macros of recorded play, for the primitives of the environment's own set."""
    found = mine_macros(
        list(source.files) if source.agent is None else _recorded(source, source.agent, store),
        macros.k,
        macros.min_length,
        macros.max_length,
        source.stride,
        literal=macros.literal,
        num_primitives=own.num_primitives,
        primitive_names=own.primitive_names,
        env_id=own.env_id,
    )
    if len(found.macros) < macros.k:
        raise UserError(
            f"only {len(found.macros)} of {macros.k} macros were found in the play of {own.env_id}; play more"
        )
    return found


def _recorded(source: Play, agent: Trial, store: Store) -> list[list[int]]:
    """Play of a trained agent, kept: other numbers of macros are mined from the same, also when the agent is gone."""
    file = store.play_file(f"{trial_id(agent)}-{agent.seeds[0]}-{source.steps}-{source.epsilon:g}")

    def make(partial: Path) -> None:
        seed = agent.seeds[0]
        run = load_run(store.run_dir_of(trial_id(agent), seed))
        partial.write_text(json.dumps(play(run, source.steps, source.epsilon, seed)))

    _once(file, make)
    return read_json(file)


def _once(file: Path, make: Any) -> None:
    """Make a file whole, unless it is there; two processes may both make it, and one of the equal results stays."""
    if file.exists():
        return
    partial = file.with_name(f"{file.stem}-{secrets.token_hex(4)}.partial{file.suffix}")
    try:
        make(partial)
        os.replace(partial, file)
    finally:
        partial.unlink(missing_ok=True)
