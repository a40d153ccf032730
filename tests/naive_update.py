"""One update of the agent written out by hand: forward pass, C51, clipping and Adam, without the package's own code.

Everything is a plain function of arrays, so differentiating `held_out_loss_after_update` in the similarity is
differentiating through the whole update.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from masp.agent.learner import Hyper, Learner, LearnerState
from masp.agent.networks import QNetwork
from masp.agent.replay import Batch, Transition
from masp.config import AgentConfig, SimilarityConfig, TrainConfig
from masp.similarity.metagradient import InnerStep

INPUTS, ACTIONS, ATOMS, HIDDEN, BATCH = 6, 4, 5, 8, 4
GAMMA, WEIGHT = 0.9, 1.2


def make_learner(
    dueling=True,
    noisy=True,
    double=True,
    atoms=ATOMS,
    embedding=3,
    max_gradient_norm=10.0,
    target_period=1000,
    n_step=3,
    variant="masp",
    choosable=(True,) * ACTIONS,
    **masp,
):
    """A learner so small that it compiles fast."""
    agent = AgentConfig(
        learning_rate=0.01,
        max_gradient_norm=max_gradient_norm,
        batch_size=BATCH,
        num_atoms=atoms,
        value_range=(-2.0, 2.0),
        dueling=dueling,
        noisy=noisy,
        double=double,
        hidden=HIDDEN,
        target_period_steps=target_period,
        steps_per_update=1,
        n_step=n_step,
        intra_option=variant == "outcomes",
    )
    masp = {"held_out": "separate", "meta_period_updates": 1, "penalty_weight": WEIGHT} | masp
    similarity = SimilarityConfig(embedding=embedding, **masp)
    network = QNetwork("vector", ACTIONS, atoms, HIDDEN, dueling, noisy, embedding)
    return Learner(network, TrainConfig("planted-grid", variant, agent=agent, similarity=similarity), choosable)


def make_params(learner, rng, dtype=np.float32):
    """Random parameters (drawn by NumPy: JAX's own initialisers are slow to compile) and a template of the noise."""
    observation = jax.ShapeDtypeStruct((1, INPUTS), dtype)
    square = jax.ShapeDtypeStruct((ACTIONS, ACTIONS), dtype)
    shapes = jax.eval_shape(learner.network.init, jax.random.PRNGKey(0), observation, square)

    def draw(leaf):
        return jnp.asarray(rng.normal(size=leaf.shape, scale=0.5), dtype)

    template = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, dtype), shapes.get("noise"))
    return jax.tree.map(draw, shapes["params"]), template


def make_noise(template, rng, count):
    """Factors for some passes."""

    def draw(leaf):
        return jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype)

    return [jax.tree.map(draw, template) for _ in range(count)]


def make_state(learner, rng, similarity=None, dtype=np.float32):
    """A learner's state with random parameters, another target network, and the given or a random similarity."""
    params, template = make_params(learner, rng, dtype)
    target, _ = make_params(learner, rng, dtype)
    similarity = make_similarity(rng, dtype) if similarity is None else jnp.asarray(similarity, dtype)
    opt_state = learner.adam.init(params)
    states = jnp.zeros((BATCH, INPUTS), dtype)
    step = InnerStep(params, opt_state, params, states, similarity, template, similarity)
    learned = learner.similarity.init(jax.random.PRNGKey(0), similarity, step)
    if hasattr(learned, "recent"):  # values that must never be read
        learned = learned._replace(recent=jax.tree.map(lambda leaf: jnp.full_like(leaf, -7), learned.recent))
    s = learner.config.similarity
    return LearnerState(
        params=params,
        target_params=target,
        opt_state=opt_state,
        similarity=learned,
        noise_template=template,
        hyper=Hyper(jnp.asarray(s.penalty_weight, dtype), jnp.asarray(s.meta_learning_rate, dtype)),
        updates=jnp.zeros((), jnp.int32),
    )


def matrix_of(state):
    """[A, A] the similarity in a learner's state that holds one."""
    return state.similarity.similarity


def make_batch(rng, dtype=np.float32, inside=0):
    """A random batch of BATCH windows and `inside` transitions behind them."""
    rows = BATCH + inside
    transition = Transition(
        s_tm1=jnp.asarray(rng.normal(size=(rows, INPUTS)), dtype),
        a_tm1=jnp.asarray(rng.integers(ACTIONS, size=rows), jnp.int32),
        r_t=jnp.asarray(rng.normal(size=rows), dtype),
        discount_t=jnp.asarray(np.resize([GAMMA, GAMMA**3, 0.0, GAMMA**2], rows), dtype),
        s_t=jnp.asarray(rng.normal(size=(rows, INPUTS)), dtype),
    )
    return Batch(transition, jnp.asarray(rng.uniform(0.2, 1.0, rows), dtype), jnp.arange(BATCH))


def make_similarity(rng, dtype=np.float32):
    """Symmetric, entries well inside (0, 1), ones on the diagonal."""
    raw = rng.uniform(0.2, 0.8, (ACTIONS, ACTIONS))
    return jnp.asarray(np.where(np.eye(ACTIONS, dtype=bool), 1.0, (raw + raw.T) / 2), dtype)


def dense(layer, x, noise):
    """A linear layer; the noisy weight is multiplied out."""
    kernel, bias = layer["kernel"], layer["bias"]
    if noise is not None:
        kernel = kernel + layer["kernel_sigma"] * jnp.outer(noise["output"], noise["input"])
        bias = bias + layer["bias_sigma"] * noise["output"]
    return jnp.einsum("bi,oi->bo", x, kernel) + bias


def relu(x):
    return jnp.where(x > 0, x, 0.0)


def forward(params, x, similarity, noise=None):
    """[B, A, atoms] network outputs."""
    torso = params["MlpTorso_0"]["Linear_0"]
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


def td_losses(learner, params, selector_params, target_params, batch, context, noise):
    """[R] losses; only `params` count for gradients. `noise`: of the online and of the target network."""
    rows_of, support = batch.transition, learner.support
    outputs = forward(params, rows_of.s_tm1, context, noise[0])
    target = jax.lax.stop_gradient(forward(target_params, rows_of.s_t, context, noise[1]))
    chooser = values(forward(selector_params, rows_of.s_t, context, noise[0]), support)
    if not learner.config.agent.double:
        chooser = values(target, support)
    best = jnp.argmax(jnp.where(np.array(learner.choosable), chooser, -jnp.inf), axis=1)
    rows = jnp.arange(len(best))
    chosen, goal = outputs[rows, rows_of.a_tm1], target[rows, best]  # [R, atoms]
    if len(support) == 1:
        error = jnp.abs(rows_of.r_t + rows_of.discount_t * goal[:, 0] - chosen[:, 0])
        return jnp.where(error < 1, error**2 / 2, error - 0.5)
    share = jax.vmap(projected, in_axes=(None, 0, 0, 0))
    goal = share(support, jax.nn.softmax(goal), rows_of.r_t, rows_of.discount_t)
    return -(goal * jax.nn.log_softmax(chosen)).sum(axis=1)


def td_loss(learner, params, selector_params, target_params, batch, context, noise):
    """Weighted sum over all rows, divided by the number of windows."""
    per_row = td_losses(learner, params, selector_params, target_params, batch, context, noise)
    return (batch.weight * per_row).sum() / BATCH


def penalty(learner, params, states, context, noise, similarity, weight, literal):
    """Mean over actions with the row-stochastic form, or, if `literal`, sum over actions with the matrix itself."""
    q = values(forward(params, states, context, noise), learner.support)
    smooth = jnp.where(literal, similarity, similarity / similarity.sum(axis=1)[:, None])
    return weight * ((q - q @ smooth.T) ** 2).sum() / BATCH / jnp.where(literal, 1, ACTIONS)


def clip_and_adam(learner, gradient, opt_state):
    """U(g) of a gradient, all parameters in one long vector."""
    mu, nu, count = (optax.tree_utils.tree_get(opt_state, name) for name in ("mu", "nu", "count"))
    (g, unravel), count = ravel_pytree(gradient), count + 1
    agent = learner.config.agent
    limit, squares = agent.max_gradient_norm, (g**2).sum()
    too_long = (squares > limit**2) & (limit > 0)
    g = g * jnp.where(too_long, limit / jnp.sqrt(jnp.where(too_long, squares, 1.0)), 1.0)
    first = (0.9 * ravel_pytree(mu)[0] + 0.1 * g) / (1 - 0.9**count)
    second = (0.999 * ravel_pytree(nu)[0] + 0.001 * g**2) / (1 - 0.999**count)
    return unravel(-agent.learning_rate * first / (jnp.sqrt(second + 1e-16) + agent.adam_eps))


def gradient_of_update(learner, state, batch, noise, similarity, literal=False):
    """g = g_TD + g_penalty at `state`, with `similarity` in the penalty; the network sees the state's similarity."""
    context = matrix_of(state)

    def objective(params):
        td = td_loss(learner, params, state.params, state.target_params, batch, context, noise)
        states, weight = batch.transition.s_tm1[:BATCH], state.hyper.penalty_weight
        return td + penalty(learner, params, states, context, noise[0], similarity, weight, literal)

    return jax.grad(objective)(state.params)


def params_after_update(learner, state, batch, noise, similarity, literal=False):
    """theta'(S): one update under S from `state`."""
    gradient = gradient_of_update(learner, state, batch, noise, similarity, literal)
    return jax.tree.map(jnp.add, state.params, clip_and_adam(learner, gradient, state.opt_state))


def held_out_loss_after_update(learner, similarity, state, batch, held_out, noise, held_out_noise, literal=False):
    """J'(S): one update under S, then the TD loss on held-out data; the network sees the state's similarity in both."""
    after = params_after_update(learner, state, batch, noise, similarity, literal)
    chooser = jax.lax.stop_gradient(after)
    return td_loss(learner, after, chooser, state.target_params, held_out, matrix_of(state), held_out_noise)
