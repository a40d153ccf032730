"""Atari equals Gymnasium's preprocessing of the emulator, with the settings of the paper's table."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from vectors import assert_equal, play, stack

from masp.agent.acting import Actor
from masp.environments import make_env
from masp.environments.base import episode_seed
from masp.errors import UserError
from masp.macros.actions import ALE_ACTIONS, ActionSet
from masp.macros.wrapper import MacroActionEnv

ale_py = pytest.importorskip("ale_py")
pytest.importorskip("cv2")
atari = pytest.importorskip("masp.environments.atari")

FIRE = ALE_ACTIONS.index("FIRE")


def deterministic(game="Breakout", **changes):
    """A game without sticky actions and no-ops, except for `changes`."""
    return atari.AtariGame(game, atari.AtariSettings(**{"sticky": 0.0, "noops": 0, **changes}))


def gymnasium_game(game, noops):
    """The same with Gymnasium's own wrapper."""
    gymnasium.register_envs(ale_py)
    env = gymnasium.make(f"ALE/{game}-v5", frameskip=1, repeat_action_probability=0.0, full_action_space=True)
    return gymnasium.wrappers.AtariPreprocessing(env, noop_max=noops, grayscale_newaxis=True)


class RecordingEmulator:
    """An emulator that records the actions it plays."""

    def __init__(self, ale):
        self._ale, self.actions = ale, []

    def act(self, action):
        self.actions.append(action)
        return self._ale.act(action)

    def __getattr__(self, name):
        return getattr(self._ale, name)


@pytest.mark.parametrize("noops", [0, 1])
@pytest.mark.parametrize("game", ["Breakout", "Pong", "SpaceInvaders", "MsPacman", "Qbert", "Seaquest", "Freeway"])
def test_equals_gymnasium_frame_by_frame(game, noops):
    ours, theirs = deterministic(game, noops=noops), gymnasium_game(game, noops)
    observation, expected = ours.reset(seed=0)[0], theirs.reset(seed=0)[0]
    rng = np.random.default_rng(1)
    images, total_reward = set(), 0.0
    for _ in range(150):
        np.testing.assert_array_equal(observation, expected)
        images.add(observation.tobytes())
        action = int(rng.integers(18))
        observation, reward, terminated, truncated, info = ours.step(action)
        expected, *ends, their_info = theirs.step(action)
        assert (reward, terminated, truncated) == tuple(ends)
        assert info["lives"] == their_info["lives"]
        total_reward += reward
        if terminated:  # Gymnasium shows the previous frame here
            break
    assert len(images) > 50
    assert total_reward != 0 or game in ("Freeway", "Seaquest")


def test_the_last_two_frames_are_kept_for_pooling():
    """Space Invaders draws its shots in every other frame, so its frames differ."""
    game = deterministic("SpaceInvaders", repeat=2)
    game.reset(seed=0)
    differed = False
    for action in [FIRE] * 30:
        game.step(action)
        newest, before = game._screens
        differed = differed or not np.array_equal(newest, before)
        np.testing.assert_array_equal(newest, game._ale.getScreenGrayscale())
    assert differed
    single = deterministic("SpaceInvaders", repeat=1)
    single.reset(seed=0)
    single.step(FIRE)
    assert not single._screens[1].any()


def test_lost_lives_end_the_return_but_not_the_episode():
    vector = make_env("Breakout", ["sticky=0", "noops=0"])
    env = deterministic()
    first, lives = env.reset(seed=0)[0], [5]
    np.testing.assert_array_equal(vector.reset(0)[0], first)
    actor = Actor(jnp.arange(18)[:, None], jnp.ones(18, jnp.int32), 0.99, 1, 1, True, (True,) * 18)
    decide, advance = jax.jit(actor.decide), jax.jit(actor.advance)
    state, terminals, rounds = actor.init(jnp.asarray(first[None])), [], 0
    while True:
        values = jax.nn.one_hot(jnp.array([FIRE]), 18)
        state, primitives = decide(state, values, 0.0, jnp.asarray(rounds), jax.random.PRNGKey(0))
        step = vector.step(np.asarray(primitives))
        state, windows, episodes = advance(state, step)
        assert bool(windows.closed[0, 0])
        terminals.append(float(windows.discount[0, 0]) == 0.0)
        info = env.step(FIRE)[-1]
        assert bool(step.life_lost[0]) == (info["lives"] < lives[-1] and not step.terminated[0])
        assert terminals[-1] == (info["lives"] < lives[-1])
        if info["lives"] != lives[-1]:
            lives.append(info["lives"])
        assert vector.snapshot()["episode"] == [0]
        rounds += 1
        if step.terminated[0]:
            break
    assert lives == [5, 4, 3, 2, 1, 0]
    assert sum(terminals) == 5
    assert bool(episodes.ended[0])
    assert int(episodes.steps[0]) == rounds
    after = vector.step(np.array([FIRE]))
    np.testing.assert_array_equal(after.observation[0], first)
    assert vector.snapshot()["episode"] == [1]


def test_life_loss_can_be_switched_off():
    _, _, steps = play(make_env("Breakout", ["life_loss=false"]), 200)
    _, _, with_lives = play(make_env("Breakout"), 200)
    np.testing.assert_array_equal(steps.observation, with_lives.observation)
    assert with_lives.life_lost.any()
    assert not steps.life_lost.any()


def test_frames_per_step_and_limit_match_the_emulators_frame_count():
    for repeat, limit in ((4, 40), (3, 40), (1, 10)):
        vector = make_env("Pong", [f"repeat={repeat}", f"max_frames={limit}"])
        assert (vector.info.frames_per_step, vector.info.max_episode_steps) == (repeat, -(-limit // repeat))
        game = deterministic("Pong", repeat=repeat)
        game.reset(seed=0)
        begin = game._ale.getEpisodeFrameNumber()
        for _ in range(7):
            game.step(2)
        assert game._ale.getEpisodeFrameNumber() - begin == 7 * repeat
        _, _, steps = play(vector, 2 * vector.info.max_episode_steps + 1)
        assert np.flatnonzero(steps.truncated)[0] == vector.info.max_episode_steps - 1
        assert not steps.terminated.any()


def test_a_truncated_episode_has_its_real_final_observation():
    game, limited = deterministic("Pong"), deterministic("Pong", max_frames=40)
    game.reset(seed=0)
    limited.reset(seed=0)
    for t in range(10):
        expected, *_ = game.step(t)
        observation, _, terminated, truncated, _ = limited.step(t)
        np.testing.assert_array_equal(observation, expected)
        assert (terminated, truncated) == (False, t == 9)


def test_a_termination_in_the_last_allowed_step_is_no_truncation():
    game = deterministic()
    game.reset(seed=0)
    length = 1
    while not game.step(FIRE)[2]:
        length += 1
    for limit, expected in ((length, (True, False)), (length - 1, (False, True))):
        game = deterministic(max_frames=4 * limit)
        game.reset(seed=0)
        for _ in range(limit):
            _, _, *ends, _ = game.step(FIRE)
        assert tuple(ends) == expected


def test_an_episode_starts_with_1_to_30_noops():
    without, game = deterministic(), deterministic(noops=30)
    without.reset(seed=0)
    begin = without._ale.getEpisodeFrameNumber()
    counts = []
    for seed in range(100):
        game.reset(seed=seed)
        counts.append(game._ale.getEpisodeFrameNumber() - begin)
    assert (min(counts), max(counts)) == (1, 30)
    assert np.mean(counts) == pytest.approx(15.5, abs=2.0)


def test_actions_stick_frame_by_frame():
    game = atari.AtariGame("Pong", atari.AtariSettings(sticky=0.25, noops=0))
    game.reset(seed=3)
    game._ale = RecordingEmulator(game._ale)
    chosen = np.arange(3000) % 2 + 2
    for action in chosen:
        game.step(int(action))
    repeated = np.reshape(game._ale.actions, (-1, 4)) != chosen[:, None]
    # A new action starts at each frame with probability 0.75 and then stays.
    np.testing.assert_allclose(repeated.mean(axis=0), 0.25 ** np.arange(1, 5), atol=0.025)
    assert not (~repeated[:, :-1] & repeated[:, 1:]).any()
    without = deterministic("Pong")
    without.reset(seed=3)
    without._ale = RecordingEmulator(without._ale)
    for action in chosen[:20]:
        without.step(int(action))
    np.testing.assert_array_equal(np.reshape(without._ale.actions, (-1, 4)), np.tile(chosen[:20, None], 4))


@pytest.mark.parametrize("game", ["Breakout", "Qbert", "KungFuMaster", "Solaris"])
def test_resumed_equals_uninterrupted(game, tmp_path):
    """Also if the emulator's saved state is incomplete (Qbert), or its reset leaves traces of the last episode."""
    options = ["max_frames=160"]
    vector = make_env(game, options, 2)
    rng = np.random.default_rng(0)
    actions = rng.integers(18, size=(140, 2))
    vector.reset(5)
    stack(vector, actions[:70])
    np.savez(tmp_path / "snapshot.npz", **vector.snapshot())
    uninterrupted = stack(vector, actions[70:])
    assert uninterrupted.truncated.any()
    resumed = make_env(game, options, 2)
    with np.load(tmp_path / "snapshot.npz") as snapshot:
        assert snapshot["lengths"].min() > 5
        resumed.restore(5, snapshot)
    assert_equal(stack(resumed, actions[70:]), uninterrupted)


MACROS = ActionSet(18, [tuple(range(n, 2 * n)) for n in range(1, 9)], ALE_ACTIONS)


def test_macros_of_every_length_play_their_actions():
    env = MacroActionEnv(atari.AtariGame("Breakout"), MACROS)
    game = env.unwrapped
    env.reset(seed=1)
    reference = atari.AtariGame("Breakout")
    reference.reset(seed=1)
    game._ale, reference._ale = RecordingEmulator(game._ale), RecordingEmulator(reference._ale)
    for action in range(18, 26):
        observation, reward, *_, info = env.step(action)
        expected, discounted = None, 0.0
        for i, primitive in enumerate(MACROS.sequences()[action]):
            expected, step_reward, *_ = reference.step(primitive)
            discounted += 0.99**i * step_reward
        np.testing.assert_array_equal(observation, expected)
        assert reward == pytest.approx(discounted)
        assert info["steps"] == len(MACROS.sequences()[action]) == action - 17
    assert game._ale.actions == reference._ale.actions


def test_macros_in_a_vector_play_their_actions():
    vector = make_env("Breakout", ["max_frames=120"], 2)
    actor = Actor(jnp.asarray(MACROS.table), jnp.asarray(MACROS.lengths), 0.99, 1, 1, False, (True,) * len(MACROS))
    decide, advance = jax.jit(actor.decide), jax.jit(actor.advance)
    observation = vector.reset(2)
    state = actor.init(jnp.asarray(observation))
    games = [atari.AtariGame("Breakout", atari.AtariSettings(max_frames=120)) for _ in range(2)]
    # Each environment plays the macros in turn; the queues hold the primitives that it must play next.
    queues, episode = [[], []], [0, 0]
    turn = [18, 22]
    for i in range(2):
        np.testing.assert_array_equal(games[i].reset(seed=episode_seed(2, i, 0))[0], observation[i])
    resetting = [False, False]
    for tick in range(90):
        values = jax.nn.one_hot(jnp.array(turn), len(MACROS))
        state, primitives = decide(state, values, 0.0, jnp.asarray(tick), jax.random.PRNGKey(tick))
        step = vector.step(np.asarray(primitives))
        state, *_ = advance(state, step)
        for i in range(2):
            if resetting[i]:
                episode[i] += 1
                expected, _ = games[i].reset(seed=episode_seed(2, i, episode[i]))
                resetting[i] = False
            else:
                if not queues[i]:
                    queues[i] = list(MACROS.sequences()[turn[i]])
                    turn[i] = 18 + (turn[i] - 17) % 8
                expected, _, terminated, truncated, info = games[i].step(queues[i].pop(0))
                resetting[i] = terminated or truncated
                if terminated or truncated or info["life_lost"]:
                    queues[i] = []  # the end of the episode or of a life cuts a macro short
            np.testing.assert_array_equal(step.observation[i], expected)
    assert min(episode) >= 2


def test_long_and_short_names_are_the_same_game():
    first, _, steps = play(make_env("Breakout"), 12)
    long = make_env("ALE/Breakout-v5")
    assert long.info.env_id == "Breakout"
    again, _, same = play(long, 12)
    np.testing.assert_array_equal(first, again)
    assert_equal(steps, same)


def test_description():
    info = make_env("MsPacman").info
    assert (info.env_id, info.observation_shape, info.observation_kind) == ("MsPacman", (84, 84, 1), "image")
    assert (info.frames_per_step, info.max_episode_steps, info.success_above) == (4, 27_000, None)
    assert info.actions.primitive_names == ALE_ACTIONS
    # The default macros: each action except NOOP, twice and four times.
    assert len(info.actions.macros) == 34
    assert {len(set(sequence)) for sequence in info.actions.sequences()} == {1}
    small = make_env("Pong", ["full_actions=false", "size=42"]).info
    assert small.actions.primitive_names == ("NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE")
    assert small.observation_shape == (42, 42, 1)


def test_minimal_actions_are_the_named_ones():
    minimal, full = deterministic("Pong", full_actions=False), deterministic("Pong")
    minimal.reset(seed=0)
    full.reset(seed=0)
    for i, name in enumerate(minimal.get_action_meanings()):
        for _ in range(4):
            one, other = minimal.step(i)[0], full.step(ALE_ACTIONS.index(name))[0]
        np.testing.assert_array_equal(one, other)


def test_render_returns_the_screen_in_colour():
    game = deterministic()
    game.reset(seed=0)
    assert game.render().shape == (210, 160, 3)


@pytest.mark.parametrize(
    ("env_id", "options", "message"),
    [
        ("ALE/Brakeout-v5", (), "ale-py has no game 'Brakeout' for one player; names are written like Breakout"),
        ("ALE/Combat-v5", (), "no game 'Combat' for one player"),
        ("breakout", (), "did you mean Breakout"),
        ("Breakout", ["sticky=1.0"], "option sticky must be at least 0 and below 1, got 1.0"),
        ("Breakout", ["noops=-1"], "option noops must be at least 0, got -1"),
        ("Breakout", ["repeat=0"], "option repeat must be at least 1, got 0"),
        ("Breakout", ["size=20"], "option size must be at least 36, got 20"),
        ("Breakout", ["repeat=2.5"], "Breakout: option repeat must be of type int, got 2.5"),
        ("Breakout", ["full_actions=1"], "Breakout: option full_actions must be of type bool, got 1"),
        ("Breakout", ["frameskip=4"], "Breakout has no option 'frameskip'; it has sticky, noops, repeat"),
        ("Breakout", ["backend=stella"], "Breakout: backend must be ale or envpool, got 'stella'"),
    ],
)
def test_invalid_games_and_options_are_named(env_id, options, message):
    with pytest.raises(UserError, match=message):
        make_env(env_id, options)


@pytest.mark.parametrize("missing", ["ale_py", "cv2"])
def test_a_missing_package_is_named_with_its_extra(missing, monkeypatch, capsys):
    from importlib import util

    from masp.cli.main import main

    find = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name, *rest: None if name == missing else find(name, *rest))
    assert main(["train", "Breakout", "--frames", "100"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.endswith(f"Breakout needs the package {missing}: pip install 'masp-rl[atari]'")


def test_an_action_that_the_game_does_not_have_is_noop():
    """Skiing has no button: the emulator has 9 actions, the environment 18."""
    with_button, noop = deterministic("Skiing"), deterministic("Skiing")
    assert with_button.action_space.n == 18
    with_button.reset(seed=0)
    noop.reset(seed=0)
    for _ in range(60):
        np.testing.assert_array_equal(with_button.step(FIRE)[0], noop.step(0)[0])
    for _ in range(20):
        turned, straight = with_button.step(ALE_ACTIONS.index("RIGHT"))[0], noop.step(0)[0]
    assert not np.array_equal(turned, straight)
