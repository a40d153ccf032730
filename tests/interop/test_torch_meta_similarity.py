"""masp.torch.MetaSimilarity against real optimiser steps of PyTorch, and against masp.MetaSimilarity in JAX."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed; 'make interop' installs it")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402
from torch import nn  # noqa: E402

import masp  # noqa: E402
import masp.torch  # noqa: E402

BATCH, INPUTS, HIDDEN, ACTIONS = 6, 5, 16, 7
WEIGHT, MAX_NORM = 0.3, 0.5

OPTIMIZERS = {
    "sgd": (lambda p: torch.optim.SGD(p, 0.1), None),
    "clipped sgd": (lambda p: torch.optim.SGD(p, 0.1), MAX_NORM),
    "momentum": (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.1), None),
    "adam": (lambda p: torch.optim.Adam(p, 0.01), None),
    "clipped adam": (lambda p: torch.optim.Adam(p, 0.01), MAX_NORM),
    "adam with decay": (lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.1), MAX_NORM),
    "adamw": (lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1), None),
    "rmsprop": (lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.9), MAX_NORM),
}


class QNetwork(nn.Module):
    def __init__(self, actions=ACTIONS):
        super().__init__()
        self.first, self.second = nn.Linear(INPUTS, HIDDEN), nn.Linear(HIDDEN, actions)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


def make_network(rng, dtype=torch.float64, **arguments):
    network = QNetwork(**arguments).to(dtype)
    for parameter in network.parameters():
        parameter.data = torch.as_tensor(rng.normal(0, 0.5, parameter.shape), dtype=dtype)
    return network


def make_batch(rng):
    return rng.normal(size=(BATCH, INPUTS)), rng.integers(0, ACTIONS, BATCH), 3 * rng.normal(size=BATCH)


def tensors(batch, dtype=torch.float64):
    observations, actions, targets = batch
    return torch.as_tensor(observations, dtype=dtype), torch.as_tensor(actions), torch.as_tensor(targets, dtype=dtype)


def td_loss(network, batch):
    observations, actions, targets = batch
    return (network(observations)[torch.arange(BATCH), actions] - targets).square().mean()


def make_similarity(rng):
    s = rng.uniform(0.1, 0.9, (ACTIONS, ACTIONS))
    s = (s + s.T) / 2
    np.fill_diagonal(s, 1.0)
    return s


def naive_penalty(q, similarity):
    smoothed = torch.einsum("ij,bj->bi", similarity, q) / similarity.sum(1)
    return WEIGHT * (q - smoothed).square().mean()


def descend(network, optimizer, loss, max_norm):
    """An update as people write it."""
    optimizer.zero_grad()
    loss.backward()
    if max_norm:
        nn.utils.clip_grad_norm_(network.parameters(), max_norm)
    optimizer.step()


def trained(rng, make_optimizer, max_norm, updates=3):
    """A network and its optimiser after some updates."""
    network = make_network(rng)
    optimizer = make_optimizer(network.parameters())
    for _ in range(updates):
        descend(network, optimizer, td_loss(network, tensors(make_batch(rng))), max_norm)
    return network, optimizer


def gradient_of(network, optimizer, max_norm, batch, held_out, similarity):
    """The meta-gradient that a user gets."""
    meta = masp.torch.MetaSimilarity(
        network, optimizer, ACTIONS, WEIGHT, max_gradient_norm=max_norm, start=similarity, learning_rate=0.0
    )
    loss = td_loss(network, batch) + meta.penalty(network(batch[0]))
    optimizer.zero_grad()
    loss.backward()
    meta.remember(batch[0])
    if max_norm:
        norm = nn.utils.clip_grad_norm_(network.parameters(), max_norm)
        assert norm > max_norm
    optimizer.step()
    return meta.meta_gradient(td_loss(network, held_out)).numpy()


def relative_error(actual, expected):
    return np.linalg.norm(actual - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_equals_finite_differences_of_real_steps(name):
    """The optimiser of torch.optim itself steps, once for each entry of the similarity moved up and down."""
    make_optimizer, max_norm = OPTIMIZERS[name]
    rng = np.random.default_rng(0)
    network, optimizer = trained(rng, make_optimizer, max_norm)
    batch, held_out, similarity = tensors(make_batch(rng)), tensors(make_batch(rng)), make_similarity(rng)

    def loss_after_update(similarity):
        other = copy.deepcopy(network)
        stepper = make_optimizer(other.parameters())
        stepper.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        loss = td_loss(other, batch) + naive_penalty(other(batch[0]), torch.as_tensor(similarity))
        descend(other, stepper, loss, max_norm)
        return td_loss(other, held_out).item()

    expected, h = np.zeros((ACTIONS, ACTIONS)), 1e-4
    for place in np.ndindex(*expected.shape):
        shift = np.zeros_like(expected)
        shift[place] = h
        expected[place] = (loss_after_update(similarity + shift) - loss_after_update(similarity - shift)) / (2 * h)
    actual = gradient_of(network, optimizer, max_norm, batch, held_out, similarity)
    assert relative_error(actual, expected) < 1e-5


def q_function(params, x):
    """The same network in JAX; weights as PyTorch has them, [out, in]."""
    hidden = jnp.tanh(x @ params["first.weight"].T + params["first.bias"])
    return hidden @ params["second.weight"].T + params["second.bias"]


def jax_td_loss(params, batch):
    return jnp.mean((q_function(params, batch[0])[jnp.arange(BATCH), batch[1]] - batch[2]) ** 2)


JAX_OPTIMISERS = {
    "sgd": optax.sgd(0.1),
    "clipped sgd": optax.chain(optax.clip_by_global_norm(MAX_NORM), optax.sgd(0.1)),
    "adam": optax.adam(0.01, eps_root=1e-16),
    "clipped adam": optax.chain(optax.clip_by_global_norm(MAX_NORM), optax.adam(0.01, eps_root=1e-16)),
}


def jax_update(meta, optimiser, learning):
    """One update of an agent in JAX and, if `learning`, of the similarity; also the meta-gradient."""

    @jax.jit
    def update(params, opt_state, state, batch, held_out):
        weight = 1.0 if learning else 0.0

        def loss(params):
            return jax_td_loss(params, batch) + weight * meta.penalty(state, q_function(params, batch[0]))

        gradient = jax.grad(loss)(params)
        step, new_opt_state = optimiser.update(gradient, opt_state, params)
        new_params = optax.apply_updates(params, step)
        evidence = (params, opt_state, gradient, batch[0], jax.grad(jax_td_loss)(new_params, held_out))
        slope = meta.meta_gradient(state, *evidence)
        state = meta.learn(state, *evidence) if learning else state
        return new_params, new_opt_state, state, slope

    return update


def torch_update(network, optimizer, max_norm, meta, batch, held_out):
    """The same in PyTorch."""
    optimizer.zero_grad()
    (td_loss(network, batch) + meta.penalty(network(batch[0]))).backward()
    meta.remember(batch[0])
    if max_norm:
        nn.utils.clip_grad_norm_(network.parameters(), max_norm)
    optimizer.step()
    slope = meta.meta_gradient(td_loss(network, held_out)).numpy()
    meta.learn(td_loss(network, held_out))
    return slope


@pytest.mark.parametrize("name", JAX_OPTIMISERS)
def test_agrees_with_jax_in_single_precision(name):
    """Both agents begin with the same weights and see the same batches: meta-gradients, similarity and weights agree.

    They train without a penalty first: Adam's first step is nearly a sign, whose slope is all rounding in single
    precision, and optax rounds 1 - beta^t to single precision, which PyTorch does not.
    """
    (make_optimizer, max_norm), optimiser = OPTIMIZERS[name], JAX_OPTIMISERS[name]
    rng = np.random.default_rng(0)
    network, similarity = make_network(rng, torch.float32), make_similarity(rng).astype(np.float32)
    optimizer = make_optimizer(network.parameters())
    settings = {"penalty_weight": WEIGHT, "learning_rate": 0.02, "entropy_weight": 0.1}
    ours = masp.torch.MetaSimilarity(
        network, optimizer, ACTIONS, max_gradient_norm=max_norm, start=similarity, **settings
    )
    theirs = masp.MetaSimilarity(q_function, optimiser, ACTIONS, **settings)
    params = {n: jnp.asarray(p.detach().numpy().copy()) for n, p in network.named_parameters()}
    state, opt_state = theirs.init(params, jnp.zeros((1, INPUTS)), start=similarity), optimiser.init(params)
    updates = {learning: jax_update(theirs, optimiser, learning) for learning in (False, True)}
    for learning in (False,) * 20 + (True,) * 4:
        batches = [tensors(make_batch(rng), torch.float32) for _ in range(2)]
        in_jax = [tuple(jnp.asarray(part.numpy()) for part in batch) for batch in batches]
        params, opt_state, state, expected = updates[learning](params, opt_state, state, *in_jax)
        if learning:
            assert relative_error(torch_update(network, optimizer, max_norm, ours, *batches), expected) < 1e-5
            np.testing.assert_allclose(ours.similarity.numpy(), state.similarity, atol=1e-5)
        else:
            descend(network, optimizer, td_loss(network, batches[0]), max_norm)
        for name, parameter in network.named_parameters():
            np.testing.assert_allclose(parameter.detach().numpy(), params[name], atol=1e-5)


@pytest.mark.parametrize("form", ["mean", "sum", "literal"])
def test_the_mathematics_is_that_of_the_package(form):
    from masp.similarity import matrix
    from masp.torch import mathematics

    rng = np.random.default_rng(0)
    q, raw = rng.normal(size=(BATCH, ACTIONS)), rng.normal(0.3, 0.5, (ACTIONS, ACTIONS))
    similarity = make_similarity(rng)
    similarity[0, 1] = similarity[1, 0] = 1e-9
    with jax.enable_x64(True):
        pairs = (
            (mathematics.batch_penalty(torch.as_tensor(q), torch.as_tensor(similarity), form),
             matrix.batch_penalty(jnp.asarray(q), jnp.asarray(similarity), form)),
            (mathematics.project(torch.as_tensor(raw)), matrix.project(jnp.asarray(raw))),
            (torch.func.grad(mathematics.row_entropy)(torch.as_tensor(similarity)),
             jax.grad(matrix.row_entropy)(jnp.asarray(similarity))),
        )  # fmt: skip
        for actual, expected in pairs:
            np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-10)


def test_dead_units_and_gradients_of_zero_stay_finite():
    rng = np.random.default_rng(0)
    network = make_network(rng, torch.float32)
    network.first.bias.data[:4] = 1e3  # saturated: their gradients are exactly 0
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    meta = masp.torch.MetaSimilarity(network, optimizer, ACTIONS, max_gradient_norm=MAX_NORM)
    batch = tensors(make_batch(rng), torch.float32)
    before = meta.similarity
    for scale in (0.0, 1.0):
        optimizer.zero_grad()
        (scale * td_loss(network, batch)).backward()
        meta.remember(batch[0])
        nn.utils.clip_grad_norm_(network.parameters(), MAX_NORM)
        optimizer.step()
        meta.learn(td_loss(network, batch))
        assert torch.isfinite(meta.similarity).all()
    assert not torch.equal(meta.similarity, before)


class Noisy(nn.Module):
    """Noise in a buffer, as noisy layers keep it, and a layer that is not trained."""

    def __init__(self):
        super().__init__()
        self.plain, self.frozen = QNetwork(), nn.Linear(INPUTS, INPUTS)
        self.frozen.requires_grad_(False)
        self.register_buffer("noise", torch.zeros(BATCH, INPUTS))

    def forward(self, x):
        return self.plain(self.frozen(x) + self.noise)


def test_noise_of_the_update_is_that_of_the_meta_gradient():
    """The noise changes before `learn` is called; the result does not."""
    slopes = []
    for redraw in (False, True):
        torch.manual_seed(0)
        network, batch = Noisy(), tensors(make_batch(np.random.default_rng(0)), torch.float32)
        optimizer = torch.optim.SGD(network.parameters(), 0.1)
        meta = masp.torch.MetaSimilarity(network, optimizer, ACTIONS)
        network.noise.normal_()
        (td_loss(network, batch) + meta.penalty(network(batch[0]))).backward()
        meta.remember(batch[0])
        optimizer.step()
        loss = td_loss(network, batch)
        if redraw:
            network.noise.data = torch.randn(BATCH, INPUTS)
        slopes.append(meta.meta_gradient(loss))
    assert torch.equal(*slopes) and slopes[0].abs().max() > 0


def test_state_and_bundle_go_on(tmp_path):
    def make():
        network = make_network(np.random.default_rng(0), torch.float32)
        optimizer = torch.optim.SGD(network.parameters(), 0.1)
        return network, optimizer, masp.torch.MetaSimilarity(network, optimizer, masp.ActionSet(3, [(0, 1)] * 4))

    def update(network, optimizer, meta, seed):
        batch = tensors(make_batch(np.random.default_rng(seed)), torch.float32)
        optimizer.zero_grad()
        (td_loss(network, batch) + meta.penalty(network(batch[0]))).backward()
        meta.remember(batch[0])
        optimizer.step()
        meta.learn(td_loss(network, batch))

    first, second = make(), make()
    update(*first, 0)
    torch.save([first[0].state_dict(), first[2].state_dict()], tmp_path / "checkpoint.pt")
    weights, state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    second[0].load_state_dict(weights)
    second[2].load_state_dict(state)
    for run in (first, second):
        update(*run, 1)
    assert torch.equal(first[2].similarity, second[2].similarity)
    masp.save_bundle(tmp_path / "b.safetensors", first[2].bundle())
    bundle = masp.load_bundle(tmp_path / "b.safetensors")
    again = masp.torch.MetaSimilarity(first[0], first[1], first[2].action_set, start=bundle)
    assert torch.equal(again.similarity, first[2].similarity)


def refused(match, call):
    with pytest.raises(masp.UserError, match=match) as error:
        call()
    assert "\n" not in str(error.value)


def test_what_it_cannot_take_is_refused_in_one_line():
    rng = np.random.default_rng(0)
    network, batch = make_network(rng, torch.float32), tensors(make_batch(rng), torch.float32)
    kind = masp.torch.MetaSimilarity

    def with_optimizer(make, **settings):
        return lambda: kind(network, make(network.parameters()), ACTIONS, **settings)

    refused("cannot differentiate a step of Adagrad; use one of SGD, Adam", with_optimizer(torch.optim.Adagrad))
    refused("amsgrad=True", with_optimizer(lambda p: torch.optim.Adam(p, amsgrad=True)))
    refused("also steps parameters that are not in the network",
            with_optimizer(lambda p: torch.optim.SGD([*p, nn.Parameter(torch.ones(2))], 0.1)))  # fmt: skip
    sgd = torch.optim.SGD
    other = masp.Bundle(masp.ActionSet(4), np.eye(4, dtype=np.float32))
    refused("bundle is of another action set", with_optimizer(lambda p: sgd(p, 0.1), start=other))
    refused("penalty_weight must be", with_optimizer(lambda p: sgd(p, 0.1), penalty_weight=-1))
    refused("must be a torch.nn.Module", lambda: kind(td_loss, sgd(network.parameters(), 0.1), ACTIONS))
    meta = with_optimizer(lambda p: sgd(p, 0.1))()
    refused(r"penalty: q has shape \[6, 3\], expected \[B, 7\]", lambda: meta.penalty(torch.zeros(6, 3)))
    refused("call remember", lambda: meta.learn(td_loss(network, batch)))
    refused("no gradients to remember", lambda: meta.remember(batch[0]))
    td_loss(network, batch).backward()
    meta.remember(batch[0])
    refused("must be a loss", lambda: meta.learn(0.5))
    refused("does not depend on", lambda: meta.learn(torch.ones((), requires_grad=True) * 2))
    meta.remember(batch[0][:, :2])
    refused("cannot be differentiated: RuntimeError", lambda: meta.learn(td_loss(network, batch)))
    refused("q has no gradient", lambda: meta.penalty(network(batch[0]).detach()))
    refused("q must be a Tensor", lambda: meta.penalty(np.zeros((6, 7))))
    with torch.no_grad():
        assert meta.penalty(network(batch[0])) > 0  # to be logged
    for norm in (-1.0, 0, float("nan"), "10"):
        refused("max_gradient_norm must be", with_optimizer(lambda p: sgd(p, 0.1), max_gradient_norm=norm))
    dropping = nn.Sequential(network, nn.Dropout(0.1))
    refused(r"Dropout \(1\) draws random numbers", lambda: kind(dropping, sgd(network.parameters(), 0.1), ACTIONS))
    refused("there is no mean, similarity, square, steps in the state", lambda: meta.load_state_dict({}))


def test_a_meta_gradient_that_is_not_finite_changes_nothing():
    rng = np.random.default_rng(0)
    network, batch = make_network(rng), tensors(make_batch(rng))
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    meta = masp.torch.MetaSimilarity(network, optimizer, ACTIONS)
    before = meta.similarity

    def learn(factor):
        (td_loss(network, batch) + meta.penalty(network(batch[0]))).backward()
        meta.remember(batch[0])
        optimizer.step()
        meta.learn(factor * td_loss(network, batch))

    learn(float("nan"))
    assert torch.equal(meta.similarity, before) and meta.skipped == 1
    again = masp.torch.MetaSimilarity(network, optimizer, ACTIONS)
    again.load_state_dict(meta.state_dict())
    assert again.skipped == 1
    learn(1.0)
    assert meta.skipped == 1 and meta.similarity.isfinite().all() and not torch.equal(meta.similarity, before)
