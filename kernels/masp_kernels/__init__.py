"""Kernels of our own for the CPU, where they were built: convolutions, linear layers and Adam (docs/performance.md).

Everything here has a twin in plain JAX next to where it is used; `library.usable` says which of the two runs.
"""
