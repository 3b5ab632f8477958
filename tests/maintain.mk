## for maintainers
# Part of the Makefile, which includes it: `make bench` runs from the top level.

.PHONY: bench fuzz validate test-azure golden damages faults mutants lock sbom audit clean

bench: setup ## measure speed and memory against the promised limits
	@$(BIN)/python -m pytest --quiet --capture=no tests/bench/bench_*.py $(ARGS)

fuzz: setup ## fuzz the log readers with damaged logs (SECONDS=60); installs atheris
	@VIRTUAL_ENV="$(CURDIR)/.venv" $(BIN)/uv pip install --quiet 'atheris==3.0.0'
	@$(BIN)/python -m tests.fuzz_parse -max_total_time=$(or $(SECONDS),60) -max_len=20000

validate: setup ## compare the statistics with what people use, on simulations with known truth (SAMPLES=400; as in docs/appendix)
	@$(BIN)/python -m tests.analysis.validate $(SAMPLES)

test-azure: setup .venv-azure/ready ## place two small VMs in YOUR Azure subscription, prove, measure and remove them (asks first; about 1 USD; writes azure-transcript.txt and .jsonl)
	@read -r -p "This makes two virtual machines in the subscription that az has selected, and costs about 1 USD. Type yes: " answer \
		&& [ "$$answer" = yes ] && NETPERF_AZURE=yes $(BIN)/python -m pytest -s tests/hosts/azure/test_real.py $(ARGS)

lock: ## update the lock files for the oldest supported Python
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11.2 --generate-hashes --no-emit-index-url --no-emit-find-links \
		--custom-compile-command "make lock" --extra lab --group dev --group docs pyproject.toml -o .ci/requirements.lock
	@echo 'azure-cli>=2.76' | $(BIN)/uv pip compile --quiet --universal --python-version 3.11.2 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" - -o .ci/requirements-azure.lock

sbom: setup ## write sbom.cdx.json: what the wheel installs, in the versions of the lock file (CycloneDX)
	@$(BIN)/uv pip compile --quiet --no-header --no-annotate --generate-hashes --constraint .ci/requirements.lock \
		--extra report pyproject.toml \
		| $(BIN)/uv tool run --quiet --from cyclonedx-bom==7.5.0 cyclonedx-py requirements - --pyproject pyproject.toml \
			--mc-type library --output-reproducible -o sbom.cdx.json

audit: setup ## look the locked packages up in the advisory list of PyPI; fails where one is not looked up
	@$(BIN)/uv tool run --quiet pip-audit==2.10.1 --strict --disable-pip --require-hashes -r .ci/requirements.lock
	@$(BIN)/uv tool run --quiet pip-audit==2.10.1 --strict --disable-pip --require-hashes -r .ci/requirements-azure.lock

golden: setup ## regenerate the expected results of the golden logs and show each difference
	@$(BIN)/python -m tests.tools.golden

damages: setup ## damage every line of every golden log, and list what is then silently wrong (10 min)
	@$(BIN)/python -m tests.tools.measure

faults: setup ## let every operation of an import, an ingest, a collection and a report fail, once (20 min)
	@NETPERF_FAULTS=every $(BIN)/python -m pytest -n 4 --dist load tests/data/test_faults.py -k each_operation

mutants: setup ## change the source of the readers in 300 places, and count the changes that turn no test red (an hour)
	@$(BIN)/python -m tests.tools.mutate $(ARGS)

clean: ## remove the environments and caches (measured data in results/ are kept)
	rm -rf .venv .venv-azure .mypy_cache .ruff_cache .pytest_cache .hypothesis
