"""The penalty and its exact meta-gradient for PyTorch agents; needs the extra `torch`."""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("masp.torch needs PyTorch: pip install 'masp-rl[torch]'") from error

from masp.torch.meta_similarity import MetaSimilarity as MetaSimilarity

__all__ = ["MetaSimilarity"]
