"""Experiments: definitions as data, and the engine that runs them."""
