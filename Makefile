# `make demo` and `make test` need Python 3.11, git and make; everything else comes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: install extras demo test lint check bench lock clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml setup.py requirements.lock $(wildcard src/masp/native/kernels/*)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e ".[dev]"
	touch $@

# What the tests of the optional parts need.
extras: $(VENV)/.installed-extras

$(VENV)/.installed-extras: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock \
		-e ".[dev,atari,minatar,box2d,envpool,retro,minari,cluster]"
	touch $@

demo: install
	$(BIN)/masp demo

test: extras
	$(BIN)/python -m pytest -n 2

lint: extras
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

bench: install
	$(BIN)/masp bench overhead

# Writes the exact versions of what is installed now; no registry, no path.
lock: extras
	$(BIN)/python -m pip freeze --exclude-editable | LC_ALL=C sort -f > requirements.lock

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
