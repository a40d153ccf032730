"""Play an environment and record it: what 'masp mine' reads.

examples:
  masp record DoorKey-5x5 --policy random --episodes 200 --out play.jsonl
  masp record ALE/Pong-v5 --policy runs/pong --episodes 20 --epsilon 0.05 --out pong.jsonl --minari pong-v0

FILE holds the primitive actions and the score of every finished episode, one line each. It can be mined at any time
while it grows; if recording is stopped, all finished episodes are in it. --minari also writes a Minari data set with
observations and rewards, to the same promise. Nothing that exists is overwritten.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from masp.errors import UserError
from masp.macros.recording import RecordedEpisode, RecordingHeader, RecordingWriter


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options."""
    parser.add_argument("env", metavar="ENV", help="environment id, as for 'masp train'")
    parser.add_argument("--policy", required=True, metavar="random|RUN_DIR", help="who plays; a run brings its macros")
    parser.add_argument("--episodes", type=int, required=True, metavar="N", help="episodes to record")
    parser.add_argument("--out", required=True, metavar="FILE", help="the recording, a new file")
    parser.add_argument("--minari", metavar="DIR", help="also write a Minari data set to this new folder")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="same seed, same play (default %(default)s)")
    parser.add_argument(
        "--epsilon",
        type=float,
        metavar="P",
        help="chance that a run decides at random (default: that of its evaluations)",
    )
    parser.add_argument(
        "--env-options",
        nargs="+",
        metavar="NAME=VALUE",
        help="options of the environment (default: those of the run, if it was trained in ENV)",
    )
    parser.add_argument(
        "--num-envs", type=int, default=8, metavar="N", help="environments side by side (default %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Play, write, report."""
    _check(args)
    from masp.training import record

    env, policy = _players(args)
    names = env.info.actions.primitive_names
    header = RecordingHeader(env.info.env_id, env.info.actions.num_primitives, names)
    scores: list[float] = []
    steps = 0
    with _sinks(args, header, env.info) as (write, data_set), _progress(args.episodes) as show:

        def finished(episode: record.PlayedEpisode) -> None:
            nonlocal steps
            above, score = env.info.success_above, episode.score
            success = None if above is None else score > above
            # A score that is no number is not known.
            known = score if math.isfinite(score) else None
            frames = len(episode.actions) * env.info.frames_per_step
            write(RecordedEpisode(episode.actions, known, success, frames))
            if data_set is not None:
                data_set.add(episode.observations, episode.actions, episode.rewards, episode.terminated, success)
            scores.append(score)
            steps += len(episode.actions)
            show(len(scores))

        record.play_episodes(env, policy, args.episodes, args.seed, finished, data_set is not None)
    _report(args, env.info, scores, steps)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Everything that can be told before anything is loaded."""
    if args.episodes < 1:
        raise UserError(f"--episodes must be at least 1, got {args.episodes}")
    if args.num_envs < 1:
        raise UserError(f"--num-envs must be at least 1, got {args.num_envs}")
    if args.seed < 0:
        raise UserError(f"--seed must not be negative, got {args.seed}")
    if args.epsilon is not None and not 0 <= args.epsilon <= 1:
        raise UserError(f"--epsilon is a chance between 0 and 1, got {args.epsilon}")
    if args.epsilon is not None and args.policy == "random":
        raise UserError("--epsilon is for the policy of a run; the random policy decides at random anyway")
    out = Path(args.out)
    if out.exists():
        raise UserError(f"{out}: exists already; choose another file")
    if not out.parent.is_dir():
        raise UserError(f"{out}: cannot be written; --out names a file in an existing folder")
    if args.minari:
        from masp.macros.recording_minari import require_new

        require_new(args.minari)


def _players(args: argparse.Namespace) -> tuple[Any, Any]:
    """The environment and who plays in it."""
    from masp.training.playing import RunPolicy, make_player_env
    from masp.training.record import RandomPolicy
    from masp.training.run import load_run

    policy_run = None if args.policy == "random" else load_run(args.policy)
    options = args.env_options or ()
    if policy_run is not None and args.env_options is None and policy_run.config.env == args.env:
        options = policy_run.config.env_options
    env = make_player_env(args.env, options, min(args.num_envs, args.episodes))
    if policy_run is None:
        return env, RandomPolicy(env.info.actions.num_primitives, env.num_envs, args.seed)
    return env, RunPolicy(policy_run, env.info, args.epsilon, args.seed)


@contextmanager
def _sinks(args: argparse.Namespace, header: RecordingHeader, info: Any) -> Iterator[tuple[Any, Any]]:
    """Where episodes go."""
    data_set = None
    if args.minari:
        from masp.macros.recording_minari import MinariWriter

        data_set = MinariWriter(args.minari, info, "random" if args.policy == "random" else "masp")
    try:
        writer = RecordingWriter(args.out, header)
    except OSError as error:
        raise UserError(f"{args.out}: cannot be written: {error.strerror}") from None
    with writer:
        yield writer.add, data_set


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("recording", total=total)
        yield lambda done: bar.update(task, completed=done)


def _report(args: argparse.Namespace, info: Any, scores: list[float], steps: int) -> None:
    above = info.success_above
    found = {
        "out": str(args.out),
        "minari": args.minari,
        "env": info.env_id,
        "policy": args.policy,
        "episodes": len(scores),
        "steps": steps,
        "frames": steps * info.frames_per_step,
        "return": sum(scores) / len(scores),
        "success": None if above is None else sum(score > above for score in scores) / len(scores),
    }
    if args.json:
        print(json.dumps(found))
        return
    success = "" if above is None else f", success {found['success']:.3f}"
    print(
        f"{args.out}: {len(scores):,} episodes of {info.env_id}, {steps:,} steps; return {found['return']:.3f}{success}"
    )
    if args.minari:
        print(f"{args.minari}: the same as a Minari data set")
