"""Counting primitive steps, which Stable-Baselines3 does not: its `num_timesteps` are decisions."""

from __future__ import annotations

from stable_baselines3.common.callbacks import BaseCallback

from masp.errors import UserError


class StepBudget(BaseCallback):
    """Logs primitive steps as `time/primitive_steps` and ends training after `max_steps` of them.

    `learn(total_timesteps)` counts decisions, so agents that choose long macros would play longer than others; give
    all the same number of primitive steps to compare them.
    """

    def __init__(self, max_steps: int | None = None):
        super().__init__()
        if max_steps is not None and max_steps < 1:
            raise UserError(f"StepBudget needs max_steps of at least 1, got {max_steps}")
        self.max_steps = max_steps
        self.steps = 0
        """Primitive steps so far, over all environments."""

    def _on_step(self) -> bool:
        infos = self.locals["infos"]
        if not all("steps" in info for info in infos):
            raise UserError("StepBudget found no info['steps']: wrap each environment in masp.MacroActionEnv")
        self.steps += sum(info["steps"] for info in infos)
        self.logger.record("time/primitive_steps", self.steps)
        return self.max_steps is None or self.steps < self.max_steps
