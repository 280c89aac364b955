# Everything starts here: `make demo`, `make test`, `make ui`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SUITE := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

.PHONY: help install demo check test test-all slim tables compare-rivals faults mutants ui bench measure docs release lint clean

help:
	@sed -n 's/^## //p' Makefile

## make install  environment and package in .venv
install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else "labeldp needs Python 3.11 to 3.13, but %s is %d.%d: make PYTHON=python3.11" % (sys.executable, *v))'
	$(BIN)/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	infra/install.sh $(VENV)
	touch $@

## make demo     ALIBI, PATE and LP-MST beside the default, on an embedded data set
demo: $(STAMP)
	$(BIN)/python sweeps/quickstart.py

## make ui       tracking pages on 127.0.0.1 of what the demo wrote; says what to click
ui: $(STAMP)
	$(BIN)/labeldp ui results/quickstart

## make check    linters, types and quick tests, without Ray or other processes: a minute or two
check: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow and not benchmark and not fault"

## make test     all tests but the longest, without a cluster, on three processes: six to eight minutes
test: $(STAMP)
	$(SUITE) -m "not long and not benchmark and not fault"

## make test-all the whole suite, with pages, sweeps, nodes and kills: half an hour
test-all: $(STAMP)
	$(SUITE)

## make faults   kills at random times, at the last writes, of every process of a sweep; an hour
faults: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m fault tests/faults
	$(BIN)/python -m tests.benchmarks.fault_table --kills 60
	$(BIN)/python -m tests.benchmarks.fault_table --kills 40 --at-the-end

## make slim     install the wheel with infra/slim.txt into an empty environment, and use it
slim: $(STAMP)
	$(BIN)/python -m pytest -m benchmark tests/test_slim.py -s

## make lint     ruff, plain code, mypy, and who may import whom (import-linter)
lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.plain_code
	$(BIN)/mypy
	rm -rf build/imports && mkdir -p build/imports && cp -rL labeldp build/imports
	find build/imports -mindepth 1 -type d -exec touch {}/__init__.py ';'
	cd build/imports && PYTHONPATH=. ../../$(BIN)/lint-imports --config ../../pyproject.toml --no-cache

## make bench    every hot path against its reference: one table, and JSON; ONLY=posterior for one
bench: $(STAMP)
	$(BIN)/python -m tests.benchmarks.bench $(if $(ONLY),--only $(ONLY))

## make measure  the other measurements: canaries, rates
measure: $(STAMP)
	$(BIN)/python -m pytest -m benchmark tests/benchmarks tests/mechanisms -s -o timeout=900

## make tables   the default beside simple ways on tables of other people: writes docs/tables.md
tables: $(STAMP)
	$(BIN)/python -m tests.benchmarks.tables

## make compare-rivals  the same tasks by other libraries, in environments of their own
compare-rivals: $(STAMP)
	$(BIN)/python -m tests.benchmarks.rivals

## make mutants  change lines that a guarantee rests on, and list the changes no test notices; hours
mutants: $(STAMP)
	mkdir -p build/mutants
	cp -rL labeldp tests sweeps docs infra pyproject.toml build/mutants
	cd build/mutants && OMP_NUM_THREADS=1 ../../$(BIN)/mutmut run $(ONLY); ../../$(BIN)/mutmut results

## make docs     the documentation as a site, in site/
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

## make release  files of a version: built, installed on the oldest and newest Python, tried, signed
release: $(STAMP)
	$(BIN)/python infra/release.py $(foreach version,$(PYTHONS),--python $(version)) $(if $(KEY),--key $(KEY)) $(if $(TO),--to $(TO))

clean:
	rm -rf $(VENV) build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
