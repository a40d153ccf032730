"""Environments, by id."""

from masp.environments.registry import is_jax as is_jax
from masp.environments.registry import make_env as make_env
