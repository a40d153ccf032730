"""What `masp.load_agent` says when it is given something else than a policy."""

from __future__ import annotations

import numpy as np
import pytest

import masp
from masp import UserError
from own_parts import make_corridor


@pytest.fixture(scope="module")
def run(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    return masp.train(make_corridor, **tiny, variant="masp", torso="own_parts:Wide", out=folder)


@pytest.mark.parametrize(
    ("place", "settings", "message"),
    [
        ("absent", {}, "absent: there is no such run directory or policy file"),
        ("checkpoints", {}, "checkpoints: there is no policy; a run writes it at its first evaluation"),
        ("similarity.safetensors", {}, "a bundle of macros and their similarity, in which there is no policy"),
        ("config.json", {}, "config.json: the file cannot be read"),
        (".", {"which": "newest"}, "which must be one of last, best, checkpoint, got 'newest'"),
        (".", {"epsilon": 1.5}, "epsilon must be a number between 0 and 1, got 1.5"),
        (".", {"epsilon": "0.1"}, "epsilon must be a number between 0 and 1, got '0.1'"),
        (".", {"torso": masp.ActionSet}, "torso must be a Flax module, such as Torso(), or 'module:Class', got the cl"),
    ],
)
def test_mistakes_get_one_line(run, place, settings, message):
    with pytest.raises(UserError) as caught:
        masp.load_agent(run.path / place, **settings)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_torso_that_cannot_be_imported_may_be_passed_on(run, tmp_path):
    file = tmp_path / "policy.safetensors"
    file.write_bytes((run.path / "policy.safetensors").read_bytes())
    from own_parts import Wide

    with pytest.MonkeyPatch.context() as patch:
        patch.delattr("own_parts.Wide")
        masp.agent.torso.make_torso.cache_clear()
        for load in (masp.load_agent, masp.load_run):
            with pytest.raises(
                UserError, match=r"^the network has a torso of its own: own_parts:Wide: .* torso=\.\.\.$"
            ):
                load(run.path)
        with pytest.warns(UserWarning, match="the torso Wide cannot be imported again"):
            agent = masp.load_agent(file, torso=Wide())
    masp.agent.torso.make_torso.cache_clear()
    first = np.eye(6, dtype=np.float32)[0]
    np.testing.assert_array_equal(agent.values(first), run.agent.values(first))


def test_a_bundle_fits_a_line(run):
    assert repr(run.bundle) == "Bundle(2 primitives, 4 macros)"
