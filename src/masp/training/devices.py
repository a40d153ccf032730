"""Lanes spread over the devices of this process: each device trains its share of them with the same program.

Lanes share one number only: how many updates are due. With one device nothing is spread and nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, PartitionSpec

LANES = "lanes"
OWN, SHARED = PartitionSpec(LANES), PartitionSpec()
"""Specs of arrays whose first axis are the lanes, and of those that all lanes share."""


@dataclass(frozen=True)
class Devices:
    """The devices that a number of lanes is spread over."""

    count: int

    @classmethod
    def of(cls, lanes: int) -> Devices:
        """As many devices as can have equally many of the lanes."""
        available = len(jax.local_devices())
        return cls(max(count for count in range(1, min(lanes, available) + 1) if lanes % count == 0))

    def spread(self, function: Callable[..., Any], in_specs: Any, out_specs: Any) -> Callable[..., Any]:
        """`function` on the lanes of each device; the specs are those of `shard_map`, `OWN` or `SHARED`."""
        if self.count == 1:
            return function
        mesh = Mesh(np.array(jax.local_devices()[: self.count]), (LANES,))
        return jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)

    def least(self, numbers: Array) -> Array:
        """[] the smallest of the numbers [lanes] on all devices; for use inside `spread`."""
        least = jnp.min(numbers)
        return least if self.count == 1 else jax.lax.pmin(least, LANES)
