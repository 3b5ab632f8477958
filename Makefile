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

.PHONY: help setup report test soak test-azure validate validate-limits check bench bench-scale fuzz docs workshop notebooks golden mutants damages lock sbom audit clean

help: ## show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | while IFS=$$'\t' read -r t d; do printf '  make %-12s %s\n' "$$t" "$$d"; done

setup: .venv/ready ## build .venv and install missing measuring tools (with apt, where permitted)

.venv/ready: requirements.lock pyproject.toml .ci/system-tools .ci/unpack-tools
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11, 2) or sys.exit("netperf_lib needs Python 3.11.2 or later, and this is " + sys.version.split()[0] + ": make PYTHON=/path/to/another/python3")'
	@echo "setup 1/4: looking for the measuring tools"
	@PYTHON=$(PYTHON) bash .ci/system-tools
	@echo "setup 2/4: making .venv"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv 2>/dev/null || $(PYTHON) -m venv --without-pip .venv # pip was unpacked
	@PYTHONPATH="$$(ls .venv/tools/usr/share/python-wheels/pip-*.whl 2>/dev/null)" $(BIN)/python -m pip install --quiet --disable-pip-version-check '$(UV)'
	@echo "setup 3/4: installing $$(grep -c == requirements.lock) packages, the longest step (some minutes)"
	@VIRTUAL_ENV="$(CURDIR)/.venv" $(BIN)/uv pip install --quiet --compile-bytecode --require-hashes -r requirements.lock
	@echo "setup 4/4: installing netperf_lib"
	@VIRTUAL_ENV="$(CURDIR)/.venv" $(BIN)/uv pip install --quiet --no-deps --editable .
	@touch $@

report: setup ## measure the local lab and write report.pdf (ROUNDS=24 DURATION=10 for a longer measurement)
	@$(BIN)/npl plan $(EXPERIMENT) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(DURATION),--duration $(DURATION)) | sed -e 's/, seed.*//' -e 3q
	@$(BIN)/npl run $(EXPERIMENT) --root $(ROOT) --anew --or-recorded --pdf report.pdf \
		$(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(DURATION),--duration $(DURATION))

# two more than processors, as tests wait for a third of their time and more; JOBS=0: one after another
JOBS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1); echo $$((n < 6 ? n + 2 : 8)))

test: setup .venv-azure/ready ## run the tests, JOBS at a time (default: number of processors plus two, at most 8)
	@$(BIN)/python -m pytest -n $(JOBS) --durations=10 $(ARGS)

soak: setup ## kill the collector, then every command, 50 times at random moments, and let each operation on a file fail (KILLS=… SEED=…)
	@KILLS=$(or $(KILLS),50) SEED=$(or $(SEED),1) FAULTS=all $(BIN)/python -m pytest tests/measure/test_collector.py tests/measure/test_soak.py tests/data/test_faults.py -k "killed_at_any_moment or may_fail" $(ARGS)

bench: setup ## measure speed and memory against the promised limits
	@$(BIN)/python -m pytest --quiet --capture=no tests/bench/bench_*.py $(ARGS)

fuzz: setup ## fuzz the log readers with damaged logs (SECONDS=60); installs atheris
	@VIRTUAL_ENV="$(CURDIR)/.venv" $(BIN)/uv pip install --quiet 'atheris==3.0.0'
	@$(BIN)/python tests/fuzz_parse.py -max_total_time=$(or $(SECONDS),60) -max_len=20000

validate: setup ## compare the statistics with what people use on simulations with known truth, and write the page of the documentation (SEED=… repeats one)
	@$(BIN)/python -m tests.analysis.validate --write $(if $(SEED),--seed $(SEED))
	@$(BIN)/python -m tests.analysis.series_yardstick

validate-limits: setup ## plant what holds a transfer back in the lab and write into the documentation how often it is named (needs root; 20 min)
	@$(BIN)/python -m tests.analysis.limits_matrix --write

# The command line of Azure, which the tests run against an emulated cloud: large, so apart from .venv, and compiled only
# where it is used: to compile all of it took 18 s.
.venv-azure/ready: requirements-azure.lock .venv/ready
	@echo "setup: installing the command line of Azure for the tests"
	@$(BIN)/uv venv --quiet --allow-existing --python "$(CURDIR)/$(BIN)/python" .venv-azure
	@VIRTUAL_ENV="$(CURDIR)/.venv-azure" $(BIN)/uv pip install --quiet --require-hashes -r requirements-azure.lock
	@touch $@

test-azure: setup .venv-azure/ready ## place two small VMs in YOUR Azure subscription, prove, measure and remove them (asks first; about 1 USD; writes azure-transcript.txt and .jsonl)
	@read -r -p "This makes two virtual machines in the subscription that az has selected, and costs about 1 USD. Type yes: " answer \
		&& [ "$$answer" = yes ] && NETPERF_AZURE=yes $(BIN)/python -m pytest -s tests/hosts/azure/test_real.py $(ARGS)

check: setup ## run lint, format and type checks
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

docs: setup ## build the documentation and the executed notebooks into docs/_build/html
	@$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@made="$$($(BIN)/npl report data/recorded/lab-full --to html | tail -1)" && cp "$$made" "$$(dirname "$$made")/explorer.html" docs/_build/html

workshop: setup ## generate the lessons from their solutions; write slides and a handout to docs/_build/workshop
	@$(BIN)/python docs/workshop.py docs/_build/workshop

notebooks: setup ## open the notebooks in JupyterLab
	@JUPYTER_PATH="$(CURDIR)/notebooks/workshop/jupyter" $(BIN)/jupyter lab notebooks --Application.log_level=ERROR --LabApp.app_settings_dir=$(CURDIR)/notebooks/workshop $(if $(filter 0,$(shell id -u)),--allow-root) $(ARGS)

lock: ## update the lock files for the oldest supported Python
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11.2 --generate-hashes --no-emit-index-url --no-emit-find-links \
		--custom-compile-command "make lock" --extra lab --group dev --group docs pyproject.toml -o requirements.lock
	@echo 'azure-cli>=2.76' | $(BIN)/uv pip compile --quiet --universal --python-version 3.11.2 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" - -o requirements-azure.lock

sbom: setup ## write sbom.cdx.json: what the wheel installs, in the versions of the lock file (CycloneDX)
	@$(BIN)/uv pip compile --quiet --no-header --no-annotate --generate-hashes --constraint requirements.lock \
		--extra report pyproject.toml \
		| $(BIN)/uv tool run --quiet --from cyclonedx-bom==7.5.0 cyclonedx-py requirements - --pyproject pyproject.toml \
			--mc-type library --output-reproducible -o sbom.cdx.json

audit: setup ## look the locked packages up in the advisory list of PyPI; fails where one is not looked up
	@$(BIN)/uv tool run --quiet pip-audit==2.10.1 --strict --disable-pip --require-hashes -r requirements.lock
	@$(BIN)/uv tool run --quiet pip-audit==2.10.1 --strict --disable-pip --require-hashes -r requirements-azure.lock

clean: ## remove the environments and caches (measured data in results/ are kept)
	rm -rf .venv .venv-azure .mypy_cache .ruff_cache .pytest_cache .hypothesis

golden: setup ## regenerate the expected results of the golden logs and show each difference; ANEW=1 measures the conformance corpus first (as root, 20 min)
	@$(if $(ANEW),$(BIN)/python -m tests.tools.conformance)
	@$(BIN)/python -m tests.tools.golden

damages: setup ## damage every line of every golden log, and list what is then silently wrong (10 min)
	@$(BIN)/python -m tests.tools.measure

mutants: setup ## change the source of the readers in 300 places, and count the changes that turn no test red (an hour)
	@$(BIN)/python -m tests.tools.mutate $(ARGS)

bench-scale: setup ## measure ingest, load and storage with up to 10^5 runs (about half an hour, temporarily 3 GB of disk)
	@$(BIN)/python -m tests.bench.scale $(ARGS)
