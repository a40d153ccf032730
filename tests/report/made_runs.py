"""Run directories whose metrics were made up, not trained: many, large, or with names nobody would choose."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from masp.config import TrainConfig, replace
from masp.macros.actions import ActionSet, Macro
from masp.similarity.bundle import Bundle, save_bundle
from masp.training import config_file
from masp.training.run_dir import RunDir
from masp.training.similarity_history import SimilarityHistory

FOUR = ("left", "right", "up", "down")


def action_set(macros: int, names=FOUR) -> ActionSet:
    """Primitives, and macros of two or three steps that have no name of their own."""
    rng = np.random.default_rng(0)
    return ActionSet(len(names), [Macro(tuple(rng.integers(0, len(names), 2 + i % 2))) for i in range(macros)], names)


def similarity(count: int, share: float, rng) -> np.ndarray:
    """Groups of five alike actions, as clearly as `share` says, with noise."""
    groups = np.arange(count) % max(count // 5, 2)
    noise = rng.uniform(0, 0.1, (count, count))
    matrix = 0.1 + 0.6 * share * (groups[:, None] == groups) + (noise + noise.T) / 2
    np.fill_diagonal(matrix, 1)
    return np.clip(matrix, 0, 1).astype(np.float32)


def metrics_row(number: int, of: int, frames: int, actions: ActionSet, rng, level: float, evaluated: bool) -> dict:
    """One row as training writes it."""
    done = number / of
    success = float(np.clip(level * done + 0.05 * rng.normal(), 0, 1))
    names = ("td_loss", "penalty", "q_spread", "gradient_norm", "meta_gradient_norm", "macro_lead", "overestimation")
    names += ("q_spread_within", "q_spread_between", "similarity_mean", "predicted_return", "discounted_return")
    row = {
        "frames": frames,
        "seconds": 10.0 * number,
        "frames_per_second": 900.0 + rng.normal(),
        "updates": frames // 4,
    }
    row |= {"episodes": 5, "return": success, "success": success, "episode_steps": 20.0, "decision_steps": 1.5}
    row |= {name: float(abs(rng.normal()) * (1.1 - done)) for name in names}
    row |= {"similarity_std": 0.2 * done, "similarity_auc": None, "macro_share": 0.5 + 0.3 * done}
    row |= {"effective_actions": 9.0 - 5 * done, "effective_neighbours": 4.0, "clusters": 3}
    evaluation = {"eval_return": success, "eval_success": success, "eval_episode_steps": 30 - 20 * done}
    row |= {name: value if evaluated else None for name, value in evaluation.items()}
    row |= {
        "decisions": rng.integers(0, 50, len(actions)).tolist(),
        "advantage": rng.normal(size=len(actions)).tolist(),
    }
    return row


def make_run(
    path: Path, variant="masp", seed=0, rows=20, actions=None, level=0.9, evaluate_every=2, **settings
) -> Path:
    """A finished run directory."""
    rng = np.random.default_rng(seed)
    actions = action_set(12) if actions is None else actions
    path.mkdir(parents=True)
    run = RunDir(path)
    settings = {"env": "planted-grid", "frames": 1000 * rows, **settings}
    config = replace(TrainConfig(env=settings.pop("env")), variant=variant, seed=seed, out=str(path), **settings)
    run.config_file.write_text(json.dumps(config_file.to_file(config.resolved())))
    own = actions.without_macros() if variant == "rainbow" else actions
    own.save(run.actions_file)
    history = SimilarityHistory(run.history_file, len(own), None)
    with open(run.metrics_jsonl, "w") as file:
        for number in range(1, rows + 1):
            row = metrics_row(number, rows, 1000 * number, own, rng, level, number % evaluate_every == 0)
            file.write(json.dumps(row) + "\n")
            if variant == "masp" and number % max(rows // 8, 1) == 0:
                history.add(number, 1000 * number, similarity(len(own), number / rows, rng))
    if variant == "masp":
        save_bundle(run.bundle_file, Bundle(own, similarity(len(own), 1.0, rng)))
    run.summary_file.write_text("{}")
    return path
