# make demo: set-up and the main job on the toy corpus.   make test: set-up and all tests.
# make lint: every linter.   make bench: how fast we are beside other programs, into .bench.
# PYTHON=python3.12 make …: with another interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CLI := $(BIN)/transformer-cli
DEMO := runs/demo
# Another interpreter, or other requirements, make the environment anew.
INSTALLED := $(VENV)/.installed-$(shell $(PYTHON) -c 'import sys; print(sys.implementation.cache_tag)')

.PHONY: setup demo test lint bench clean

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: setup
	$(CLI) vocab configs/toy.yaml --run-dir $(DEMO) --overwrite
	$(CLI) train configs/toy.yaml --run-dir $(DEMO)
	head -n 10 data/toy/test.de > $(DEMO)/ten.de
	$(CLI) translate $(DEMO) -i $(DEMO)/ten.de -o $(DEMO)/ten.en
	@echo; echo 'Ten sentences that training has not seen, and their translations:'
	@paste -d '\n' $(DEMO)/ten.de $(DEMO)/ten.en; echo
	$(CLI) evaluate $(DEMO) --split test

test: setup
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	$(CLI) train configs/multi30k_de_en_fast.yaml --precision bfloat16
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .bench build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
