"""The experiments themselves, one module per family; each module has a dictionary `EXPERIMENTS` by name."""
