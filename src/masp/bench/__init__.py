"""Benchmarks: each a module with `run(quick) -> dict`; relative figures are ratios within one run."""
