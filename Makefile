# make demo · make test · make docs · make bench: each sets up what it needs in .venv, and reuses it the next time.
# Needs Python (3.10 or newer, with venv), make and git. PYTHON=python3.12 chooses another one; DEVICES=2 runs the demo
# on two processes; WORKERS=8 runs the tests on eight.
PYTHON ?= python3
DEVICES ?= 1
WORKERS ?= 2
# Percent of lines and branches of the core: what holds, and is not to fall.
COVERED := 97
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OLDEST := .venv-oldest
UV := VIRTUAL_ENV=$(OLDEST) $(OLDEST)/bin/uv pip
TORCH ?= --torch-backend cpu
# Without compiled files, each worker and each process of a test compiles all sources anew, for 10 seconds and more.
unexport PYTHONDONTWRITEBYTECODE
# A file stays on one worker, with what it prepares once; files with slow tests start first.
TESTS := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo test quick coverage mutants oldest lint types native sanitized docs wheel rehearsal api bench clean

help:  ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /  /'

# Torch first and alone: pinned, so that no other package draws in a newer build of several gigabytes.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet 'pip>=25.1'  # the first that reads dependency groups
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all]' --group dev
	touch $@

demo: $(READY)  ## train on ICD-10-CM and report from head to tail, in under two minutes
	$(BIN)/python -m examples.icd10 --config configs/icd10.yaml --trainer.devices $(DEVICES) \
		$(if $(filter-out 1,$(DEVICES)),--trainer.strategy ddp)

test: $(READY)  ## run the tests
	$(TESTS)

quick: $(READY)  ## run the tests but for the slow ones
	$(TESTS) -m "not slow"

coverage: $(READY)  ## run the tests, and see that they take as many lines and branches of the core as ever
	$(TESTS) --cov=tailmetrics --cov-report=term:skip-covered --cov-fail-under=$(COVERED)

mutants: $(READY)  ## a sample of small mistakes: how many do the tests see? N=60 SEED=1
	$(BIN)/python tests/mutants.py

# uv alone resolves to lowest versions. The tests' own libraries are as new as these allow. On a machine that cannot reach
# the index of PyTorch's CPU builds: make oldest TORCH='--find-links FOLDER torch==VERSION'.
oldest:  ## run all tests with the lowest versions that pyproject.toml allows, in an environment of their own
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet uv
	$(UV) install --resolution lowest-direct $(TORCH) --editable '.[all]' 'pandas>=2.2' 'lightning>=2.6'
	$(UV) freeze --exclude-editable > $(OLDEST)/constraints.txt
	$(UV) install $(TORCH) --constraint $(OLDEST)/constraints.txt --group dev
	$(subst $(BIN),$(OLDEST)/bin,$(TESTS))

lint: $(READY)  ## style and format, spelling, and what is unsafe in workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/zizmor --offline --quiet .github

types: $(READY)  ## strict mypy
	$(BIN)/mypy

native: $(READY)  ## compile the C file of the ranking anew
	$(BIN)/python hatch_build.py

# Its library comes first in the process; what the interpreter itself never frees is no mistake of the C file.
sanitized: $(READY)  ## run the tests of the C file under the sanitizers of gcc: memory and undefined behaviour
	CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=all -g" ASAN_OPTIONS=detect_leaks=0 \
		LD_PRELOAD="$$(cc -print-file-name=libasan.so) $$(cc -print-file-name=libubsan.so)" \
		$(BIN)/python -m pytest --capture=no tests/ranking/test_kernels.py

docs: $(READY)  ## build the documentation; a broken link fails
	$(BIN)/zensical build --strict --clean

wheel: $(READY)  ## build the wheel, the same bytes from the same commit, and try it in an empty environment
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(BIN)/python tests/docs/try_wheel.py dist/*.whl

rehearsal: $(READY)  ## build in two fresh clones of the last commit, compare the bytes, and try each file
	$(BIN)/python .ci/release.py rehearse

api: $(READY)  ## what of the public API is broken since the last release
	$(BIN)/python .ci/release.py api

bench: $(READY)  ## measure by number of threads, beside peers and from files, and write the pages
	for what in .cores "" .files .memory .costs; do $(BIN)/python -m benchmarks$$what || exit 1; done

clean:  ## remove the environment and what was built
	rm -rf $(VENV) $(OLDEST) .cache dist site runs
