"""Named settings. `paper-*` hold the paper's tables to the digit; the others say what they change and why.

A preset is a table of fields by name; whatever it leaves out keeps the default of the field. Sweeps list the values
that the paper tried per game.
"""

from __future__ import annotations

from typing import Any

from masp.config import TrainConfig, replace
from masp.environments.registry import family_of
from masp.errors import UserError, did_you_mean

PAPER_ATARI: dict[str, Any] = {
    # Table "Main hyperparameters"; pre-processing is the environment's part.
    "learning_rate": 6.25e-5,
    "batch_size": 32,
    "gamma": 0.99,
    "replay_steps": 1_000_000,
    "target_period_steps": 10_000,
    "max_gradient_norm": 10.0,
    "epsilon": (1.0, 0.01),
    "epsilon_decay_steps": 1_000_000,
    "n_step": 3,
    "noisy": True,
    "num_atoms": 51,
    "value_range": (-10.0, 10.0),
    "dueling": True,
    "priority_exponent": 0.5,
    "importance": (0.4, 1.0),
    "penalty_weight": 0.3,
    "penalty_form": "sum",
    "similarity_form": "matrix",
    "meta_learning_rate": 0.001,
    "embedding": 32,
    # Algorithm 1
    "held_out": "separate",
    "meta_period_updates": 1,
    # "a small entropy penalty": the appendix gives no number
    "entropy_weight": 0.01,
    "stack": 1,
    "clip_rewards": True,
    "num_envs": 8,
    "frames": 2_000_000_000,
    # 100 evaluations
    "log_every_frames": 2_000_000,
    "eval_every_frames": 20_000_000,
}

PAPER_MINIGRID: dict[str, Any] = {
    # Table "MiniGrid-specific hyperparameters"; the rest as on Atari.
    **PAPER_ATARI,
    "replay_steps": 50_000,
    "batch_size": 64,
    "learning_rate": 1e-4,
    "target_period_steps": 1_000,
    "epsilon": (0.2, 0.01),
    "epsilon_decay_steps": 50_000,
    "n_step": 1,
    "noisy": False,
    "dueling": False,
    "penalty_weight": 0.1,
    "embedding": 8,
    "clip_rewards": False,
    "min_replay_steps": 1_000,
    # "Max frames per episode"; a task whose own limit is lower keeps it
    "env_options": ("max_episode_steps=2000",),
    "frames": 500_000,
    "log_every_frames": 10_000,
    "eval_every_frames": 50_000,
}

PAPER_SF2: dict[str, Any] = {
    # Table "Hyperparameters for Streetfighter II"; the rest as on Atari.
    **PAPER_ATARI,
    "learning_rate": 1e-4,
    "replay_steps": 500_000,
    "target_period_steps": 5_000,
    "epsilon": (1.0, 0.05),
    "epsilon_decay_steps": 200_000,
    "stack": 4,
    "embedding": 16,
    "frames": 500_000_000,
    "log_every_frames": 500_000,
    "eval_every_frames": 5_000_000,
}

ATARI: dict[str, Any] = {
    # Changes to the paper's Atari table, and why:
    **PAPER_ATARI,
    # one frame does not show which way anything moves
    "stack": 4,
    # noisy layers explore by themselves; a million steps of mostly random decisions would be 40 % of this budget
    "epsilon_decay_steps": 100_000,
    # 1.4 GB instead of 7
    "replay_steps": 200_000,
    "target_period_steps": 8_000,
    # a mean over actions; with 50 of them a weight of 0.03 in the paper's sum; not measured on Atari
    "penalty_weight": 1.5,
    "penalty_form": "mean",
    "similarity_form": "auto",
    "entropy_weight": 0.0,
    # a meta-step that costs little: 10 million frames are 625,000 updates, so one in 16 leaves 39,000
    "held_out": "next",
    "meta_period_updates": 16,
    # an agent that waits for something greedily, as for the ball in Breakout, waits for the whole half hour
    "eval_epsilon": 0.01,
    "eval_episodes": 16,
    "frames": 10_000_000,
    "log_every_frames": 50_000,
    "eval_every_frames": 500_000,
}

MINIGRID: dict[str, Any] = {
    # Changes to the paper's MiniGrid table, and why:
    **PAPER_MINIGRID,
    # returns are in [0, 1]: 51 atoms over -10..10 would leave three for all values that occur
    "num_atoms": 21,
    "value_range": (-0.2, 1.2),
    # the reward comes only at the end of the episode: longer returns carry it back sooner
    "n_step": 3,
    "dueling": True,
    # random play wins DoorKey-8x8 twice in 50,000 steps: explore for half the run, and forget no win
    "epsilon": (1.0, 0.05),
    "epsilon_decay_steps": 250_000,
    "replay_steps": 500_000,
    "learning_rate": 5e-4,
    "hidden": 128,
    # an eighth of Rainbow's updates, from many environments at once: a laptop trains a seed in minutes
    "steps_per_update": 32,
    "num_envs": 64,
    # a mean over actions; with 15 of them 0.003 in the paper's sum (at ten times that, FourRooms is learned later)
    "penalty_weight": 0.05,
    "penalty_form": "mean",
    "similarity_form": "auto",
    "entropy_weight": 0.0,
    # 500,000 steps are 15,600 updates: 1,950 meta-steps
    "held_out": "next",
    "meta_period_updates": 8,
    # who sees 7x7 cells and remembers nothing turns in circles for ever without a little chance
    "eval_epsilon": 0.05,
    # the tasks' own limits
    "env_options": (),
    "log_every_frames": 10_000,
    "eval_every_frames": 50_000,
    "eval_episodes": 64,
}

PLANTED: dict[str, Any] = {
    # Small and quick: scalar values and plain layers, so that the similarity is the only thing under study.
    "num_atoms": 1,
    "noisy": False,
    "n_step": 1,
    "hidden": 64,
    "learning_rate": 1e-3,
    "adam_eps": 1e-8,
    "batch_size": 64,
    "replay_steps": 50_000,
    "min_replay_steps": 2_000,
    "epsilon": (1.0, 0.1),
    "epsilon_decay_steps": 20_000,
    "steps_per_update": 16,
    "target_period_steps": 2_000,
    "gamma": 0.95,
    # chosen after looking at masp, not tuned for macros: docs/log/2026-11-16-planted-settings.md
    "importance": (0.4, 0.4),
    # a mean over actions; 0.03 in the paper's sum over 32 actions, 0.008 over 128
    "penalty_weight": 1.0,
    # improves macros more than any similarity does: docs/log/2026-11-16-structure.md
    "intra_option": True,
    # Algorithm 1: a tiny network can afford it, 3,600 updates need it, and the bandit's groups are found best so
    "held_out": "separate",
    "meta_period_updates": 1,
    # left out here; its effect was not measured alone: docs/log/2026-11-16-planted-settings.md
    "embedding": 0,
    "num_envs": 16,
    # experiments stop at 60,000, when values are still being learned; the groups of 128 actions take twice that
    "frames": 120_000,
    "log_every_frames": 6_000,
    "eval_every_frames": 6_000,
    "eval_episodes": 128,
}

MINATAR: dict[str, Any] = {
    # "Revisiting Rainbow" (Obando-Ceron & Castro 2021), the published configurations of its Rainbow on the five games,
    # which are one: distributional, prioritised, 3-step; double, dueling and noisy are switched on one by one there.
    "learning_rate": 1e-4,
    "adam_eps": 3.125e-4,
    "max_gradient_norm": 0.0,
    "batch_size": 32,
    "gamma": 0.99,
    "n_step": 3,
    "num_atoms": 51,
    "value_range": (-100.0, 100.0),
    "double": False,
    "dueling": False,
    "noisy": False,
    "priority_exponent": 0.5,
    "importance": (0.5, 0.5),
    "epsilon": (1.0, 0.01),
    "epsilon_decay_steps": 250_000,
    "target_period_steps": 1_000,
    "replay_steps": 100_000,
    "min_replay_steps": 1_000,
    "steps_per_update": 4,
    "eval_epsilon": 0.001,
    "frames": 10_000_000,
    # Not from there: a hidden layer after the convolution, as in MinAtar's own DQN; there is none in theirs.
    "hidden": 128,
    "num_envs": 16,
    # a meta-step costs as much as 1.6 updates: 10 million frames are 2.5 million updates, so one in 16 leaves 156,000
    "meta_period_updates": 16,
    # MASP and macros are no part of that work: docs/minatar.md. With macros as actions like all others the games are
    # learned far later than without them; this way macros cost nothing, and a small weight does best.
    "macros_for": "exploring",
    "intra_option": True,
    # a mean over actions; 0.003 in the paper's sum over 38 actions
    "penalty_weight": 0.1,
    "embedding": 16,
    "log_every_frames": 50_000,
    "eval_every_frames": 250_000,
    "eval_episodes": 64,
}

RETRO: dict[str, Any] = {
    # `atari`, for other consoles; nothing was tuned on any of their games.
    **ATARI,
}

GYMNASIUM: dict[str, Any] = {
    # A reasonable start for small tasks with vectors or images of one's own.
    "num_atoms": 1,
    "noisy": False,
    "learning_rate": 5e-4,
    "adam_eps": 1e-8,
    "hidden": 128,
    "batch_size": 64,
    "replay_steps": 100_000,
    "min_replay_steps": 2_000,
    "epsilon": (1.0, 0.05),
    "epsilon_decay_steps": 20_000,
    "target_period_steps": 1_000,
    "embedding": 8,
    # as on the planted tasks, the small ones that were measured: docs/log/2026-11-16-structure.md
    "intra_option": True,
    "penalty_weight": 0.1,
    "frames": 100_000,
    "log_every_frames": 2_000,
    "eval_every_frames": 10_000,
}

PRESETS: dict[str, dict[str, Any]] = {
    "paper-atari": PAPER_ATARI,
    "paper-minigrid": PAPER_MINIGRID,
    "paper-sf2": PAPER_SF2,
    "atari": ATARI,
    "minigrid": MINIGRID,
    "planted": PLANTED,
    "minatar": MINATAR,
    "retro": RETRO,
    "gymnasium": GYMNASIUM,
}

PAPER: dict[str, Any] = {
    "intra_option": False,
    "macros_for": "acting",
    "similarity_form": "matrix",
    "held_out": "separate",
    "meta_period_updates": 1,
}
"""What `--paper` sets: the additions of our presets to the paper's algorithm, switched off. The unit of the penalty's
weight (a mean or a sum over actions) stays the preset's."""

SWEEPS: dict[str, dict[str, tuple[float, ...]]] = {
    "paper-atari": {"penalty_weight": (0.1, 0.3, 0.5, 0.7, 1.0), "meta_learning_rate": (0.001, 0.005, 0.01)},
    "paper-minigrid": {"penalty_weight": (0.05, 0.1, 0.3), "meta_learning_rate": (0.001,)},
    "paper-sf2": {"penalty_weight": (0.3, 0.5), "meta_learning_rate": (0.001, 0.003)},
}


def default_preset(env: str) -> str:
    """The preset that fits an environment id when none is named."""
    return family_of(env).preset


def from_preset(name: str, env: str) -> TrainConfig:
    """The configuration of a preset for an environment; `auto` picks the preset by the environment."""
    name = default_preset(env) if name == "auto" else name
    if name not in PRESETS:
        hint = did_you_mean(name, PRESETS, f"choose one of {', '.join(PRESETS)}")
        raise UserError(f"there is no preset {name!r}; {hint}")
    return replace(TrainConfig(env=env), **PRESETS[name])
