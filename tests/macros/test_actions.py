"""The action set, its file, and the errors about invalid ones."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from masp.errors import UserError
from masp.macros.actions import ALE_ACTIONS, ActionSet, Macro, default_macros, noop_action, spell

ENTRY = {"format": "masp-macros", "version": 1, "num_primitives": 3, "macros": [{"actions": [0, 2]}]}

macros = st.builds(
    Macro,
    actions=st.lists(st.integers(0, 4), min_size=1, max_size=6).map(tuple),
    name=st.text(max_size=8),
    count=st.none() | st.integers(0, 10**9),
)


def test_primitives_come_first():
    actions = ActionSet(3, [(0, 2, 1), (1,)])
    assert len(actions) == 5
    assert actions.sequences() == [(0,), (1,), (2,), (0, 2, 1), (1,)]
    assert actions.sequence(3) == (0, 2, 1)
    assert actions.lengths.tolist() == [1, 1, 1, 3, 1]
    assert actions.table.tolist() == [[0, 0, 0], [1, 1, 1], [2, 2, 2], [0, 2, 1], [1, 1, 1]]
    assert actions.lengths.dtype == actions.table.dtype == np.int32
    assert actions.without_macros() == ActionSet(3)


def test_names():
    assert ActionSet(2, [(0, 1), Macro((1, 1), "jump")]).names == ["0", "1", "0-1", "jump"]
    assert ActionSet(2, [(0, 1)], ["left", "right"]).names == ["left", "right", "left-right"]


def test_numpy_integers_become_python_integers():
    actions = ActionSet(np.int64(3), [np.array([0, 2])])
    assert actions == ActionSet(3, [(0, 2)])
    json.dumps(actions.to_json())


@pytest.mark.parametrize("action", [-1, 5])
def test_sequence_of_a_missing_action(action):
    with pytest.raises(IndexError, match=r"action -?\d is not in 0\.\.4"):
        ActionSet(3, [(0,), (1,)]).sequence(action)


@given(st.lists(macros, max_size=5), st.booleans(), st.text(max_size=12))
def test_json_round_trip(macros, named, env_id):
    actions = ActionSet(5, macros, ["a", "b", "c", "d", "é"] if named else (), env_id)
    assert ActionSet.from_json(json.loads(json.dumps(actions.to_json()))) == actions


def test_file_round_trip(tmp_path):
    path = tmp_path / "macros.json"
    actions = ActionSet(3, [Macro((0, 2), "dash", 7), (1, 1)], ["left", "right", "up"], "Game-v0")
    path.write_text("something old")
    actions.save(path)
    assert ActionSet.load(path) == actions
    assert [p.name for p in tmp_path.iterdir()] == ["macros.json"]
    written = json.loads(path.read_text())
    assert written["format"] == "masp-macros" and written["version"] == 1
    assert written["num_primitives"] == 3 and written["env_id"] == "Game-v0"
    assert written["macros"] == [{"actions": [0, 2], "name": "dash", "count": 7}, {"actions": [1, 1]}]


def test_optional_fields_may_be_missing():
    assert ActionSet.from_json(ENTRY) == ActionSet(3, [(0, 2)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "num_primitives must be a positive integer, got 0"),
        ((2.5,), "num_primitives must be a positive integer, got 2.5"),
        ((None,), "num_primitives must be a positive integer, got None"),
        ((3, [(0,), ()]), "macro 1 is empty"),
        ((3, [(0, 3)]), r"macro 0 uses action 3, but the primitives are 0\.\.2"),
        ((3, [(0, -1)]), "macro 0 uses action -1"),
        ((3, [(0, 1.5)]), "macro 0 holds 1.5; actions are integers"),
        ((3, [("0",)]), "macro 0 holds '0'; actions are integers"),
        ((3, [(True,)]), "macro 0 holds True; actions are integers"),
        ((3, [], ["a", "b"]), "2 primitive names for 3 primitives"),
    ],
)
def test_invalid_action_sets(arguments, message):
    with pytest.raises(UserError, match=message):
        ActionSet(*arguments)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([1, 2], "here: expected a JSON object, got list"),
        ({}, "here: not a macro file: 'format' is None, expected 'masp-macros'"),
        (ENTRY | {"format": "other"}, "'format' is 'other'"),
        (ENTRY | {"version": 2}, "here: version 2 is not supported, expected 1"),
        (ENTRY | {"macros": None}, "here: 'macros' must be a list"),
        (ENTRY | {"macros": [[0, 1]]}, "here: macro 0 must be an object with a list 'actions'"),
        (ENTRY | {"macros": [{"actions": "01"}]}, "here: macro 0 must be an object with a list 'actions'"),
        (
            ENTRY | {"macros": [{"actions": [0], "count": "many"}]},
            "here: macro 0: 'count' must be an integer, got 'many'",
        ),
        (ENTRY | {"macros": [{"actions": [0, 7]}]}, "here: macro 0 uses action 7"),
        (ENTRY | {"macros": [{"actions": []}]}, "here: macro 0 is empty"),
        (ENTRY | {"num_primitives": "3"}, "here: num_primitives must be a positive integer, got '3'"),
        (ENTRY | {"primitive_names": "abc"}, "here: 'primitive_names' must be a list of strings"),
        (ENTRY | {"primitive_names": [1, 2, 3]}, "here: 'primitive_names' must be a list of strings"),
        (ENTRY | {"primitive_names": ["a"]}, "here: 1 primitive names for 3 primitives"),
    ],
)
def test_invalid_macro_files(data, message):
    with pytest.raises(UserError) as caught:
        ActionSet.from_json(data, "here")
    assert message in str(caught.value)


def test_true_is_not_a_number_of_primitives():
    """JSON's `true` is an integer to Python."""
    with pytest.raises(UserError, match="num_primitives must be a positive integer, got True"):
        ActionSet.from_json(ENTRY | {"num_primitives": True, "macros": []})


def test_error_about_broken_json_names_the_position(tmp_path):
    path = tmp_path / "macros.json"
    path.write_text('{"format": "masp-macros",\n "macros": [}')
    with pytest.raises(UserError, match=r"macros\.json: broken JSON at line 2, column 13"):
        ActionSet.load(path)


def test_unreadable_files(tmp_path):
    with pytest.raises(UserError, match=r"none\.json: no such macro file; 'masp mine' writes one"):
        ActionSet.load(tmp_path / "none.json")
    with pytest.raises(UserError, match="cannot be read as a macro file"):
        ActionSet.load(tmp_path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="cannot be read as a macro file"):
        ActionSet.load(tmp_path / "bytes")


def test_macros_must_fit_the_environment():
    actions = ActionSet(6, [(0,), (1, 5)])
    actions.require_primitives(6, "Game-v0")
    with pytest.raises(UserError, match=r"macro 1 uses action 5, but Game-v0 has actions 0\.\.3"):
        actions.require_primitives(4, "Game-v0")
    with pytest.raises(UserError, match="made for 6 primitive actions, but Game-v0 has 18"):
        actions.require_primitives(18, "Game-v0")


def test_default_macros():
    actions = default_macros(3, ("NOOP", "LEFT", "RIGHT"), "Tiny-v0")
    assert [macro.actions for macro in actions.macros] == [(1, 1), (2, 2), (1,) * 4, (2,) * 4]
    assert [macro.name for macro in actions.macros] == ["LEFTx2", "RIGHTx2", "LEFTx4", "RIGHTx4"]
    assert len(default_macros(7).macros) == 14
    with pytest.raises(UserError, match="at least twice"):
        default_macros(3, lengths=(1,))


def test_names_of_primitives_and_sequences():
    assert len(ALE_ACTIONS) == 18
    assert (ALE_ACTIONS[0], ALE_ACTIONS[17]) == ("NOOP", "DOWNLEFTFIRE")
    assert noop_action(("left", "noop")) == 1
    assert noop_action(("left",)) is None
    assert spell((3, 3, 0, 3), ALE_ACTIONS) == "RIGHT×2 NOOP RIGHT"
    assert spell((3, 3), ()) == "3×2"
