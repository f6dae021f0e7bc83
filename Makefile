# Two commands do everything: `make run` and `make test`. Both set up .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test fast check fuzz soak benchmarks gaps violations robust headline clean

run: $(VENV)/installed  ## CFQ on COMPAS: no account, no network
	$(BIN)/cfq-bench run --method cfq --data compas

test: $(VENV)/installed  ## the test suite, on two processes
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --durations 10

fast: $(VENV)/installed  ## a minute of it, while one writes; needs no Chromium
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not slow"

check: $(VENV)/installed  ## what CI checks beside the tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fuzz: $(VENV)/installed  ## 20,000 overrides and YAML files that are wrong, for at most ten minutes
	CFQ_BENCH_FUZZ=20000 CFQ_BENCH_FUZZ_S=600 $(BIN)/python -m pytest -q -s tests/test_fuzz_settings.py

soak: $(VENV)/installed  ## suites and sweeps whose processes are killed at random, for ten minutes
	$(BIN)/python scripts/soak.py

benchmarks: $(VENV)/installed  ## speed, as ratios measured in one run
	$(BIN)/python -m benchmarks

gaps: $(VENV)/installed  ## the solvers against exact optima
	$(BIN)/python scripts/gap_report.py

violations: $(VENV)/installed  ## every solver's answers against every preset's text
	$(BIN)/python scripts/violations.py

headline: $(VENV)/installed  ## the README's table and figure, from nothing
	$(BIN)/cfq-bench suite headline --wandb disabled
	$(BIN)/python scripts/publish.py headline

robust: $(VENV)/installed  ## robust recourse, beside the paper's Table 13
	$(BIN)/python scripts/robust_table.py

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $@

clean:
	rm -rf $(VENV)
