# Everything starts from a bare clone with python3 >= 3.11 and make: the first run builds .venv from the pinned,
# hashed files in requirements/, and nothing else is downloaded.

.PHONY: help demo test test-all bench check format docs lock setup clean
.DEFAULT_GOAL := help

# Override to choose: make test PYTHON=python3.12
PYTHON ?=
# Set to leave out of `make test-all` what `make test` has just run.
SKIP_FAST ?=
# make demo ALL=1: through every provider.
ALL ?=
# More arguments for pytest, for example: make test ARGS="-k backoff -x"
ARGS ?=
WORKERS ?= 4
# make bench PARTS="deliver latency" RUNS=5: what to measure (all parts by default) and how many rounds of it.
PARTS ?=
RUNS ?= 5
COMPARES := $(if $(PARTS),$(filter deliver,$(PARTS)),deliver)

VENV := .venv
BIN := $(VENV)/bin
BENCH_VENV := .venv-bench
NODE := benchmarks/peers/node
UV := UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv --quiet --no-progress
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

FAST := not slow and not debian
# The pure rooms carry 100 % branch coverage, so their tests run apart, with the tracer on.
PURE := $(wildcard tests/model tests/core tests/providers)
PURE_SOURCES := src/ringonce/model/*,src/ringonce/core/*,src/ringonce/providers/*
# What other Python versions have to prove: logic, statements, protocols; not the long end-to-end runs.
SUBSET := $(wildcard tests/model tests/core tests/providers tests/store tests/wire tests/engine tests/cli tests/servers)
OTHERS := 3.12 3.13

help:
	@echo "make demo      the whole thing against local flaky servers, in a minute; ALL=1: through every provider"
	@echo "make test      the tests (12 minutes on two cores)"
	@echo "make test-all  also the slow ones, those that need Debian packages, and other Python versions (45 minutes)"
	@echo "make bench     measure; PARTS=\"deliver latency\" and RUNS=5 choose, ARGS=--keep keeps it for the documentation"
	@echo "make check     lint, format, types, layers, documentation"
	@echo "make format    let the formatter rewrite the code"
	@echo "make docs      write the generated pages and build the documentation into site/"
	@echo "make lock      pin the requirements anew"
	@echo "make clean     remove what make made"

# --------------------------------------------------------------------------------------------------------------- set-up

$(VENV)/.uv: requirements/uv.txt
	@found=; for python in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "ringonce needs Python 3.11 or newer, and none is on PATH (tried python3, python3.13, python3.12, python3.11)." >&2; \
	  echo "Name yours: make PYTHON=/path/to/python3.12" >&2; exit 1; \
	fi; \
	if ! $$found -c 'import venv, ensurepip' >/dev/null 2>&1; then \
	  echo "$$found has no venv module. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; \
	fi; \
	echo "Setting up $(VENV) with $$($$found --version)"; \
	$$found -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@touch $@

$(VENV)/.run: requirements/run.txt $(VENV)/.uv
	@$(UV) pip install --require-hashes -r requirements/run.txt
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	@$(UV) pip install --require-hashes -r requirements/dev.txt
	@touch $@

# hatchling is pinned and already there, so the build is not isolated: nothing unpinned is fetched.
$(VENV)/.package: pyproject.toml $(VENV)/.run
	@$(UV) pip install --no-deps --no-build-isolation --editable .
	@touch $@

setup: $(VENV)/.dev $(VENV)/.package

# What the benchmarks compare with: Python programs in an environment of their own, those for Node beside it.
$(BENCH_VENV)/.ready: requirements/bench.txt $(VENV)/.uv
	@echo "Setting up $(BENCH_VENV)"
	@$(BIN)/python -m venv --clear --without-pip $(BENCH_VENV)
	@UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV=$(CURDIR)/$(BENCH_VENV) $(BIN)/uv --quiet --no-progress pip install --require-hashes \
	  -r requirements/bench.txt
	@touch $@

$(NODE)/node_modules/.ready: $(NODE)/package.json $(NODE)/package-lock.json
	@if command -v npm >/dev/null; then cd $(NODE) && npm ci --silent --no-audit --no-fund; \
	else echo "npm is not on PATH: the peers for Node are left out" >&2; mkdir -p $(@D); fi
	@touch $@

# ----------------------------------------------------------------------------------------------------------------- runs

demo: $(VENV)/.package
	@$(BIN)/ringonce demo $(if $(ALL),--all) $(ARGS)

test: setup
	$(PYTEST) -m "$(FAST)" $(addprefix --ignore=,$(PURE)) $(ARGS)
ifneq ($(PURE),)
	$(PYTEST) -m "$(FAST)" $(PURE) --cov --cov-branch --cov-report= $(ARGS)
	$(BIN)/coverage report --include='$(PURE_SOURCES)' --fail-under=100
endif
	@echo "Not run here, but by make test-all:"
	@$(BIN)/python -m pytest --collect-only -qq -m "slow or debian" || [ $$? -eq 5 ]

test-all: setup
ifeq ($(SKIP_FAST),)
	$(MAKE) test
endif
	$(PYTEST) -m "slow or debian" $(ARGS)
ifneq ($(wildcard tests/store),)
	RINGONCE_TEST_PG_BIN=embedded $(PYTEST) -m "$(FAST)" tests/store $(ARGS)
endif
	@for version in $(OTHERS); do \
	  found=; for python in python$$version $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$version.*/bin/python; do \
	    if $$python -c 'import venv, ensurepip' >/dev/null 2>&1; then found=$$python; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then echo "Python $$version is not installed here: skipped"; continue; fi; \
	  echo "Python $$version: $(SUBSET)"; \
	  $$found -m venv --clear --without-pip .venv-$$version || exit 1; \
	  export UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV=$(CURDIR)/.venv-$$version; \
	  $(BIN)/uv --quiet pip install --require-hashes -r requirements/dev.txt || exit 1; \
	  $(BIN)/uv --quiet pip install --no-deps --no-build-isolation --editable . || exit 1; \
	  .venv-$$version/bin/python -m pytest -n $(WORKERS) --dist loadgroup -m "$(FAST)" $(SUBSET) || exit 1; \
	done

bench: setup $(if $(COMPARES),$(BENCH_VENV)/.ready $(NODE)/node_modules/.ready)
	$(BIN)/python -m benchmarks.run $(PARTS) --runs $(RUNS) $(ARGS)

check: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.docs --check --build

format: setup
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: setup
	$(BIN)/python -m tools.docs --build

# ---------------------------------------------------------------------------------------------------------------- upkeep

# No index address, no local path: the files work with whatever index the reader's own tools use.
lock: $(VENV)/.uv
	cd requirements && PATH="$(CURDIR)/$(BIN):$$PATH" && export UV_PYTHON_DOWNLOADS=never UV_CUSTOM_COMPILE_COMMAND="make lock" && \
	compile="uv --quiet pip compile --no-config --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate" && \
	$$compile $(ARGS) uv.in -o uv.txt && $$compile $(ARGS) run.in -o run.txt && $$compile $(ARGS) -c run.txt dev.in -o dev.txt && \
	$$compile $(ARGS) bench.in -o bench.txt

clean:
	rm -rf $(VENV) $(BENCH_VENV) $(NODE)/node_modules $(addprefix .venv-,$(OTHERS)) build dist site .coverage .coverage.* .pytest_cache .mypy_cache \
	  .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
