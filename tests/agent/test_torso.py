"""A torso of the user's own: as text, as an object, and one that has the wrong output."""

from __future__ import annotations

import flax.linen as nn
import pytest

from masp import UserError
from masp.agent.torso import make_torso, torso_text
from own_parts import Unflattened, Wide


def test_an_object_is_kept_as_its_class_with_its_fields():
    text = torso_text(Wide(16, more=(4, 2)))
    assert text == 'own_parts:Wide {"more": [4, 2], "width": 16}'
    assert make_torso(text) == Wide(16, more=(4, 2))
    assert make_torso(text) is make_torso(text)
    assert torso_text(Unflattened()) == "own_parts:Unflattened"


def test_text_stays_and_means_the_class_with_its_defaults():
    assert torso_text("own_parts:Wide") == "own_parts:Wide"
    assert make_torso("own_parts:Wide") == Wide()
    assert torso_text(None) == torso_text("") == ""
    assert make_torso("") is None


def test_a_torso_that_cannot_be_imported_is_used_with_a_warning():
    class Local(nn.Module):
        pass

    torso = Local()
    with pytest.warns(UserWarning, match=r"the torso Local cannot be imported again.*load_agent\(path, torso="):
        text = torso_text(torso)
    assert make_torso(text) is torso


def test_local_torsos_with_other_fields_have_other_names():
    class Local(nn.Module):
        width: int = 1

    with pytest.warns(UserWarning, match="cannot be imported again"):
        texts = [torso_text(Local(width)) for width in (2, 3)]
    assert texts == ['local:Local {"width": 2}', 'local:Local {"width": 3}']
    assert [make_torso(text).width for text in texts] == [2, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Wide", "'Wide': expected module:name"),
        ("own_parts:Absent", "own_parts:Absent: the module own_parts has no Absent"),
        ("no_such_module:Wide", "the module before the colon cannot be imported"),
        ("own_parts:make_corridor", "expected the class of a Flax module"),
        ('own_parts:Wide {"depth": 3}', "it cannot be made: TypeError"),
        ("own_parts:Wide {width", "it cannot be made: JSONDecodeError"),
        ("local:Elsewhere", "a torso Elsewhere that only the process that trained it had"),
    ],
)
def test_mistakes_get_one_line(text, message):
    with pytest.raises(UserError) as caught:
        make_torso(text)
    assert message in str(caught.value) and "\n" not in str(caught.value)
