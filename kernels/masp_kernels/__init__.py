"""C++ kernels for the CPU as JAX primitives: convolutions, linear layers, Adam, softmax, replay sampling, random bits.

`masp.ops` defines the same operations in plain JAX and decides which of the two runs. Importing this package changes
nothing in the process; `library` loads the compiled code on first use.
"""

__version__ = "0.2.0"
