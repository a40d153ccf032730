"""All combos of both sets, as the console reads them from the pad, with the opponent on either side."""

import dataclasses
from functools import partial

import pytest

pytest.importorskip("stable_retro")

from pad_cartridge import frames_logged, insert_cartridge, read_log

from masp.environments.retro import RetroGame, Setting
from masp.environments.retro_games import find_game, find_states
from masp.environments.street_fighter import GAME, REPEAT, VIEW, Rounds
from masp.environments.street_fighter_moves import ADDRESSES, COMPLEX, MOVES, SETS, SIMPLE, Pad, combo_actions
from masp.errors import UserError

KEYS = {"LP": "X", "MP": "Y", "HP": "Z", "LK": "A", "MK": "B", "HK": "C"}
LONGEST_PAUSE = 8
"""Frames that the arcade game allows between the parts of a motion; it draws this number from 8 to 15."""


@pytest.fixture(scope="module")
def game(tmp_path_factory):
    """The emulator with the replacement cartridge; `begin` starts an episode with the opponent on one side."""
    integrations = insert_cartridge(tmp_path_factory.mktemp("integrations"))
    title = find_game(GAME, integrations)
    states = find_states(title, "*")
    assert [state.stem for state in states] == ["Champion.Level1.RyuVsGuile", "Swapped.Level1.RyuVsGuile"]
    setting = Setting(title, states[:1], VIEW, REPEAT, 0, 18_000, ADDRESSES)
    env = RetroGame(setting, Pad(), Rounds())
    env.begin = {"right": partial(begin, env, states[0]), "left": partial(begin, env, states[1])}
    yield env
    env.close()


def begin(env, state):
    """Start an episode in `state`; the number of frames logged so far."""
    env._setting = dataclasses.replace(env._setting, states=[state])
    env.reset(seed=0)
    return frames_logged(env.retro)


def naive_frames(combo, opponent):
    """The buttons of each frame, from the positions of the digits on a number pad; two frames per move."""
    frames, stick = [], "5"
    for move in combo.split():
        stick = move if move.isdigit() else stick
        column, row = (int(stick) - 1) % 3 - 1, (int(stick) - 1) // 3 - 1
        column = column if opponent == "right" else -column
        held = {-1: {"LEFT"}, 0: set(), 1: {"RIGHT"}}[column] | {-1: {"DOWN"}, 0: set(), 1: {"UP"}}[row]
        frames += [frozenset(held | ({KEYS[move]} if move in KEYS else set()))] * 2
    return frames


@pytest.mark.parametrize("opponent", ["right", "left"])
@pytest.mark.parametrize("which", ["I", "II"])
def test_the_console_reads_every_combo(game, which, opponent):
    actions = combo_actions(which, GAME)
    for index, (name, combo) in enumerate(SETS[which].items()):
        start = game.begin[opponent]()
        for move in actions.sequence(len(MOVES) + index):
            game.step(move)
        assert read_log(game.retro, start) == naive_frames(combo, opponent), name


@pytest.mark.parametrize("opponent", ["right", "left"])
def test_three_special_moves_button_by_button(game, opponent):
    forward, back = ("RIGHT", "LEFT") if opponent == "right" else ("LEFT", "RIGHT")
    special_moves = {
        "hadouken-hp": [{"DOWN"}, {"DOWN", forward}, {forward}, {forward, "Z"}],
        "shoryuken-hp": [{forward}, {"DOWN"}, {"DOWN", forward}, {"DOWN", forward, "Z"}],
        "tatsumaki-hk": [{"DOWN"}, {"DOWN", back}, {back}, {back, "C"}],
    }
    actions = combo_actions("II", GAME)
    for name, steps in special_moves.items():
        start = game.begin[opponent]()
        for move in actions.sequence(actions.names.index(name)):
            game.step(move)
        assert read_log(game.retro, start) == [held for held in steps for _ in range(2)]


def test_a_motion_follows_the_side_of_the_opponent(game):
    """Forward is towards the opponent in each step, which is how the game reads it."""
    start = game.begin["right"]()
    down, down_forward, forward, punch = (MOVES.index(move) for move in ("2", "3", "6", "HP"))
    game.step(down)
    game.step(down_forward)
    game.retro.data.set_value("x", 400)  # the fighter has jumped over; the next step still has the old variables
    game.step(down_forward)
    game.step(forward)
    game.step(punch)
    steps = [{"DOWN"}, {"DOWN", "RIGHT"}, {"DOWN", "RIGHT"}, {"LEFT"}, {"LEFT", "Z"}]
    assert read_log(game.retro, start) == [held for held in steps for _ in range(2)]
    game.retro.data.set_value("x", 307)  # at the position of the opponent, the side does not change
    game.step(forward)
    game.step(forward)
    assert read_log(game.retro, start)[-4:] == [{"LEFT"}] * 4


def recognised(frames, motion, keys):
    """Whether the arcade game recognises `frames` as a special move.

    This follows public reconstructions of World Warrior: the positions of the stick follow each other within a few
    frames, with anything in between; a button is pressed with the last of them or a few frames later.

    Args:
      frames: (position of the stick, buttons) of every frame, forward being 6.
    """
    stage, frames_left, before = 0, 0, set()
    for stick, held in frames:
        pressed, before = held - before, held
        frames_left -= 1
        if stage and frames_left == 0:
            stage = 0
        if stage < len(motion) and stick == motion[stage]:
            stage, frames_left = stage + 1, LONGEST_PAUSE
        if stage == len(motion) and pressed & keys:
            return True
    return False


def relative(combo):
    """The frames of a combo as (position of the stick, buttons)."""
    frames, stick = [], "5"
    for move in combo.split():
        stick = move if move.isdigit() else stick
        frames += [(stick, {move} if move in KEYS else set())] * 2
    return frames


PUNCHES, KICKS = {"LP", "MP", "HP"}, {"LK", "MK", "HK"}
MOTIONS = {
    "hadouken": ("236", PUNCHES),
    "shoryuken": ("623", PUNCHES),
    "tatsumaki": ("214", KICKS),
    "low-tiger-shot": ("236", KICKS),
    "tiger-knee": ("2369", KICKS),
    "kikoken": ("41236", PUNCHES),
    "yoga-flame": ("41236", PUNCHES),
    "spinning-piledriver": ("6248", PUNCHES),
    "crouch-mk-hadouken": ("236", PUNCHES),
    "crouch-hp-shoryuken": ("623", PUNCHES),
}
CHARGES = {
    "sonic-boom": ("147", "6", PUNCHES),
    "flash-kick": ("123", "8", KICKS),
    "rolling-attack": ("147", "6", PUNCHES),
    "double-knee-press": ("147", "6", KICKS),
    "spinning-bird-kick": ("123", "8", KICKS),
}


def test_the_arcade_game_recognises_the_motions():
    names = [name for name, combo in COMPLEX.items() for start in MOTIONS if name.startswith(start)]
    assert len(names) == 9 + 7
    for name in names:
        motion, keys = next(MOTIONS[start] for start in MOTIONS if name.startswith(start))
        assert recognised(relative(COMPLEX[name]), motion, keys), name
    assert not recognised(relative(COMPLEX["hadouken-hp"]), "623", PUNCHES)
    slow = [frame for frame in relative(COMPLEX["yoga-flame"]) for _ in range(5)]
    assert not recognised(slow, "41236", PUNCHES)  # the motion with an action repeat of ten


@pytest.mark.parametrize("charge_frames", [60, 40])
def test_charged_moves_need_a_charge_before_them(charge_frames):
    """A combo holds the stick for eight frames before the release; a full charge takes a second, which is too long."""
    charged = [name for name in COMPLEX for start in CHARGES if name.startswith(start)]
    assert len(charged) == 6
    for name in charged:
        charging, release, keys = next(CHARGES[start] for start in CHARGES if name.startswith(start))
        frames = [(COMPLEX[name][0], set())] * charge_frames + relative(COMPLEX[name])
        charge = next(i for i, (stick, _) in enumerate(frames) if stick not in charging)
        assert recognised(frames[charge:], release, keys), name
        assert (charge >= 60) == (charge_frames == 60)


def test_rapid_moves_press_their_button_three_times():
    for name, key in (("hundred-hand-slap", "LP"), ("lightning-legs", "LK")):
        held = [key in buttons for _, buttons in relative(COMPLEX[name])]
        assert sum(now and not before for before, now in zip([False, *held], held, strict=False)) == 3


def test_the_sets_have_the_papers_numbers():
    for which, combos in SETS.items():
        actions = combo_actions(which, "street-fighter")
        assert (actions.num_primitives, len(actions.macros)) == (15, 24)
        assert len({macro.actions for macro in actions.macros}) == 24
        assert all(2 <= len(macro.actions) <= 6 for macro in actions.macros)
        assert [macro.name for macro in actions.macros] == list(combos)
    assert not set(SIMPLE.values()) & set(COMPLEX.values())
    with pytest.raises(UserError, match="street-fighter: option combos must be I or II, got '3'"):
        combo_actions("3", "street-fighter")
