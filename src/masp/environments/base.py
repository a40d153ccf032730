"""The interfaces of environments, their seeds, and the description of a family of environments.

JAX environments are pure functions of one environment and run inside the compiled loop. Host environments are a vector
of N environments that Python steps. Both return the real final observation of an episode and reset in the tick after.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from masp.errors import UserError, did_you_mean
from masp.macros.actions import ActionSet

if TYPE_CHECKING:  # worker processes import this module and do without JAX
    from jax import Array

ObservationKind = Literal[
    "image", "planes", "minigrid", "minigrid-mission", "minigrid-whole", "minigrid-whole-mission", "vector"
]
"""`image`: bytes [H, W, C]; `planes`: a small board with 0/1 channels; `minigrid`: cells of codes, with the words of
the mission if `-mission`; `minigrid-whole`: a byte for each cell of the whole grid; `vector`: numbers."""

SMALLEST_IMAGE = 36
"""Smallest height and width for which the convolutions of the image network have an output."""


@dataclass(frozen=True)
class EnvInfo:
    """What training needs to know of an environment before it runs."""

    env_id: str
    observation_shape: tuple[int, ...]
    """Shape of one observation; the last axis of an image is its channels."""
    observation_dtype: np.dtype
    observation_kind: ObservationKind
    actions: ActionSet
    """The primitives, with the environment's own macros."""
    frames_per_step: int = 1
    """Emulator frames per step."""
    success_above: float | None = None
    """An episode whose return exceeds this is a success; None: success is not defined."""
    groups: np.ndarray | None = None
    """[A] the true group of each action of `actions`, in tasks with planted groups."""
    max_episode_steps: int = 1_000_000
    """Upper bound on the length of an episode."""


SUCCESS_UNKNOWN = -1
"""Value in `Step.success` where the environment does not say whether the episode succeeded."""


class Step(NamedTuple):
    """The result of one tick of N environments."""

    observation: Any  # [N, ...]; at the end of an episode, its final observation
    reward: Any  # [N]
    terminated: Any  # [N] bool
    truncated: Any  # [N] bool
    life_lost: Any  # [N] bool, ends the return but not the episode
    action_mask: Any = None  # [N, P] bool, primitives allowed after `observation`; None: the environment has no masks
    success: Any = None  # [N] int8 at the end of an episode: 1, 0 or SUCCESS_UNKNOWN; None: it never says


class JaxEnv(Protocol):
    """One environment as pure functions; the compiled loop maps them over environments and seeds."""

    @property
    def info(self) -> EnvInfo: ...

    def reset(self, key: Array) -> tuple[Any, Array]:
        """State and first observation of a new episode."""
        ...

    def step(self, state: Any, action: Array, key: Array) -> tuple[Any, Array, Array, Array, Array]:
        """State, observation, reward, terminated and truncated after one primitive action."""
        ...


# A JAX environment may also have `render(state)`, an image [H, W, 3] of uint8, which videos show.


@runtime_checkable
class MaskedJaxEnv(JaxEnv, Protocol):
    """A JAX environment with action masks."""

    def action_mask(self, state: Any) -> Array:
        """[P] bool, the primitives that are allowed in `state`; at least one unless it is terminal."""
        ...


@runtime_checkable
class JudgingJaxEnv(JaxEnv, Protocol):
    """A JAX environment that says itself whether an episode succeeded."""

    def success(self, state: Any) -> Array:
        """[] bool, whether the episode that ends in `state` succeeded."""
        ...


class HostEnv(Protocol):
    """N environments stepped from Python; each resets itself in the tick after the end of its episode.

    One with action masks has them in each `Step`, and those of the first observations as `action_mask` [N, P] after a
    `reset` (see `first_mask`).
    """

    @property
    def info(self) -> EnvInfo: ...

    @property
    def num_envs(self) -> int: ...

    def reset(self, seed: int) -> np.ndarray:
        """Start new episodes; [N, ...] first observations. The same seed gives the same episodes."""
        ...

    def step(self, actions: np.ndarray) -> Step:
        """Play one primitive [N] in each environment; an environment that resets ignores its action."""
        ...

    def snapshot(self) -> Any:
        """Arrays from which `restore` recovers the current state of the environments."""
        ...

    def restore(self, seed: int, snapshot: Any) -> None:
        """The inverse of `snapshot`, for environments that were reset with `seed`."""
        ...

    def close(self) -> None: ...


def first_mask(env: Any) -> np.ndarray | None:
    """[N, P] the action masks of the first observations of a `HostEnv`; None: it has none."""
    return getattr(env, "action_mask", None)


EVALUATION_BIT = 1 << 30
"""Set in all seeds of evaluation, clear in all seeds of training. Seeds have 31 bits, because some simulators keep them
in a C int."""
MOST_CONSECUTIVE_SEEDS = 1 << 20
"""So many seeds after a derived seed are in the same half, for libraries that use `seed + i` for environment i."""


def derived_seed(seed: int, purpose: Literal["training", "evaluation"]) -> int:
    """The seed for `HostEnv.reset` in a run with `seed`; training and evaluation draw from disjoint halves."""
    return _hashed_seed(seed, (), EVALUATION_BIT if purpose == "evaluation" else 0)


def episode_seed(seed: int, env: int, episode: int) -> int:
    """The seed of one episode of one environment of a vector that was reset with `seed`; in the same half as `seed`."""
    return _hashed_seed(seed, (env, episode), seed & EVALUATION_BIT)


def _hashed_seed(seed: int, spawn_key: tuple[int, ...], purpose_bit: int) -> int:
    bits = int(np.random.SeedSequence(seed, spawn_key=spawn_key).generate_state(1)[0])
    return bits % (EVALUATION_BIT - MOST_CONSECUTIVE_SEEDS) | purpose_bit


Option = bool | int | float | str
Env = TypeVar("Env")


@dataclass(frozen=True)
class Package:
    """A third-party package, and how to install it."""

    module: str
    """Name to import."""
    extra: str
    """The extra of this distribution that installs it; empty: it is installed with masp."""
    brings: str = ""
    """The environments that need it, if not all of a family do."""

    @property
    def installed(self) -> bool:
        return not self.module or importlib.util.find_spec(self.module) is not None

    @property
    def install_line(self) -> str:
        """The command that installs it."""
        return f"pip install 'masp-rl[{self.extra}]'" if self.extra else "pip install masp-rl"

    def require_installed(self, user: str) -> None:
        """Raise `UserError` unless the package, which `user` needs, is installed."""
        if not self.installed:
            raise UserError(f"{user} needs the package {self.module}: {self.install_line}")


ENVPOOL = Package("envpool", "envpool")
OPENCV = Package("cv2", "atari")
BOX2D = Package("Box2D", "box2d", "LunarLander-v3 and CarRacing-v3")


@dataclass(frozen=True)
class Family:
    """The description of a family of environments; it imports nothing of the family until one of them is made."""

    name: str
    contains: Callable[[str], bool]
    """Whether an id belongs to this family."""
    module: str
    """Module of `masp.environments` with `make(env_id, options, num_envs)`, and with `names()` if `ids` is empty."""
    examples: tuple[str, ...]
    """Some ids for newcomers."""
    preset: str
    """The preset that `--preset auto` chooses."""
    ids: tuple[str, ...] = ()
    """The ids to list; empty: `names()` of the module lists them."""
    package: str = ""
    """The module that must be importable; empty: none."""
    extra: str = ""
    """The extra of this distribution that installs it; empty: it is installed with masp."""
    dependencies: tuple[Package, ...] = ()
    """Further packages that all environments of the family need."""
    explicit_options: tuple[str, ...] = ()
    """Options, as name=value, that the configuration of a run records even if the user leaves them at this default."""
    backends: tuple[Package, ...] = ()
    """Alternative implementations of the same environments, chosen by the option backend=MODULE."""
    workers: bool = False
    """Whether its environments can be played in processes, with `--env-workers`."""
    optional: tuple[Package, ...] = ()
    """Packages that only some of the environments need."""

    @property
    def installed(self) -> bool:
        return all(package.installed for package in (self._main_package, *self.dependencies))

    @property
    def install_line(self) -> str:
        """The command that installs the family."""
        return self._main_package.install_line

    def require_installed(self, env_id: str) -> None:
        """Raise `UserError` unless all packages that `env_id` needs are installed."""
        for package in (self._main_package, *self.dependencies):
            package.require_installed(env_id)

    def make(self, env_id: str, options: dict[str, Option], num_envs: int, workers: int = 0) -> JaxEnv | HostEnv:
        """The environment with this id; `num_envs` of them together, in `workers` processes, if it is a host one."""
        if self.workers:
            return self._import().make(env_id, options, num_envs, workers)
        if workers:
            raise UserError(
                f"{env_id}: environments of the family {self.name} are not played in processes that you choose; "
                "leave out --env-workers"
            )
        return self._import().make(env_id, options, num_envs)

    def names(self) -> Sequence[str]:
        """The ids to list; the family must be installed."""
        return self.ids or self._import().names()

    @property
    def _main_package(self) -> Package:
        return Package(self.package, self.extra)

    def _import(self) -> Any:
        return importlib.import_module(f"masp.environments.{self.module}")


def require_valid_options(env_id: str, options: dict[str, Option], valid: Sequence[str] | None) -> None:
    """Raise `UserError` unless the name of each option is in `valid`; None: all names are valid."""
    for name in options:
        if valid is not None and name not in valid:
            hint = did_you_mean(name, valid)
            known = f"{env_id} has no option {name!r}; it has {', '.join(valid) or 'none'}"
            raise UserError(f"{known}; {hint}" if hint else known)


def make_with_options(make: Callable[..., Env], env_id: str, options: dict[str, Option]) -> Env:
    """`make(**options)`, after a check of the options against its signature, in which each argument has a default."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(make).parameters.items()}
    require_valid_options(env_id, options, list(defaults))
    for name, value in options.items():
        default = defaults[name]
        accepted_types = (int, float) if isinstance(default, float) else type(default)  # an int is a valid float
        if isinstance(value, bool) != isinstance(default, bool) or not isinstance(value, accepted_types):
            raise UserError(f"{env_id}: option {name} must be of type {type(default).__name__}, got {value!r}")
    return make(**options)
