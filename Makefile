# Everything a developer or CI runs. `make` alone lists the targets.

SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV  := .venv
BIN   := $(VENV)/bin
READY := $(VENV)/.ready
UI_READY := $(VENV)/.ready-ui
MODELS_READY := $(VENV)/.ready-models
QUIET_PIP := --quiet --disable-pip-version-check --no-input
UV    := .cache/uv/bin/uv
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-header

# Tests start hundreds of processes: without kept bytecode, each compiles everything again.
unexport PYTHONDONTWRITEBYTECODE

# Extra arguments: make test ARGS="tests/domain -k decay", make run ARGS="--port 9000", make lock ARGS=--upgrade
ARGS ?=
YEARS ?= old hard
# tests/costs.py puts the longest groups first; pytest-xdist would put those with most tests first.
PYTEST = $(BIN)/python -m pytest -n auto --dist=loadgroup --no-loadscope-reorder

.PHONY: help venv run demo test test-long test-costs coverage test-chaos test-faults test-upgrade test-compat test-ui test-models test-client test-adapters bench bench-recall bench-lifecycle bench-forgetting bench-summaries check audit sbom format docs lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(READY) ## make .venv with the locked dependencies and the `ebbing` command
	@:

$(READY): ops/locks/dev.txt pyproject.toml client/pyproject.toml
	@set -e; \
	if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	    python="$(PYTHON)"; [ -n "$$python" ] || python=$$(sh ops/checks/find_python.sh); \
	    echo "Making $(VENV) with $$("$$python" --version), about a minute"; \
	    "$$python" -m venv --clear $(VENV); \
	fi; \
	$(BIN)/python -m pip install $(QUIET_PIP) --require-hashes -r ops/locks/dev.txt; \
	$(BIN)/python -m pip install $(QUIET_PIP) --no-deps --no-build-isolation -e . -e client; \
	touch $(READY)

run: venv ## start the whole service on this machine
	@$(BIN)/ebbing run $(ARGS)

demo: venv ## a guided tour with sample memories
	@$(BIN)/ebbing demo $(ARGS)

test: venv ## the tests, but for the longest; ARGS="-m 'not slow'" for the quick ones
	@$(PYTEST) -m "not long" $(ARGS)

test-long: venv ## the longest tests (killing under load, fuzzing, a simulated year, backups) and more random examples
	@EBBING_TEST_EXAMPLES=$${EBBING_TEST_EXAMPLES:-0.6} $(PYTEST) -m "long or drawn" $(ARGS)

test-costs: venv ## measure the tests' processor time and write which are slow or long (tests/slow_tests.txt); best on an idle machine
	@rm -rf .cache/test-costs; $(PYTEST) -m "not long" --costs=.cache/test-costs $(ARGS)
	@$(BIN)/python -m tests.costs .cache/test-costs

coverage: venv ## all tests, with branch coverage, which takes a third more time
	@$(PYTEST) --cov --cov-report=term $(ARGS)

test-chaos: venv ## faults of all kinds at random while the whole service works (ARGS="--minutes 30 --seed 1")
	@$(BIN)/python -m tests.chaos $(ARGS)

test-faults: venv ## many rounds of killing processes under load
	@$(BIN)/python -m pytest tests/faults --rounds=60 $(ARGS)

test-upgrade: venv ## an earlier version and this one on the same data under load, for some minutes (FROM=REVISION)
	@test -n "$(FROM)" || { echo "FROM is missing: make test-upgrade FROM=HEAD~20"; exit 2; }
	@$(BIN)/python -m ops.upgrade $(FROM) $(ARGS)

test-compat: venv ## memory-decay's own HTTP tests against this service (EBBING_MEMORY_DECAY_TESTS=/path/to/memory-decay-core)
	@test -n "$(EBBING_MEMORY_DECAY_TESTS)" || { echo "EBBING_MEMORY_DECAY_TESTS is missing: the path of a checkout of memory-decay-core"; exit 2; }
	@$(BIN)/python -m ops.compat "$(EBBING_MEMORY_DECAY_TESTS)" $(ARGS)

test-ui: $(UI_READY) ## every page of the dashboard in a browser, which it installs (pictures in .cache/pages)
	@browser=$$(sh ops/checks/install_chromium.sh $(BIN)/python) || exit 1; \
	EBBING_TEST_BROWSER="$$browser" $(BIN)/python -m pytest tests/ui --ui $(ARGS)

$(UI_READY): $(READY) ops/locks/ui.txt
	@$(BIN)/python -m pip install $(QUIET_PIP) --require-hashes -r ops/locks/ui.txt
	@touch $(UI_READY)

test-models: $(MODELS_READY) ## the tests of models in the process, with `sentence-transformers`, which it installs (6 GB)
	@$(BIN)/python -m pytest tests/models $(ARGS)

$(MODELS_READY): $(READY) ops/locks/models.txt
	@$(BIN)/python -m pip install $(QUIET_PIP) --require-hashes -r ops/locks/models.txt
	@touch $(MODELS_READY)

test-client: venv ## the Python client's tests with each interpreter at hand, on its wheel (needs a package index)
	@$(BIN)/python -m tests.client.interpreters

test-adapters: venv ## the client's adapters with each framework, which it installs into .cache/adapters (ARGS="-k langgraph")
	@$(BIN)/python -m pytest -n 0 -s tests/adapters/frameworks.py $(ARGS)

bench: venv ## speed, as ratios to the bare cost of the same work
	@$(BIN)/python -m ops.bench $(ARGS)

bench-recall: venv ## what searches find of the evidence in a dataset, by mode and beside baselines (DATA=PATH, ARGS="--help")
	@$(BIN)/python -m ops.recall $(if $(DATA),--data "$(DATA)") $(ARGS)

bench-lifecycle: venv ## simulated years under every model of forgetting, beside simpler ones (YEARS="old hard", ARGS="--seed 7")
	@for year in $(YEARS); do $(BIN)/ebbing simulate --profile all --year $$year $(ARGS) || exit; done

bench-forgetting: venv ## what conversations still answer after a year of forgetting, by profile and share kept (DATA=PATH, ARGS="--help")
	@$(BIN)/python -m ops.forgetting $(if $(DATA),--data "$(DATA)") $(ARGS)

bench-summaries: venv ## what summaries of labelled memories keep, by level, and by model or without
	@$(BIN)/python -m ops.summaries probes

check: venv ## style, types, arrows, dead code, file lengths, containers, licences, known vulnerabilities
	@$(BIN)/python -m ops.checks $(ARGS)

audit: venv ## known vulnerabilities alone; fails if any package could not be looked up (for releases)
	@$(BIN)/python -m ops.checks.audit

sbom: venv ## the software bill of materials of each runtime lock, as CycloneDX JSON (dist/sbom)
	@$(BIN)/python -m ops.checks.sbom $(ARGS)

format: venv ## put the code in the house style
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

docs: venv ## write the generated pages again
	@$(BIN)/python -m ops.checks.settings_page
	@$(BIN)/python -m ops.checks.dynamics_page
	@$(BIN)/python -m ops.checks.metrics_page
	@$(BIN)/python -m ops.checks.kubernetes_pages
	@$(BIN)/python -m ops.checks.architecture_picture
	@$(BIN)/python -m ops.checks.licences --write
	@$(BIN)/python -m ops.summaries ratings

lock: $(UV) ## resolve the dependencies again (ARGS=--upgrade for newer ones)
	@mkdir -p ops/locks
	@$(COMPILE) pyproject.toml --extra embedded --extra fastembed --group dev $(ARGS) -o ops/locks/dev.txt >/dev/null
	@$(COMPILE) pyproject.toml --extra embedded -c ops/locks/dev.txt -o ops/locks/run.txt >/dev/null
	@$(COMPILE) pyproject.toml -c ops/locks/dev.txt -o ops/locks/service.txt >/dev/null
	@$(COMPILE) --group build -c ops/locks/dev.txt -o ops/locks/build.txt >/dev/null
	@$(COMPILE) --group ui -c ops/locks/dev.txt $(ARGS) -o ops/locks/ui.txt >/dev/null
	@$(COMPILE) pyproject.toml --extra sentence-transformers -c ops/locks/dev.txt $(ARGS) -o ops/locks/models.txt >/dev/null
	@echo "Written: ops/locks/{dev,run,service,build,ui,models}.txt"

$(UV):
	@set -e; python=$$(sh ops/checks/find_python.sh); \
	"$$python" -m venv --clear .cache/uv; \
	.cache/uv/bin/python -m pip install $(QUIET_PIP) uv==0.13.8

clean: ## remove what was built, .venv too; data in .ebbing stays
	@rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	@find app workers migrations ops tests -name __pycache__ -type d -prune -exec rm -rf {} +
