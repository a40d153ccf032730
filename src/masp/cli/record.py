"""Play an environment and record it, for 'masp mine' and for 'masp train --demonstrations'.

examples:
  masp record DoorKey-5x5 --policy random --episodes 200 --out play.jsonl
  masp record LockedRoom --policy solver --episodes 200 --out solved.jsonl
  masp record ALE/Pong-v5 --policy runs/pong --episodes 20 --epsilon 0.05 --out pong.jsonl --minari pong-v0

FILE holds the primitive actions and the score of every finished episode, one line each, and the seed that repeats it
where the environment has one. It can be mined while it grows, and if recording is stopped it contains all finished
episodes. --observations adds what was seen, to learn from play that no seed repeats. --minari also writes a Minari
data set with observations and rewards, with the same guarantee. Existing files are never overwritten.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from masp import json_text
from masp.errors import UserError
from masp.macros.recording import RecordedEpisode, RecordingHeader, RecordingWriter

if TYPE_CHECKING:
    from masp.macros.minari import MinariWriter

OWN_POLICIES = ("random", "solver")
"""Policies that are not those of a run."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("env", metavar="ENV", help="environment id, as for 'masp train'")
    parser.add_argument(
        "--policy",
        required=True,
        metavar="random|solver|RUN_DIR",
        help="the policy that plays: random, a planner for MiniGrid, or a run with its own macros",
    )
    parser.add_argument("--episodes", type=int, required=True, metavar="N", help="episodes to record")
    parser.add_argument("--out", required=True, metavar="FILE", help="the recording, a new file")
    parser.add_argument("--observations", action="store_true", help="also record observations and rewards in FILE")
    parser.add_argument("--minari", metavar="DIR", help="also write a Minari data set to this new folder")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="same seed, same play (default %(default)s)")
    parser.add_argument(
        "--epsilon",
        type=float,
        metavar="P",
        help="probability of a random decision of a run (default: that of its evaluations)",
    )
    parser.add_argument(
        "--env-options",
        nargs="+",
        metavar="NAME=VALUE",
        help="options of the environment (default: those of the run, if it was trained in ENV)",
    )
    parser.add_argument(
        "--num-envs", type=int, default=8, metavar="N", help="environments in parallel (default %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Play, write, report."""
    _check(args)
    from masp.ops import cache_programs
    from masp.training import record

    cache_programs()
    env, policy, options = _env_and_policy(args)
    names = env.info.actions.primitive_names
    seen = (env.info.observation_shape, np.dtype(env.info.observation_dtype).name) if args.observations else ()
    header = RecordingHeader(env.info.env_id, env.info.actions.num_primitives, names, options, *seen)
    scores: list[float] = []
    successes: list[bool | None] = []
    steps = 0
    with _writers(args, header, env.info) as (writer, data_set), _progress(args.episodes) as show:

        def write(episode: record.PlayedEpisode) -> None:
            nonlocal steps
            score, success = episode.score, episode.success(env.info.success_above)
            finite_score = score if math.isfinite(score) else None
            frames = len(episode.actions) * env.info.frames_per_step
            seen = episode.seen if args.observations else None
            writer.add(RecordedEpisode(episode.actions, finite_score, success, frames, episode.seed, seen))
            if data_set is not None:
                data_set.add(episode.observations, episode.actions, episode.rewards, episode.terminated, success)
            scores.append(score)
            successes.append(success)
            steps += len(episode.actions)
            show(len(scores))

        keep_observations = args.observations or data_set is not None
        record.play_episodes(env, policy, args.episodes, args.seed, write, keep_observations)
    _report(args, env.info, scores, successes, steps)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Check the arguments as far as possible before loading anything."""
    if args.episodes < 1:
        raise UserError(f"--episodes must be at least 1, got {args.episodes}")
    if args.num_envs < 1:
        raise UserError(f"--num-envs must be at least 1, got {args.num_envs}")
    if args.seed < 0:
        raise UserError(f"--seed must not be negative, got {args.seed}")
    if args.epsilon is not None and not 0 <= args.epsilon <= 1:
        raise UserError(f"--epsilon is a probability between 0 and 1, got {args.epsilon}")
    if args.epsilon is not None and args.policy in OWN_POLICIES:
        raise UserError(f"--epsilon applies to the policy of a run, not to --policy {args.policy}")
    out = Path(args.out)
    if out.exists():
        raise UserError(f"{out}: exists already; choose another file")
    if not out.parent.is_dir():
        raise UserError(f"{out}: cannot be written; --out names a file in an existing folder")
    if args.minari:
        from masp.macros.minari import require_new

        require_new(args.minari)


def _env_and_policy(args: argparse.Namespace) -> tuple[Any, Any, tuple[str, ...]]:
    """The environment, the policy that plays in it, and the options of the environment."""
    from masp.environments.registry import stated_options
    from masp.training.playing import RunPolicy, make_player_env
    from masp.training.record import RandomPolicy
    from masp.training.run import load_run

    policy_run = None if args.policy in OWN_POLICIES else load_run(args.policy)
    options = args.env_options or ()
    if policy_run is not None and args.env_options is None and policy_run.config.env == args.env:
        options = policy_run.config.env_options
    stated = stated_options(args.env, options)
    env = make_player_env(args.env, stated, min(args.num_envs, args.episodes))
    if policy_run is not None:
        return env, RunPolicy(policy_run, env.info, args.epsilon, args.seed), stated
    if args.policy == "random":
        return env, RandomPolicy(env.info.actions.num_primitives, env.num_envs, args.seed), stated
    from masp.environments.minigrid_solver import SolverPolicy

    return env, SolverPolicy(env), stated


@contextmanager
def _writers(
    args: argparse.Namespace, header: RecordingHeader, info: Any
) -> Iterator[tuple[RecordingWriter, MinariWriter | None]]:
    """The writer of the recording, and that of the Minari data set if there is one."""
    data_set = None
    if args.minari:
        from masp.macros.minari import MinariWriter

        policy = args.policy if args.policy in OWN_POLICIES else "masp"
        data_set = MinariWriter(args.minari, header, info.observation_shape, info.observation_dtype, policy)
    try:
        writer = RecordingWriter(args.out, header)
    except OSError as error:
        raise UserError(f"{args.out}: cannot be written: {error.strerror}") from None
    with writer:
        yield writer, data_set


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, if stderr is a terminal."""
    if not sys.stderr.isatty():
        print(f"recording {total:,} episodes", file=sys.stderr, flush=True)
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("recording", total=total)
        yield lambda done: bar.update(task, completed=done)


def _report(args: argparse.Namespace, info: Any, scores: list[float], successes: list[bool | None], steps: int) -> None:
    unknown = all(success is None for success in successes)
    summary = {
        "out": str(args.out),
        "minari": args.minari,
        "env": info.env_id,
        "policy": args.policy,
        "episodes": len(scores),
        "steps": steps,
        "frames": steps * info.frames_per_step,
        "return": sum(scores) / len(scores),
        "success": None if unknown else sum(map(bool, successes)) / len(successes),
    }
    if args.json:
        print(json_text.dumps(summary))
        return
    success = "" if unknown else f", success {summary['success']:.3f}"
    result = f"{len(scores):,} episodes of {info.env_id}, {steps:,} steps; return {summary['return']:.3f}{success}"
    print(f"{args.out}: {result}")
    if args.minari:
        print(f"{args.minari}: the same as a Minari data set")
