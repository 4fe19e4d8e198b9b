# Two commands do all the set-up on a machine with Python, make and a C++ compiler: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt $(shell find src -type f -not -name '*.pyc')
NO_PYTHON := the venv module of $(PYTHON) is missing; on Debian and Ubuntu: apt-get install python3-venv

.PHONY: demo test test-long test-oldest sanitize lint format bench bench-all bench-parts clean

demo: $(VENV)/.demo
	$(BIN)/labelprism demo

test: $(VENV)/.test
	$(BIN)/python -m pytest

test-long: $(VENV)/.test
	$(BIN)/python -m pytest --long

# The oldest versions that we promise to work with, which Annif pins.
test-oldest: $(VENV)-oldest/.installed
	$(VENV)-oldest/bin/python -m pytest

sanitize: $(VENV)-sanitize/.installed
	tools/run_sanitized $(VENV)-sanitize/bin/python -m pytest tests/core tests/data/test_sparse_text.py tests/features/test_text_hasher.py tests/filters tests/heads tests/test_recipe.py tests/test_recipe_update.py tests/test_forged_models.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(wildcard src/core/*.[chi]*pp src/core/*.inl)
	$(BIN)/codespell

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(wildcard src/core/*.[chi]*pp src/core/*.inl)

# Beside other systems: BENCH_DATA are folders of npz files, and BENCH_COMMAND runs one system; see benchmarks/compare.py.
BENCH_DATA ?=
BENCH_COMMAND ?=
COMPARE = $(BIN)/python benchmarks/compare.py run build/results.jsonl $(BENCH_DATA) $(if $(BENCH_COMMAND),--command '$(BENCH_COMMAND)')
REPORT = $(BIN)/python benchmarks/compare.py report build/results.jsonl docs/benchmarks.md docs/pictures/benchmarks.svg

bench: $(VENV)/.bench
	mkdir -p build
	$(COMPARE) --systems small
	$(REPORT)

bench-all: $(VENV)/.bench
	mkdir -p build
	$(COMPARE) --systems all
	$(REPORT)

bench-parts: $(VENV)/.test
	$(BIN)/python benchmarks/kernels.py
	$(BIN)/python benchmarks/parser.py
	$(BIN)/python benchmarks/hasher.py
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/imports.py

clean:
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-sanitize build dist

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "labelprism needs Python 3.10 or newer")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "$(NO_PYTHON)"; exit 1; }

# One stamp per set of extras, renewed when a source file changes.
$(VENV)/.demo: EXTRAS = progress,zstd
$(VENV)/.test: EXTRAS = test
$(VENV)/.dev: EXTRAS = dev
$(VENV)/.bench: EXTRAS = bench
$(VENV)/.demo $(VENV)/.test $(VENV)/.dev $(VENV)/.bench: $(VENV)/bin/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[$(EXTRAS)]'
	touch $@

$(VENV)-oldest/.installed: $(SOURCES) tools/oldest.txt
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --disable-pip-version-check --constraint tools/oldest.txt '.[test]'
	touch $@

$(VENV)-sanitize/.installed: $(SOURCES)
	$(PYTHON) -m venv $(VENV)-sanitize
	$(VENV)-sanitize/bin/python -m pip install --quiet --disable-pip-version-check '.[test]' \
	    --config-settings=build-dir=build/sanitize --config-settings=cmake.define.LABELPRISM_SANITIZE=ON
	touch $@
