"""Builds the C++ library; everything else is in pyproject.toml.

`MASP_KERNELS_SANITIZE=1` builds with AddressSanitizer and UndefinedBehaviorSanitizer (`make sanitize`).
"""

import os
from pathlib import Path

from setuptools import Extension, setup

HERE = Path(__file__).parent
SOURCES = Path("csrc")
SANITIZE = os.environ.get("MASP_KERNELS_SANITIZE") == "1"
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer", "-g", "-O1"]
flags = SANITIZERS if SANITIZE else []

library = Extension(
    "masp_kernels._kernels",
    sources=[str(path.relative_to(HERE)) for path in sorted((HERE / SOURCES).glob("*.cpp"))],
    depends=[str(path.relative_to(HERE)) for path in sorted((HERE / SOURCES).glob("*.h"))],
    language="c++",
    extra_compile_args=["-std=c++17", "-O3", "-fno-math-errno", *flags],
    extra_link_args=["-pthread", *flags],
)

# A directory of its own: setuptools would otherwise take the object files of the other kind.
setup(ext_modules=[library], options={"build": {"build_base": "build/sanitized" if SANITIZE else "build"}})
