"""What an environment is to the rest of the package: a description, and one of two interfaces.

JAX environments are pure functions of one environment and run inside the compiled loop. Host environments are a vector
of N environments stepped from Python. Both leave resetting to the tick after the end of an episode, and both hand
out the real final observation before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from masp.macros.actions import ActionSet

if TYPE_CHECKING:  # processes that hold one environment each do without JAX
    from jax import Array

ObservationKind = Literal["image", "planes", "minigrid", "minigrid-mission", "vector"]
"""`image`: bytes [H, W, C]; `planes`: few cells with 0/1 channels; `minigrid`: cells of codes, or with
`-mission` of codes and words; `vector`: numbers."""


@dataclass(frozen=True)
class EnvInfo:
    """All that training needs to know of an environment before it runs."""

    env_id: str
    observation_shape: tuple[int, ...]
    """Of one observation; images end with their channels."""
    observation_dtype: np.dtype
    observation_kind: ObservationKind
    actions: ActionSet
    """The primitives with the environment's own macro set."""
    frames_per_step: int = 1
    """Emulator frames that one step takes."""
    success_above: float | None = None
    """An episode whose return exceeds this is a success; None: success has no meaning here."""
    groups: np.ndarray | None = None
    """[A] the true group of every action of `actions`, where the task was made with groups."""
    max_episode_steps: int = 1_000_000
    """No episode is longer."""


class Step(NamedTuple):
    """What N environments returned from one tick."""

    observation: Any  # [N, ...], of a finished episode the final one
    reward: Any  # [N]
    terminated: Any  # [N] bool
    truncated: Any  # [N] bool
    life_lost: Any  # [N] bool, ends returns but not the episode


class JaxEnv(Protocol):
    """One environment as pure functions; the compiled loop maps them over environments and seeds."""

    @property
    def info(self) -> EnvInfo: ...

    def reset(self, key: Array) -> tuple[Any, Array]:
        """A new episode: its state and first observation."""
        ...

    def step(self, state: Any, action: Array, key: Array) -> tuple[Any, Array, Array, Array, Array]:
        """State, observation, reward, terminated and truncated after one primitive action."""
        ...


class HostEnv(Protocol):
    """N environments stepped from Python, each resetting by itself in the tick after its episode ended."""

    @property
    def info(self) -> EnvInfo: ...

    @property
    def num_envs(self) -> int: ...

    def reset(self, seed: int) -> np.ndarray:
        """New episodes everywhere; [N, ...] first observations. The same seed gives the same episodes."""
        ...

    def step(self, actions: np.ndarray) -> Step:
        """Play one primitive [N] each; the action of an environment that resets is ignored."""
        ...

    def snapshot(self) -> Any:
        """Arrays from which `restore` puts the environments back where they are."""
        ...

    def restore(self, seed: int, snapshot: Any) -> None:
        """The inverse of `snapshot`, for environments reset with `seed`."""
        ...

    def close(self) -> None: ...
