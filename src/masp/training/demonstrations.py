"""Demonstrations from files: what was recorded, or what the environment shows when actions are played again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from masp.agent import demonstrations
from masp.agent.demonstrations import Demonstrations
from masp.config import TrainConfig
from masp.environments import make_env
from masp.environments.base import EnvInfo
from masp.environments.gymnasium_vector import GymVector
from masp.errors import UserError
from masp.macros.minari import is_minari_folder, read_minari_play
from masp.macros.recording import RecordedEpisode, RecordingHeader, Seen, read_header, read_recording


@dataclass(frozen=True)
class LoadedDemonstrations:
    """Demonstrations in memory, with a message and a hash."""

    memory: Demonstrations
    steps: int
    message: str
    """One line for the user."""
    digest: str
    """Hash of all of it: a run that is resumed must have the same."""


def load_demonstrations(config: TrainConfig, info: EnvInfo) -> LoadedDemonstrations | None:
    """The demonstrations that the configuration names, in the observations of its environment; None without."""
    source = config.demonstration.demonstrations
    if not source:
        return None
    header, episodes = _read(source, config, info)
    won = [episode for episode in episodes if episode.success is not False and len(episode.actions)]
    if not won:
        raise UserError(f"{source}: none of its {len(episodes)} episodes succeeded, so there is nothing to learn from")
    pairs = [(list(episode.actions), _seen(episode, source)) for episode in won]
    steps = sum(len(actions) for actions, _ in pairs)
    left_out = f", {len(episodes) - len(won)} that failed left out" if len(won) < len(episodes) else ""
    elsewhere = f" of {header.env_id}" if header.env_id not in ("", info.env_id) else ""
    message = f"{source}: learning from {steps:,} demonstrated steps in {len(won):,} episodes{elsewhere}{left_out}"
    return LoadedDemonstrations(demonstrations.init(pairs, config.agent.clip_rewards), steps, message, _digest(pairs))


def _read(source: str, config: TrainConfig, info: EnvInfo) -> tuple[RecordingHeader, list[RecordedEpisode]]:
    """Episodes with all that an agent learns from; a `UserError` if they are of another environment."""
    if not Path(source).is_file():
        if Path(source).suffix and not Path(source).exists():
            raise UserError(f"{source}: no such recording; 'masp record' writes one")
        if not is_minari_folder(source) and Path(source).exists():
            raise UserError(f"{source}: neither a recording of masp nor a Minari data set")
        header, episodes = read_minari_play(source, info.observation_shape, np.dtype(info.observation_dtype))
        _require_primitives(source, header, info)
        return header, episodes
    header = read_header(source)
    _require_primitives(source, header, info)
    episodes = [episode for episode in read_recording(source) if len(episode.actions)]
    if not header.observation_shape:
        return header, _replayed(source, header, episodes, config, info)
    shape, dtype = header.observation_shape, np.dtype(header.observation_dtype)
    if (shape, dtype) != (info.observation_shape, np.dtype(info.observation_dtype)):
        raise UserError(
            f"{source}: recorded in {header.env_id} with observations {dtype}{list(shape)}, but {config.env} has "
            f"{np.dtype(info.observation_dtype)}{list(info.observation_shape)}; record it with the same --env-options"
        )
    return header, episodes


def _require_primitives(source: str, header: RecordingHeader, info: EnvInfo) -> None:
    if header.num_primitives != info.actions.num_primitives:
        raise UserError(
            f"{source}: recorded in {header.env_id or 'another environment'} with {header.num_primitives} actions, but "
            f"{info.env_id} has {info.actions.num_primitives}"
        )


def _replayed(
    source: str, header: RecordingHeader, episodes: Sequence[RecordedEpisode], config: TrainConfig, info: EnvInfo
) -> list[RecordedEpisode]:
    """The episodes as the environment of the run shows them, played again from their seeds.

    The backend is that of the recording: backends draw other layouts from the same seed.
    """
    played_with = [option for option in header.env_options if option.startswith("backend=")]
    options = [option for option in config.env_options if not option.startswith("backend=")] + played_with
    env = make_env(header.env_id or config.env, options)
    if not isinstance(env, GymVector) or any(episode.seed is None for episode in episodes):
        raise UserError(
            f"{source}: {header.env_id} cannot repeat an episode from its seed; record it with --observations"
        )
    try:
        if env.info.observation_shape != info.observation_shape:
            raise UserError(
                f"{source}: recorded in {header.env_id} with observations {list(env.info.observation_shape)}, but "
                f"{config.env} has {list(info.observation_shape)}"
            )
        return [_replay(source, number, episode, env) for number, episode in enumerate(episodes)]
    finally:
        env.close()


def _replay(source: str, number: int, episode: RecordedEpisode, env: GymVector) -> RecordedEpisode:
    assert episode.seed is not None
    observations, step = env.replay(episode.seed, episode.actions)
    whole = len(step.reward) == len(episode.actions) and (step.terminated[-1] or step.truncated[-1])
    score = float(np.sum(step.reward, dtype=np.float64))
    if not whole or (episode.score is not None and not np.isclose(score, episode.score, rtol=1e-5)):
        raise UserError(
            f"{source}: episode {number} goes another way when it is played again in {env.info.env_id}; "
            "was it recorded with other --env-options? (--observations records what was seen)"
        )
    seen = Seen(observations, step.reward, step.life_lost, bool(step.terminated[-1]))
    return RecordedEpisode(episode.actions, episode.score, episode.success, episode.frames, episode.seed, seen)


def _seen(episode: RecordedEpisode, source: str) -> Seen:
    if episode.seen is None:
        raise UserError(f"{source}: an episode has no observations although others have; record it anew")
    return episode.seen


def _digest(pairs: Sequence[tuple[list[int], Seen]]) -> str:
    digest = hashlib.sha256()
    for actions, seen in pairs:
        digest.update(np.asarray(actions, np.int32).tobytes())
        digest.update(np.asarray(seen.rewards, np.float32).tobytes())
        digest.update(np.asarray(seen.life_lost, bool).tobytes() + bytes([seen.terminated]))
        digest.update(np.ascontiguousarray(seen.observations).tobytes())
    return digest.hexdigest()
