"""When two macros do the same: they give the same commands in the same order and differ only in waiting."""

from __future__ import annotations


def effect(sequence: tuple[int, ...], noop: int | None) -> tuple[int, ...]:
    """The sequence without leading and trailing NOOPs, each pause inside shortened to one NOOP.

    A pause is kept because letting go and pressing again is not the same as holding: FIRE NOOP FIRE shoots twice.
    Repeats of other actions are kept, for holding a direction longer goes further. Without a NOOP, or if
    nothing else is in it, a sequence is its own effect.
    """
    if noop is None or all(action == noop for action in sequence):
        return sequence
    kept: list[int] = []
    for action in sequence:
        if action != noop or (kept and kept[-1] != noop):
            kept.append(action)
    return tuple(kept[:-1] if kept[-1] == noop else kept)
