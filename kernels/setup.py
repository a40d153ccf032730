"""Builds the C++ library; everything else is in pyproject.toml.

`MASP_KERNELS_SANITIZE=1` builds with AddressSanitizer and UndefinedBehaviorSanitizer (`make sanitize`).
"""

import os
from pathlib import Path

from setuptools import Extension, setup

HERE = Path(__file__).parent
SOURCES = Path("csrc")
SANITIZE = (
    ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer", "-g", "-O1"]
    if os.environ.get("MASP_KERNELS_SANITIZE") == "1"
    else []
)

library = Extension(
    "masp_kernels._kernels",
    sources=[str(path.relative_to(HERE)) for path in sorted((HERE / SOURCES).glob("*.cpp"))],
    depends=[str(path.relative_to(HERE)) for path in sorted((HERE / SOURCES).glob("*.h"))],
    language="c++",
    extra_compile_args=["-std=c++17", "-O3", "-fno-math-errno", *SANITIZE],
    extra_link_args=["-pthread", *SANITIZE],
)

setup(ext_modules=[library])
