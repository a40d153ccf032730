"""MinAtar in JAX equals the original package, step by step."""

import importlib
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from vectors import make_vector, play

from masp.environments import is_jax, make_env
from masp.environments.minatar import ACTION_NAMES, FREEWAY_STEPS
from masp.errors import UserError
from masp.presets import from_preset

pytest.importorskip("pgx")
original = pytest.importorskip("minatar.environments")

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
STEPS = 4000

STARTS = {
    "asterix": dict(spawn_speed=(1, 11), spawn_timer=(0, 4), move_speed=(1, 6), ramp_index=(0, 3), ramp_timer=(-1, 4)),
    "breakout": dict(pos=(0, 10), ball_y=(4, 8), ball_x=(0, 10), ball_dir=(0, 4)),
    "freeway": dict(pos=(1, 4), move_timer=(0, 4), terminate_timer=(0, 200)),
    "seaquest": dict(
        oxygen=(0, 60), diver_count=(0, 7), sub_x=(1, 9), sub_y=(0, 9), e_spawn_speed=(1, 8),
        e_spawn_timer=(0, 4), d_spawn_timer=(0, 6), move_speed=(2, 6), ramp_index=(0, 4),
    ),
    "space_invaders": dict(
        pos=(0, 10), enemy_move_interval=(5, 9), alien_move_timer=(0, 6), alien_shot_timer=(0, 4)
    ),
}  # fmt: skip
"""Ranges (high excluded) of random first states, so that few steps reach what otherwise needs a good player."""
MAPS = {"breakout": ("brick_map", slice(1, 4)), "space_invaders": ("alien_map", slice(0, 4))}
"""Boards of which an episode keeps only a few cells, so that some are cleared."""


def start(game, key):
    """Fields of a random first state."""
    keys = jax.random.split(key, len(STARTS[game]) + 2)
    names = zip(keys, STARTS[game].items(), strict=False)
    fields = {name: jax.random.randint(k, (), *bounds) for k, (name, bounds) in names}
    if game in MAPS:
        name, rows = MAPS[game]
        board = jax.random.bernoulli(keys[-1], 0.1 * jax.random.uniform(keys[-2]), (10, 10))
        fields[name] = (board & jnp.zeros((10, 10), bool).at[rows].set(True)).at[rows.start, 4].set(True)
    if game == "breakout":
        fields |= {"last_x": fields["ball_x"], "last_y": fields["ball_y"]}
    if game == "seaquest":
        fields["surface"] = fields["sub_y"] == 0
    return fields


MEANS = {"asterix": (1 / 2, 1 / 3), "seaquest": (1 / 2, 1 / 3, 4.5, 1 / 2, 4.5), "freeway": (3.0, 0.0)}
"""Means of the original's random draws: sides, gold or submarine, rows 1 to 8; speeds 1 to 5 and directions."""


def draws(game, state, key):
    """The random draws of pgx from the key of a step, in the order in which the original needs them."""
    if game == "asterix":
        _, side, gold, slot = jax.random.split(key, 4)
        free = state._entities[:, 0] == 99
        free = jnp.where(free.any(), free, jnp.arange(8) == 0) / jnp.maximum(free.sum(), 1)
        third = jnp.array([1 / 3, 2 / 3])
        return (
            jax.random.choice(side, jnp.array([True, False])),
            jax.random.choice(gold, jnp.array([True, False]), p=third),
            jax.random.choice(slot, jnp.arange(8), p=free),
        )
    if game == "seaquest":
        _, side, kind, row, diver_side, diver_row = jax.random.split(key, 6)
        sides, third = jnp.array([True, False]), jnp.array([1 / 3, 2 / 3])
        return (
            jax.random.choice(side, sides),
            jax.random.choice(kind, sides, p=third),
            jax.random.choice(row, jnp.arange(1, 9)),
            jax.random.choice(diver_side, sides),
            jax.random.choice(diver_row, jnp.arange(1, 9)),
        )
    if game == "freeway":
        speed, direction = jax.random.split(jax.random.split(key, 2)[1], 2)
        return jax.random.randint(speed, [8], 1, 6), jax.random.choice(direction, jnp.array([-1, 1]), [8])
    return ()


class Script:
    """Replaces NumPy's generator in the original and returns the draws of pgx."""

    def __init__(self, game, env, samples):
        self._game, self._env = game, env
        if game == "seaquest":
            enemy, diver = samples[:3], samples[3:]
            self._queue = [*(enemy if env.e_spawn_timer == 0 else ()), *(diver if env.d_spawn_timer == 0 else ())]
        else:
            self._queue = list(samples)

    def rand(self, *_):
        value = self._queue.pop(0)
        return value / 4 + 0.5 if self._game == "freeway" else np.where(value, 0.0, 0.9)

    def randint(self, *_, **__):
        value = self._queue.pop(0)
        if self._game == "asterix":
            return [i for i in range(8) if self._env.entities[i] is None].index(value)
        return value.copy() if self._game == "freeway" else int(value)


@partial(jax.jit, static_argnums=(0, 1))
def play_random_starts(game, env, key):
    """Random steps in episodes with random first states: observations, draws and first states."""

    def begin(key):
        key_reset, key_start = jax.random.split(key)
        fields = start(game, key_start)
        return env.reset(key_reset)[0].replace(**{f"_{name}": value for name, value in fields.items()}), fields

    def tick(state, key):
        key_action, key_step, key_start = jax.random.split(key, 3)
        action = jax.random.randint(key_action, (), 0, 6)
        samples = draws(game, state, key_step)
        after, observation, reward, over, _ = env.step(state, action, key_step)
        fresh, fields = begin(key_start)
        following = jax.tree.map(lambda new, old: jnp.where(over, new, old), fresh, after)
        cars = fresh._cars if game == "freeway" else ()
        return following, (action, samples, observation, reward, over, fields, cars)

    fresh, fields = begin(key)
    cars = fresh._cars if game == "freeway" else ()
    return (fields, cars), jax.lax.scan(tick, fresh, jax.random.split(key, STEPS))[1]


def put(env, fields, cars):
    """Start an episode of the original with these fields."""
    env.reset()
    for name, value in fields.items():
        setattr(env, name, value.astype(float) if value.ndim else value.item())
    if len(cars):
        env.cars = cars.tolist()


def shooting_submarines(env):
    """Enemy submarines that move and shoot in the next step of Seaquest."""
    return [sub for sub in env.e_subs if sub[3] == 0 and sub[4] == 0]


@pytest.mark.parametrize("game", GAMES)
def test_equals_the_original_step_by_step(game):
    env = make_env(f"minatar-{game}", ["sticky=0"])
    (fields, cars), ticks = jax.tree.map(np.asarray, play_random_starts(game, env, jax.random.PRNGKey(1)))
    env = importlib.import_module(f"{original.__name__}.{game}").Env()
    put(env, fields, cars)
    episodes, total_reward, compared, diverged = 0, 0.0, 0, False
    for t in range(STEPS):
        action, samples, observation, reward, over, fields, cars = jax.tree.map(lambda part: part[t], ticks)
        if not diverged:
            env.random = Script(game, env, samples)
            shooting = shooting_submarines(env) if game == "seaquest" else []
            expected_reward, expected_over = env.act(int(action))
            # The known difference: this submarine shoots in the original, so the rest of the episode differs.
            diverged = any(sub not in env.e_subs and 0 <= sub[0] <= 9 for sub in shooting)
        if not diverged:
            np.testing.assert_array_equal(observation, env.state(), err_msg=f"step {t}")
            assert (reward, over) == (expected_reward, expected_over), f"step {t}"
            compared, total_reward = compared + 1, total_reward + reward
        if over:
            episodes, diverged = episodes + 1, False
            env.random = np.random
            put(env, fields, cars)
    for samples, mean in zip(ticks[1], MEANS.get(game, ()), strict=False):
        assert abs(samples.mean() - mean) < 4 * samples.std() / samples.size**0.5
    assert compared > 0.95 * STEPS
    assert episodes > 20 and total_reward > 10


@pytest.mark.parametrize(("game", "planes"), zip(GAMES, (4, 4, 7, 10, 6), strict=True))
def test_description(game, planes):
    env = make_env(f"minatar-{game}")
    info = env.info
    assert is_jax(env)
    assert (info.observation_shape, info.observation_kind, info.frames_per_step) == ((10, 10, planes), "planes", 1)
    assert info.observation_dtype == np.dtype(bool)
    assert info.actions.primitive_names == ACTION_NAMES == ("NOOP", "LEFT", "UP", "RIGHT", "DOWN", "FIRE")
    assert info.max_episode_steps == (FREEWAY_STEPS if game == "freeway" else 10_000)
    minimal = make_env(f"minatar-{game}", ["full_actions=false"]).info.actions.primitive_names
    expected = importlib.import_module(f"{original.__name__}.{game}").Env().minimal_action_set()
    assert minimal == tuple(ACTION_NAMES[action] for action in expected)


def test_all_games_have_the_same_actions_and_macros():
    sets = {make_env(f"minatar-{game}").info.actions.sequences().__repr__() for game in GAMES}
    assert len(sets) == 1
    names = make_env("minatar-freeway").info.actions.names
    assert names[6:] == [f"{name}x{length}" for length in (2, 4) for name in ACTION_NAMES[1:]]


def test_sticky_actions_repeat_the_last_one():
    env = make_env("minatar-breakout", ["sticky=0.1"])
    state, _ = env.reset(jax.random.PRNGKey(0))
    state = state.replace(_last_action=jnp.int32(1))  # LEFT
    keys = jax.random.split(jax.random.PRNGKey(1), 4000)
    after = jax.jit(jax.vmap(lambda key: env.step(state, jnp.int32(3), key)[0]))(keys)
    stuck = np.asarray(after._last_action) == 1
    assert stuck.mean() == pytest.approx(0.1, abs=0.02)  # four standard errors
    np.testing.assert_array_equal(after._pos, np.where(stuck, state._pos - 1, state._pos + 1))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("sticky=2", "option sticky must be at least 0 and at most 1, got 2"),
        ("sticky=often", "option sticky must be of type float, got 'often'"),
        ("max_steps=0", "option max_steps must be at least 1, got 0"),
        ("full_actions=6", "option full_actions must be of type bool, got 6"),
        ("colour=1", "minatar-breakout has no option 'colour'; it has sticky, full_actions, max_steps"),
    ],
)
def test_invalid_options_are_named(option, message):
    with pytest.raises(UserError, match=message):
        make_env("minatar-breakout", [option])


def test_preset_has_the_settings_of_revisiting_rainbow():
    config = from_preset("auto", "minatar-seaquest")
    agent = config.agent
    assert (agent.learning_rate, agent.adam_eps, agent.batch_size) == (0.0001, 0.0003125, 32)
    assert (agent.gamma, agent.n_step, agent.steps_per_update) == (0.99, 3, 4)
    assert (agent.replay_steps, agent.min_replay_steps, agent.target_period_steps) == (100_000, 1_000, 1_000)
    assert (agent.num_atoms, agent.value_range) == (51, (-100.0, 100.0))
    assert (agent.epsilon, agent.epsilon_decay_steps) == ((1.0, 0.01), 250_000)
    assert (agent.priority_exponent, agent.double, agent.dueling, agent.noisy) == (0.5, False, False, False)
    assert (agent.stack, config.frames, config.eval_epsilon) == (1, 10_000_000, 0.001)


def test_final_observation_shows_the_lost_ball():
    _, _, steps = play(make_vector("minatar-breakout", 4), 200)
    assert steps.terminated.any() and steps.truncated.any()
    ball, bottom = 1, 9
    np.testing.assert_array_equal(steps.observation[:, :, bottom, :, ball].any(axis=-1), steps.terminated)
    after_end = steps.observation[1:][(steps.terminated | steps.truncated)[:-1]]
    assert after_end[:, 3, (0, 9), ball].any(axis=-1).all()  # the ball starts on one of two cells
