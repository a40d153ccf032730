"""The kernels in C++ (src/masp/native/kernels); all else is in pyproject.toml.

Where they cannot be built the package is installed without them and computes with XLA alone.
"""

from pathlib import Path

from setuptools import Extension, setup

FOLDER = Path("src/masp/native/kernels")

kernels = Extension(
    "masp.native._kernels",
    sources=[str(source) for source in sorted(FOLDER.glob("*.cpp"))],
    depends=[str(header) for header in sorted(FOLDER.glob("*.h"))],
    language="c++",
    extra_compile_args=["-std=c++17", "-O3", "-fno-math-errno"],
    extra_link_args=["-pthread"],
    optional=True,
)

setup(ext_modules=[kernels])
