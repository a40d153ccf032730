"""One update of the agent written out by hand: forward pass, C51, clipping and Adam, without the package's own code.

Everything is a plain function of arrays, so differentiating `held_out_loss_after_update` in the similarity is
differentiating through the whole update.
"""

import jax
import jax.numpy as jnp

from masp.config import AgentConfig, SimilarityConfig
from masp.learner import Learner
from masp.networks import QNetwork
from masp.replay import Sample, Transition

INPUTS, ACTIONS, ATOMS, HIDDEN, BATCH = 6, 4, 5, 8, 4
GAMMA = 0.9


def make_learner(
    dueling=True, noisy=True, double=True, atoms=ATOMS, embedding=3, max_gradient_norm=10.0, target_period=1000, **masp
):
    """A learner so small that it compiles fast."""
    agent = AgentConfig(
        learning_rate=0.01,
        max_gradient_norm=max_gradient_norm,
        batch_size=BATCH,
        num_atoms=atoms,
        v_min=-2.0,
        v_max=2.0,
        dueling=dueling,
        noisy=noisy,
        double=double,
        hidden=HIDDEN,
        target_period_steps=target_period,
        steps_per_update=1,
    )
    similarity = SimilarityConfig(embedding=embedding, **masp)
    network = QNetwork("vector", ACTIONS, atoms, HIDDEN, dueling, noisy, embedding)
    return Learner(network, agent, similarity)


def make_sample(key, dtype=jnp.float32):
    """A random batch."""
    keys = jax.random.split(key, 6)
    transition = Transition(
        s_tm1=jax.random.normal(keys[0], (BATCH, INPUTS), dtype),
        a_tm1=jax.random.randint(keys[1], (BATCH,), 0, ACTIONS),
        r_t=jax.random.normal(keys[2], (BATCH,), dtype),
        discount_t=jnp.array([GAMMA, GAMMA**3, 0.0, GAMMA**2], dtype),
        s_t=jax.random.normal(keys[3], (BATCH, INPUTS), dtype),
    )
    weight = jax.random.uniform(keys[4], (BATCH,), dtype, minval=0.2)
    return Sample(transition, weight, jnp.arange(BATCH))


def make_similarity(key, dtype=jnp.float32):
    """Symmetric, entries well inside (0, 1), ones on the diagonal."""
    raw = jax.random.uniform(key, (ACTIONS, ACTIONS), dtype, minval=0.2, maxval=0.8)
    return jnp.where(jnp.eye(ACTIONS, dtype=bool), 1.0, (raw + raw.T) / 2).astype(dtype)


def cast(tree, dtype):
    """Floating-point leaves as `dtype`."""
    return jax.tree.map(lambda x: x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x, tree)


def dense(layer, x, noise):
    """A linear layer; the noisy weight is multiplied out."""
    kernel, bias = layer["kernel"], layer["bias"]
    if noise is not None:
        kernel = kernel + layer["kernel_sigma"] * jnp.outer(noise["input"], noise["output"])
        bias = bias + layer["bias_sigma"] * noise["output"]
    return jnp.einsum("bi,io->bo", x, kernel) + bias


def relu(x):
    return jnp.where(x > 0, x, 0.0)


def forward(params, x, similarity, noise=None):
    """[B, A, atoms] network outputs."""
    torso = params["MlpTorso_0"]["Dense_0"]
    x = relu(dense(torso, x, None))
    if "embedding" in params:
        code = jnp.einsum("i,ie->e", similarity.reshape(-1), params["embedding"]["kernel"])
        x = jnp.concatenate([x, jnp.stack([code] * x.shape[0])], axis=1)

    def head(name):
        factors = [None if noise is None else noise[f"{name}_{part}"] for part in ("hidden", "out")]
        h = relu(dense(params[f"{name}_hidden"], x, factors[0]))
        return dense(params[f"{name}_out"], h, factors[1])

    advantage = head("advantage").reshape(x.shape[0], ACTIONS, -1)
    if "value_out" not in params:
        return advantage
    centred = advantage - advantage.sum(axis=1, keepdims=True) / ACTIONS
    return head("value")[:, None, :] + centred


def values(outputs, support):
    """[B, A]"""
    if len(support) == 1:
        return outputs[..., 0]
    weights = jnp.exp(outputs - outputs.max(axis=-1, keepdims=True))
    return (weights * support).sum(-1) / weights.sum(-1)


def projected(support, probabilities, reward, discount):
    """[atoms] the distribution of reward + discount * value on `support`: each atom shares its mass among two."""
    gap = support[1] - support[0]
    moved = jnp.clip(reward + discount * support, support[0], support[-1])
    share = jnp.clip(1 - jnp.abs(moved[:, None] - support[None, :]) / gap, 0, 1)  # [from, to]
    return probabilities @ share


def td_losses(learner, params, selector_params, target_params, sample, similarity, noise):
    """[B] losses; only `params` count for gradients. `noise`: online, selector, target."""
    batch, support = sample.transition, learner.support
    outputs = forward(params, batch.s_tm1, similarity, noise[0])
    target = jax.lax.stop_gradient(forward(target_params, batch.s_t, similarity, noise[2]))
    chooser = values(forward(selector_params, batch.s_t, similarity, noise[1]), support)
    if not learner.agent.double:
        chooser = values(target, support)
    best = jnp.argmax(chooser, axis=1)
    rows = jnp.arange(BATCH)
    chosen, goal = outputs[rows, batch.a_tm1], target[rows, best]  # [B, atoms]
    if len(support) == 1:
        error = jnp.abs(batch.r_t + batch.discount_t * goal[:, 0] - chosen[:, 0])
        return jnp.where(error < 1, error**2 / 2, error - 0.5)
    share = jax.vmap(projected, in_axes=(None, 0, 0, 0))
    goal = share(support, jax.nn.softmax(goal), batch.r_t, batch.discount_t)
    return -(goal * jax.nn.log_softmax(chosen)).sum(axis=1)


def td_loss(learner, params, selector_params, target_params, sample, similarity, noise):
    per_transition = td_losses(learner, params, selector_params, target_params, sample, similarity, noise)
    return (sample.weight * per_transition).sum() / BATCH


def penalty(learner, params, states, context, noise, similarity, weight):
    """The similarity acts on values; `context` is the similarity that the embedding sees."""
    q = values(forward(params, states, context, noise), learner.support)
    smooth = similarity
    if learner.similarity.penalty_form == "row":
        smooth = similarity / similarity.sum(axis=1)[:, None]
    return weight * ((q - q @ smooth.T) ** 2).sum() / BATCH


def clip_and_adam(learner, gradient, moments):
    """The step of eq. U, and the new moments (first, second, count)."""
    limit = learner.agent.max_gradient_norm
    if limit:
        squares = sum((leaf**2).sum() for leaf in jax.tree.leaves(gradient))
        factor = jnp.where(squares > limit**2, limit / jnp.sqrt(jnp.where(squares > limit**2, squares, 1.0)), 1.0)
        gradient = jax.tree.map(lambda leaf: factor * leaf, gradient)
    first, second, count = moments
    count = count + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, second, gradient)

    def step(m, v):
        root = jnp.sqrt(v / (1 - 0.999**count) + 1e-16)
        return -learner.agent.learning_rate * (m / (1 - 0.9**count)) / (root + learner.agent.adam_eps)

    return jax.tree.map(step, first, second), (first, second, count)


def no_moments(params):
    zeros = jax.tree.map(jnp.zeros_like, params)
    return zeros, zeros, 0.0


def gradient_of_update(learner, params, target_params, sample, context, noise, similarity, weight):
    """g = g_TD + g_penalty."""

    def objective(p):
        td = td_loss(learner, p, params, target_params, sample, context, noise)
        return td + penalty(learner, p, sample.transition.s_tm1, context, noise[0], similarity, weight)

    return jax.grad(objective)(params)


def held_out_loss_after_update(
    learner, similarity, params, target_params, moments, sample, held_out, context, noise, weight
):
    """J'(S): one update under S, then the TD loss on held-out data. `noise`: three for the update, three for J'."""
    gradient = gradient_of_update(learner, params, target_params, sample, context, noise[:3], similarity, weight)
    step, _ = clip_and_adam(learner, gradient, moments)
    after = jax.tree.map(jnp.add, params, step)
    return td_loss(learner, after, jax.lax.stop_gradient(after), target_params, held_out, context, noise[3:])
