"""Macros and n-step returns of one environment, played with Python lists: the reference for the batched code."""

from typing import NamedTuple

GAMMA = 0.9
SEQUENCES = ((0,), (1,), (2, 0), (1, 1, 2, 0, 1))
LENGTHS = (1, 1, 2, 5)


class Tick(NamedTuple):
    """What happens to one environment in one tick; `choice` counts only if a decision is due."""

    choice: int
    reward: float
    terminated: bool
    truncated: bool
    life_lost: bool
    mask: tuple[bool, ...] | None = None
    """Which primitives are allowed after the tick; None: all."""


class Played(NamedTuple):
    """One decision."""

    first_tick: int
    last_tick: int
    action: int
    reward: float
    discount: float
    steps: int
    last: bool


class Window(NamedTuple):
    """One n-step return; it bootstraps from the observation after `last_tick`."""

    first_tick: int
    last_tick: int
    action: int
    reward: float
    discount: float


def forbids(mask, sequence, position):
    """Whether the primitive at `position` of a sequence exists and is forbidden."""
    return mask is not None and position < len(sequence) and not mask[sequence[position]]


def allowed_choice(choice, mask, sequences):
    """`choice` if its first primitive is allowed, else the first action that is."""
    return next(action for action in (choice, *range(len(sequences))) if not forbids(mask, sequences[action], 0))


def play(ticks, sequences=SEQUENCES, gamma=GAMMA, mask=None):
    """All finished decisions of one environment, and per tick its primitive (None: it only resets).

    `mask`: of the first observation; a choice that is forbidden is replaced by `allowed_choice`.
    """
    decisions, primitives = [], []
    resetting, action, rewards, first = False, None, [], 0
    for now, tick in enumerate(ticks):
        mask_before, mask = mask, tick.mask
        if resetting:  # an idle tick: nothing is played, nothing counts
            resetting = False
            primitives.append(None)
            continue
        if action is None:
            action, rewards, first = allowed_choice(tick.choice, mask_before, sequences), [], now
        primitives.append(sequences[action][len(rewards)])
        rewards.append(tick.reward)
        over = tick.terminated or tick.truncated
        complete = len(rewards) == len(sequences[action]) or forbids(mask, sequences[action], len(rewards))
        if over or tick.life_lost or complete:
            total = sum(gamma**i * r for i, r in enumerate(rewards))
            discount = 0.0 if tick.terminated or tick.life_lost else gamma ** len(rewards)
            last = over or tick.life_lost
            decisions.append(Played(first, now, action, total, discount, len(rewards), last))
            action = None
        resetting = over
    return decisions, primitives


def windows(decisions, n):
    """All complete n-step returns over a list of decisions."""
    complete = []
    for i, decision in enumerate(decisions):
        reward, discount = 0.0, 1.0
        for count, later in enumerate(decisions[i:], start=1):
            reward += discount * later.reward
            discount *= later.discount
            if count == n or later.last:
                complete.append(Window(decision.first_tick, later.last_tick, decision.action, reward, discount))
                break
    return complete


def consistent(ticks, primitives, row, sequences=SEQUENCES, gamma=GAMMA):
    """{action: (reward, discount, steps)} of all actions that would have played what was played from `row` on."""
    found = {}
    for action, sequence in enumerate(sequences):
        total, discount = 0.0, 1.0
        for steps, (wanted, primitive, tick) in enumerate(
            zip(sequence, primitives[row:], ticks[row:], strict=False), start=1
        ):
            if wanted != primitive:
                break
            total += discount * tick.reward
            discount *= gamma
            lost = tick.terminated or tick.life_lost
            if lost or tick.truncated or steps == len(sequence) or forbids(tick.mask, sequence, steps):
                found[action] = (total, 0.0 if lost else discount, steps)
                break
    return found


def unzip(script, env):
    """The ticks of one environment out of arrays [T, N]."""
    masks = [None] * len(script.reward) if script.mask is None else map(tuple, script.mask[:, env].tolist())
    columns = (field[:, env].tolist() for field in script[:-1])
    return [Tick(*values) for values in zip(*columns, masks, strict=True)]
