# Two commands do all the set-up on a machine with Python, make and a C++ compiler: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt $(shell find src -type f -not -name '*.pyc')
NO_PYTHON := the venv module of $(PYTHON) is missing; on Debian and Ubuntu: apt-get install python3-venv

.PHONY: demo test test-long test-oldest test-annif annif-compare sanitize lint format bench bench-all bench-parts clean
.PHONY: wheel check-dist sbom licences check-release-files portability docs notebooks test-encoder

demo: $(VENV)/.demo
	$(BIN)/labelprism demo

test: $(VENV)/.test
	$(BIN)/python -m pytest

test-long: $(VENV)/.test
	$(BIN)/python -m pytest --long

# The example with the encoder, which `make test` skips; TORCH may name a build for CPUs.
TORCH ?= torch
test-encoder: $(VENV)/.encoder
	$(BIN)/python -m pytest tests/examples -k encoder

# The notebooks of examples/ anew, from the scripts beside them, with all of the data.
notebooks: $(VENV)/.encoder
	$(BIN)/python tools/notebooks.py

# The oldest versions that we promise to work with, which Annif pins.
test-oldest: $(VENV)-oldest/.installed
	$(VENV)-oldest/bin/python -m pytest

# The backend for Annif, against the real one; Annif pins old versions of much, so it has an environment of its own.
test-annif: $(VENV)-annif/.installed
	$(VENV)-annif/bin/python -m pytest contrib/annif

# The same projects with omikuji and with us; ANNIF_WORK is a folder for corpora, models and results.
ANNIF_WORK ?= build/annif
annif-compare: $(VENV)-annif/.installed
	$(VENV)-annif/bin/python -m pip install --quiet --disable-pip-version-check './contrib/annif[compare]'
	$(VENV)-annif/bin/python contrib/annif/compare.py run $(ANNIF_WORK)
	$(VENV)-annif/bin/python contrib/annif/compare.py report $(ANNIF_WORK)

sanitize: $(VENV)-sanitize/.installed
	tools/run_sanitized $(VENV)-sanitize/bin/python -m pytest tests/core tests/data/test_sparse_text.py tests/features/test_text_hasher.py tests/filters tests/heads tests/test_recipe.py tests/test_recipe_awkward_input.py tests/test_recipe_update.py tests/test_forged_models.py tests/test_scratch.py

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
	$(BIN)/python benchmarks/directory.py
	$(BIN)/python benchmarks/hasher.py
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/imports.py

# A release: docs/releasing.md. RELEASE_PYTHONS are the interpreters that wheels are built and tested for.
RELEASE_PYTHONS ?= $(PYTHON)
RELEASE := $(VENV)-release/bin/python

wheel: $(VENV)-release/.installed
	$(RELEASE) tools/release/build.py dist $(RELEASE_PYTHONS)
	$(RELEASE) tools/release/check.py dist $(RELEASE_PYTHONS)

check-dist: $(VENV)-release/.installed
	$(RELEASE) tools/release/check.py dist $(RELEASE_PYTHONS)

sbom: $(VENV)-release/.installed
	$(RELEASE) tools/release/sbom.py dist $(firstword $(RELEASE_PYTHONS))

licences: $(VENV)/.dev
	$(BIN)/python tools/release/licences.py write

check-release-files: $(VENV)/.dev $(VENV)-release/.installed
	$(BIN)/python tools/release/licences.py check
	$(RELEASE) tools/release/versions.py
	$(RELEASE) -m validate_pyproject pyproject.toml
	$(VENV)-release/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(VENV)-release/bin/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff
	for system in linux macos windows; do $(RELEASE) -m cibuildwheel --print-build-identifiers --platform $$system || exit; done

# The native core with other compilers and for other processors; tools/portability/check says what must be installed.
portability:
	tools/portability/check

# The documentation, into site/; a warning is an error. The variable silences a notice that is none of ours: Material for
# MkDocs gets fixes until May 2027, and has a successor.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean:
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-annif $(VENV)-release $(VENV)-sanitize build dist site

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "labelprism needs Python 3.10 or newer")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "$(NO_PYTHON)"; exit 1; }

# One stamp per set of extras, renewed when a source file changes.
$(VENV)/.demo: EXTRAS = progress,zstd
$(VENV)/.test: EXTRAS = test
$(VENV)/.dev: EXTRAS = dev
$(VENV)/.bench: EXTRAS = bench
$(VENV)/.docs: EXTRAS = docs
$(VENV)/.demo $(VENV)/.test $(VENV)/.dev $(VENV)/.bench $(VENV)/.docs: $(VENV)/bin/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[$(EXTRAS)]'
	touch $@

$(VENV)-release/.installed: tools/release/requirements.txt
	$(PYTHON) -m venv $(VENV)-release
	$(RELEASE) -m pip install --quiet --disable-pip-version-check --requirement tools/release/requirements.txt
	touch $@

$(VENV)/.encoder: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(TORCH)'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[encoder,examples,test]'
	touch $@

$(VENV)-oldest/.installed: $(SOURCES) tools/oldest.txt
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --disable-pip-version-check --constraint tools/oldest.txt '.[test]'
	touch $@

$(VENV)-annif/.installed: $(SOURCES) $(wildcard contrib/annif/pyproject.toml contrib/annif/annif_labelprism/*.py)
	$(PYTHON) -m venv $(VENV)-annif
	$(VENV)-annif/bin/python -m pip install --quiet --disable-pip-version-check . './contrib/annif[test]'
	touch $@

$(VENV)-sanitize/.installed: $(SOURCES)
	$(PYTHON) -m venv $(VENV)-sanitize
	$(VENV)-sanitize/bin/python -m pip install --quiet --disable-pip-version-check '.[test]' \
	    --config-settings=build-dir=build/sanitize --config-settings=cmake.define.LABELPRISM_SANITIZE=ON
	touch $@
