# `make` alone explains itself. Everything runs in .venv, which `make setup` builds.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
EXPERIMENT ?= data/experiments/lab.yaml
ROOT ?= results
# Hundreds of processes of the tests would compile the library and each test anew.
unexport PYTHONDONTWRITEBYTECODE
# uv brings certificates of its own; those of the system are the ones that know a company's proxy.
export UV_SYSTEM_CERTS := 1
UV := uv==0.13.9

.PHONY: help setup report test test-all check docs workshop notebooks

help: ## show this help
	@sed -nE -e 's/^## (.*)/\n\1/p' -e 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

setup: .venv/ready ## build .venv and install missing measuring tools (with apt, where permitted)

.venv/ready: .ci/requirements.lock pyproject.toml .ci/system-tools .ci/unpack-tools
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11, 2) or sys.exit("netperf_lib needs Python 3.11.2 or later, and this is " + sys.version.split()[0] + ": make PYTHON=/path/to/another/python3")'
	@echo "setup 1/4: looking for the measuring tools"
	@PYTHON=$(PYTHON) bash .ci/system-tools
	@echo "setup 2/4: making .venv"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv 2>/dev/null || $(PYTHON) -m venv --without-pip .venv # pip was unpacked
	@PYTHONPATH="$$(ls .venv/tools/usr/share/python-wheels/pip-*.whl 2>/dev/null)" $(BIN)/python -m pip install --quiet --disable-pip-version-check '$(UV)'
	@echo "setup 3/4: installing $$(grep -c == .ci/requirements.lock) packages, the longest step (some minutes)"
	@VIRTUAL_ENV="$(CURDIR)/.venv" $(BIN)/uv pip install --quiet --compile-bytecode --require-hashes -r .ci/requirements.lock
	@echo "setup 4/4: installing netperf_lib"
	@VIRTUAL_ENV="$(CURDIR)/.venv" $(BIN)/uv pip install --quiet --no-deps --editable .
	@touch $@

report: setup ## measure the local lab and write report.pdf (ROUNDS=24 DURATION=10 for a longer measurement)
	@$(BIN)/npl plan $(EXPERIMENT) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(DURATION),--duration $(DURATION)) | sed -e 's/, seed.*//' -e 3q
	@$(BIN)/npl run $(EXPERIMENT) --root $(ROOT) --anew --or-recorded --pdf report.pdf \
		$(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(DURATION),--duration $(DURATION))

# two more than processors, as tests wait for a third of their time and more; JOBS=0: one after another
JOBS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1); echo $$((n < 6 ? n + 2 : 8)))

TESTS := $(BIN)/python -m pytest -n $(JOBS) --durations=10

test: setup .venv-azure/ready ## run the tests and the checks, JOBS at a time (ARGS=… runs some tests alone)
	@$(TESTS) -m 'not slow' $(ARGS)

test-all: setup .venv-azure/ready ## run what `make test` leaves out: loops over every fault, kills, every notebook
	@$(TESTS) -m slow $(ARGS)

# The command line of Azure, which the tests run against an emulated cloud: large, so apart from .venv, and compiled only
# where it is used: to compile all of it took 18 s.
.venv-azure/ready: .ci/requirements-azure.lock .venv/ready
	@echo "setup: installing the command line of Azure for the tests"
	@$(BIN)/uv venv --quiet --allow-existing --python "$(CURDIR)/$(BIN)/python" .venv-azure
	@VIRTUAL_ENV="$(CURDIR)/.venv-azure" $(BIN)/uv pip install --quiet --require-hashes -r .ci/requirements-azure.lock
	@touch $@

check: setup ## run lint, format and type checks
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

docs: setup ## build the documentation and the executed notebooks into docs/_build/html
	@$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	@made="$$($(BIN)/npl report data/recorded/lab-full --to html | tail -1)" && cp "$$made" "$$(dirname "$$made")/explorer.html" docs/_build/html

workshop: setup ## generate the lessons from their solutions; write slides and a handout to docs/_build/workshop
	@$(BIN)/python docs/workshop.py docs/_build/workshop

notebooks: setup ## open the notebooks in JupyterLab
	@JUPYTER_PATH="$(CURDIR)/notebooks/workshop/jupyter" $(BIN)/jupyter lab notebooks --Application.log_level=ERROR --LabApp.app_settings_dir=$(CURDIR)/notebooks/workshop $(if $(filter 0,$(shell id -u)),--allow-root) $(ARGS)

-include tests/maintain.mk
