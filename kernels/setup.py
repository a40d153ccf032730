"""Builds the C++ library; everything else is in pyproject.toml."""

from pathlib import Path

from setuptools import Extension, setup

HERE = Path(__file__).parent
SOURCES = Path("csrc")

library = Extension(
    "masp_kernels._kernels",
    sources=[str(path.relative_to(HERE)) for path in sorted((HERE / SOURCES).glob("*.cpp"))],
    depends=[str(path.relative_to(HERE)) for path in sorted((HERE / SOURCES).glob("*.h"))],
    language="c++",
    extra_compile_args=["-std=c++17", "-O3", "-fno-math-errno"],
    extra_link_args=["-pthread"],
)

setup(ext_modules=[library])
