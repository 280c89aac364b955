# Everything starts here: `make demo`, `make test`, `make ui`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help install demo test ui bench measure docs lint clean

help:
	@sed -n 's/^## //p' Makefile

## make install  environment and package in .venv
install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else "labeldp needs Python 3.11 to 3.13, but %s is %d.%d: make PYTHON=python3.11" % (sys.executable, *v))'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	infra/install.sh $(VENV)
	touch $@

## make demo     a sweep of ALIBI, AGIBI and randomized response on an embedded data set
demo: $(STAMP)
	$(BIN)/python sweeps/quickstart.py

## make ui       tracking pages on 127.0.0.1 of what the demo wrote; says what to click
ui: $(STAMP)
	$(BIN)/labeldp ui results/quickstart

## make test     the test suite, faults included, on two processes
test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

## make lint     ruff and mypy
lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

## make bench    every hot path against its reference: one table, and JSON; ONLY=posterior for one
bench: $(STAMP)
	$(BIN)/python -m tests.benchmarks.bench $(if $(ONLY),--only $(ONLY))

## make measure  the other measurements of tests/benchmarks: curves, frontiers, whole sweeps
measure: $(STAMP)
	$(BIN)/python -m pytest -m benchmark tests/benchmarks -s -o timeout=900 --deselect tests/benchmarks/test_hot_paths.py

## make docs     the documentation as a site, in site/
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

clean:
	rm -rf $(VENV) build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
