# `make demo` and `make test` need Python 3.11, git and make; everything else comes into .venv.
PYTHON ?= python3
CXX ?= c++
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock
SANITIZED := build/sanitized
INTEROP := .venv-interop

.PHONY: install extras demo test check interop bench docs sanitize lock clean

install: $(VENV)/.installed

# Reinstalls after any change in kernels/. Without a C++ compiler, everything works in plain JAX.
$(VENV)/.installed: pyproject.toml requirements.lock kernels/pyproject.toml kernels/setup.py \
		$(wildcard kernels/csrc/*) $(wildcard kernels/masp_kernels/*.py)
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e ".[dev]"
	@if echo 'int main() { return 0; }' | $(CXX) -std=c++17 -x c++ -o $(VENV)/.compiler-test - 2>/dev/null; then \
		rm -f $(VENV)/.compiler-test; \
		$(PIP) --force-reinstall --no-deps ./kernels; \
	else \
		$(BIN)/python -m pip uninstall --quiet --yes masp-kernels 2>/dev/null; \
		echo "no C++ compiler: installing without masp-kernels; everything works, training is slower"; \
	fi
	touch $@

# The packages that the tests of optional parts need.
extras: $(VENV)/.installed-extras

$(VENV)/.installed-extras: $(VENV)/.installed
	$(PIP) -e ".[dev,atari,minatar,box2d,envpool,retro,minari,wandb,mlflow,cluster,tune,video,docs]"
	touch $@

demo: install
	$(BIN)/masp demo

test: extras
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2

check: test

# Other people's agents (JAX, PyTorch, Stable-Baselines3, Optuna), their examples and sharing, in an environment of its own.
interop: $(INTEROP)/.installed
	$(INTEROP)/bin/python -m pytest -n 2 tests/interop tests/tuning tests/macros/test_vector.py \
		tests/library/test_sharing.py tests/similarity/test_meta_similarity.py \
		$(foreach name,dqn_purejaxrl dqn_cleanrl_jax macro_vector_env,"tests/test_examples.py::test_examples_run[$(name)]")

$(INTEROP)/.installed: pyproject.toml requirements.lock
	$(PYTHON) -m venv $(INTEROP)
	$(INTEROP)/bin/python -m pip install --quiet --disable-pip-version-check -c requirements.lock torch==2.13.0
	$(INTEROP)/bin/python -m pip install --quiet --disable-pip-version-check -c requirements.lock \
		-e ".[dev,torch,sb3,tune,hub]"
	touch $@

bench: install
	$(BIN)/masp bench overhead

# The documentation site, in build/docs; warnings are errors.
docs: extras
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/mkdocs build --strict

# The kernel tests under AddressSanitizer and UndefinedBehaviorSanitizer; Python's own leaks are not reported.
sanitize: install
	rm -rf $(SANITIZED)
	MASP_KERNELS_SANITIZE=1 $(PIP) --no-deps --target $(SANITIZED) ./kernels
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
	PYTHONPATH=$(SANITIZED) $(BIN)/python -m pytest kernels/tests

# Writes the exact versions of what is installed now; no registry, no path.
lock: extras
	$(BIN)/python -m pip freeze --exclude-editable | grep -v '^masp-kernels' | LC_ALL=C sort -f > requirements.lock

clean:
	rm -rf $(VENV) $(INTEROP) build dist kernels/build .pytest_cache .mypy_cache .ruff_cache
