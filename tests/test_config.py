"""Configuration: what is refused, and what survives being written down."""

import dataclasses
import json
import math

import pytest

from masp.config import (
    SECTIONS,
    AgentConfig,
    SimilarityConfig,
    TrainConfig,
    field_sections,
    field_types,
    from_flat,
    replace,
    to_flat,
)
from masp.errors import UserError

CONFIG = TrainConfig(env="planted-grid")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", 0.0),
        ("learning_rate", -1e-3),
        ("learning_rate", math.nan),
        ("adam_eps", 0.0),
        ("max_gradient_norm", -1.0),
        ("batch_size", 0),
        ("gamma", 1.01),
        ("gamma", -0.1),
        ("n_step", 0),
        ("num_atoms", 0),
        ("priority_exponent", 1.5),
        ("epsilon_decay_steps", 0),
        ("target_period_steps", 0),
        ("replay_steps", 0),
        ("min_replay_steps", -1),
        ("steps_per_update", 0),
        ("hidden", 0),
        ("stack", 0),
        ("penalty_weight", -0.1),
        ("penalty_form", "column"),
        ("meta_learning_rate", -0.1),
        ("meta_optimiser", "rmsprop"),
        ("held_out", "previous"),
        ("meta_period_updates", 0),
        ("trace_length", 0),
        ("embedding", -1),
        ("variant", "dqn"),
        ("frames", 0),
        ("seed", -1),
        ("seed", 2**30),
        ("num_envs", 0),
        ("log_every_frames", 0),
        ("eval_every_frames", -1),
        ("eval_episodes", 0),
        ("eval_epsilon", 2.0),
        ("batch_size", "many"),
    ],
)
def test_values_out_of_range_are_refused_by_name(name, value):
    with pytest.raises(UserError, match=f"^{name} must be ") as caught:
        replace(CONFIG, **{name: value})
    assert str(value) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_gradient_norm", 0.0),
        ("gamma", 1.0),
        ("gamma", 0.0),
        ("penalty_weight", 0.0),
        ("embedding", 0),
        ("n_step", 1),
    ],
)
def test_edges_are_allowed(name, value):
    assert to_flat(replace(CONFIG, **{name: value}))[name] == value


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("importance", (-0.1, 1.0), "two numbers between 0 and 1, got -0.1 and 1.0"),
        ("importance", (0.4, 1.1), "two numbers between 0 and 1, got 0.4 and 1.1"),
        ("epsilon", (1.1, 0.0), "two numbers between 0 and 1, got 1.1 and 0.0"),
        ("epsilon", 0.5, "two numbers, got 0.5"),
        ("epsilon", (1.0,), r"two numbers, got \(1.0,\)"),
        ("value_range", (0.0, math.inf), "two numbers, got"),
        ("value_range", (1.0, 1.0), "a lower and a higher number, got 1 and 1"),
    ],
)
def test_pairs_out_of_range_are_refused_by_name(name, value, message):
    with pytest.raises(UserError, match=f"^{name} must be {message}"):
        replace(CONFIG, **{name: value})


def test_scalar_values_need_no_support():
    AgentConfig(value_range=(1.0, 1.0), num_atoms=1)


def test_similarity_starts_by_name_or_from_a_bundle():
    assert SimilarityConfig(similarity_start="overlap").bundle == ""
    assert SimilarityConfig(similarity_start="run/similarity.safetensors").bundle == "run/similarity.safetensors"
    with pytest.raises(UserError, match=r"^similarity_start must be one of constant, overlap, random, identity, or"):
        SimilarityConfig(similarity_start="")


def test_replace_finds_the_section():
    changed = replace(CONFIG, seed=3, gamma=0.5, penalty_weight=0.75)
    assert (changed.seed, changed.agent.gamma, changed.similarity.penalty_weight) == (3, 0.5, 0.75)
    back = replace(changed, seed=0, gamma=0.99, penalty_weight=0.1)
    assert back == CONFIG
    assert CONFIG.agent.gamma == 0.99  # the original stays


@pytest.mark.parametrize("name", ["gama", "agent", "similarity"])
def test_replace_refuses_unknown_names(name):
    with pytest.raises(UserError, match=f"there is no setting '{name}'"):
        replace(CONFIG, **{name: 1})


def test_names_are_unique_over_sections():
    names = [f.name for kind in (TrainConfig, *SECTIONS.values()) for f in dataclasses.fields(kind)]
    assert len(names) == len(set(names))
    assert field_sections().keys() == field_types().keys() == set(names) - set(SECTIONS)


def different(name, value, kind):
    """Another allowed value of a field."""
    choices = {"variant": "rainbow", "penalty_form": "literal", "similarity_start": "overlap"}
    choices |= {
        "meta_optimiser": "sgd",
        "held_out": "separate",
        "similarity_form": "matrix",
        "env_options": ("size=5",),
        "value_range": [-1.0, 20.0],
        "importance": [0.2, 0.3],
        "epsilon": [0.5, 0.25],
        "macros_for": "exploring",
    }
    if name in choices:
        return choices[name]
    if kind is bool:
        return not value
    if kind is int:
        return value + 1
    return value / 2 + 0.125 if kind is float else f"{value}x"


@pytest.mark.parametrize("name", sorted(field_types()))
def test_every_field_survives_json(name):
    value = different(name, to_flat(CONFIG)[name], field_types()[name])
    changed = replace(CONFIG, **{name: value})
    assert to_flat(changed)[name] != to_flat(CONFIG)[name]
    assert from_flat(json.loads(json.dumps(to_flat(changed)))) == changed


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"env": "x", "gama": 1}, "run.json: there is no setting 'gama'; did you mean gamma?"),
        ({"seed": 1}, "run.json: 'env' is missing"),
        ({"env": "x", "seed": "1"}, "run.json: seed cannot be '1'"),
        ({"env": "x", "seed": 1.5}, "run.json: seed cannot be 1.5"),
        ({"env": "x", "seed": True}, "run.json: seed cannot be True"),
        ({"env": "x", "double": 1}, "run.json: double cannot be 1"),
        ({"env": "x", "gamma": "high"}, "run.json: gamma cannot be 'high'"),
        ({"env": "x", "variant": "dqn"}, "run.json: variant cannot be 'dqn'"),
        ({"env": "x", "env_options": "size=5"}, "run.json: env_options cannot be 'size=5'"),
        ({"env": None}, "run.json: env cannot be None"),
    ],
)
def test_files_are_checked(values, message):
    with pytest.raises(UserError) as caught:
        from_flat(values, "run.json")
    assert str(caught.value) == message


def test_whole_numbers_serve_as_floats():
    config = from_flat({"env": "x", "gamma": 1})
    assert config.agent.gamma == 1.0 and isinstance(config.agent.gamma, float)


def test_whole_floats_serve_as_whole_numbers():
    """1e5 is how one writes it in Python; a run directory must be readable afterwards."""
    config = TrainConfig(env="x", frames=1e5)
    assert config.frames == 100_000 and isinstance(config.frames, int)
    assert from_flat(to_flat(config)) == config


def test_target_period_in_updates():
    assert AgentConfig(target_period_steps=100, steps_per_update=4).target_period_updates == 25
    assert AgentConfig(target_period_steps=3, steps_per_update=4).target_period_updates == 1


@pytest.mark.parametrize("variant", ["rainbow", "macros"])
def test_other_variants_have_no_penalty(variant):
    config = replace(CONFIG, variant=variant, seed=5).resolved()
    assert not config.penalised and config.similarity.frozen and config.similarity.embedding == 0
    assert config.seed == 5 and config.agent == CONFIG.agent
    assert CONFIG.resolved() == CONFIG


def test_what_a_variant_has_no_use_for_is_as_in_the_paper():
    """Otherwise the same run would have two configurations."""
    wanted = {"intra_option": True, "macros_for": "exploring"}
    config = replace(CONFIG, **wanted)
    agents = {variant: replace(config, variant=variant).resolved().agent for variant in ("rainbow", "macros", "masp")}
    assert agents["rainbow"] == CONFIG.agent
    assert agents["macros"] == config.agent
    assert agents["masp"] == config.agent


def test_the_variant_says_whether_there_is_a_penalty():
    assert CONFIG.penalised and not CONFIG.similarity.frozen
    assert replace(CONFIG, variant="outcomes", n_step=1).penalised
    assert not replace(CONFIG, penalty_weight=0.0).penalised
    assert replace(CONFIG, meta_learning_rate=0.0).similarity.frozen


def test_the_papers_numbers_are_the_defaults():
    """Appendix: learning rate, batch, discount, n-step, atoms, support, exponents, exploration, target and replay."""
    a = AgentConfig()
    assert (a.learning_rate, a.batch_size, a.gamma, a.n_step) == (6.25e-5, 32, 0.99, 3)
    assert (a.num_atoms, a.value_range) == (51, (-10.0, 10.0))
    assert (a.priority_exponent, a.importance) == (0.5, (0.4, 1.0))
    assert (a.epsilon, a.epsilon_decay_steps) == ((1.0, 0.01), 1_000_000)
    assert (a.target_period_steps, a.replay_steps, a.max_gradient_norm, a.stack) == (10_000, 1_000_000, 10.0, 1)
