# make demo: set-up and the main job on the toy corpus.   make test: set-up and all tests but the
# long ones.   make test-all: these too; an hour.   make lint: every linter.
# make setup: the environment with all extras and tools; make demo installs the package alone.
# make test-shuffled: as test, files and tests in a random order; SEED=… repeats one.
# make docs: the documents as a site with search, in .site.
# make pictures: README's recording and the charts of the documents, from a real run and their tables; two minutes.
# make bench: how fast we are beside other programs, into .bench; an hour, alone on the machine.
# make best: our best models of Multi30k, both ways; about 2½ hours on 2 CPU cores that
# multiply in bfloat16. Run it again to resume.
# make test-torchtext: vocabulary files read by torchtext, in an environment of its own (5 GB).
# PYTHON=python3.12 make …: with another interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CLI := $(BIN)/transformer-cli
DEMO := runs/demo
# Three processes on two cores (tests/conftest.py), and one thread each; who is done first takes over half of what another has.
SIDE_BY_SIDE := -n auto --dist worksteal
# Of the order of tests; all workers have the same, and make shows the command with it.
SEED ?= $(shell date +%s)
# The numbers that tests draw stay as they are.
SHUFFLED = -p randomly --randomly-dont-reset-seed --randomly-seed=$(SEED)
# With another interpreter or other requirements, make creates a new environment.
INSTALLED := $(VENV)/.installed-$(shell $(PYTHON) -c 'import sys; print(sys.implementation.cache_tag)')
EQUIPPED := $(VENV)/.equipped

# torchtext works with an old torch only, and that with an old Python.
TORCHTEXT := .torchtext-venv
OLD_PYTHON ?= python3.11

.PHONY: setup demo test test-shuffled test-all test-torchtext lint docs pictures bench best clean

setup: $(EQUIPPED)

$(INSTALLED): pyproject.toml constraints.txt
	@# Python 3.11's own pip takes a minute longer.
	$(PYTHON) -m venv --clear --upgrade-deps $(VENV)
	@# Metadata of earlier versions, which setuptools left here, would be read first.
	@rm -rf *.egg-info
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable .
	@touch $@

$(EQUIPPED): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[all]' --group dev
	@# As pip would, but on all cores, and without tests; some of what is there is for older Pythons.
	@$(BIN)/python -m compileall -qq -j 0 -x 'site-packages/.*/tests/' $(VENV)/lib || true
	@touch $@
	@echo 'ready: . $(BIN)/activate'

demo: $(INSTALLED)
	$(CLI) vocab configs/toy.yaml --run-dir $(DEMO) --overwrite --set training.epochs=10
	$(CLI) train configs/toy.yaml --run-dir $(DEMO) --set training.epochs=10
	head -n 10 data/toy/test.de > $(DEMO).de
	$(CLI) translate $(DEMO) -i $(DEMO).de -o $(DEMO).en
	@echo; echo 'Ten sentences that training has not seen, and their translations:'
	@paste -d '\n' $(DEMO).de $(DEMO).en; echo
	$(CLI) evaluate $(DEMO) --split test

test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(SIDE_BY_SIDE)

test-shuffled: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(SIDE_BY_SIDE) $(SHUFFLED)

test-all: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m ''

test-torchtext: setup $(TORCHTEXT)/.installed
	TORCHTEXT_PYTHON=$(TORCHTEXT)/bin/python $(BIN)/python -m pytest tests/text/test_torchtext.py

$(TORCHTEXT)/.installed:
	$(OLD_PYTHON) -m venv --clear $(TORCHTEXT)
	$(TORCHTEXT)/bin/python -m pip install --quiet torch==2.3.1 torchtext==0.18.0 'numpy<2'
	touch $@

docs: setup
	$(BIN)/python -m docs.site
	@echo 'open .site/index.html'

pictures: setup
	$(BIN)/python -m docs.charts
	$(BIN)/python -m docs.reliability_diagram
	$(BIN)/python -m docs.recording

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	$(CLI) train configs/multi30k_de_en_fast.yaml
	$(BIN)/python -m benchmarks

# Two models, each the other's helper: the strong models of both directions are trained once.
best: setup
	$(CLI) distill configs/distill/multi30k_de_en_best.yaml
	$(CLI) distill configs/distill/multi30k_en_de_best.yaml
	$(CLI) evaluate runs/distill/multi30k_de_en_best/student
	$(CLI) evaluate runs/distill/multi30k_en_de_best/student

clean:
	rm -rf $(VENV) $(TORCHTEXT) build *.egg-info .bench .site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
