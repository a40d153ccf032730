"""Programs compiled once per machine: the trials of an experiment mostly differ in numbers, not in shapes."""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

from masp.experiments.store import Store


def keep_compiled_programs(store: Store) -> None:
    """Let JAX keep compiled programs in the store; apart for each kind of machine, since they use its instructions."""
    try:
        flags = next(
            line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith(("flags", "Features"))
        )
    except (OSError, StopIteration):
        flags = platform.processor()
    kind = hashlib.sha256(f"{platform.machine()} {flags} {jax.__version__}".encode()).hexdigest()[:12]
    jax.config.update("jax_compilation_cache_dir", str((store.work / "compiled" / kind).absolute()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")  # GPU only; adds the folder to keys
    compilation_cache.reset_cache()  # it may have been found unused by something compiled at import
