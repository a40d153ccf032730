"""Settings for the tests with other people's libraries."""

import importlib.util

import pytest


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """The networks of tests are so small that PyTorch's threads only wait for each other."""
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)
