# `make demo` and `make test` set everything up by themselves, in .venv.
PYTHON ?= python3
BIN := .venv/bin
export HF_HUB_OFFLINE := 1

.PHONY: demo test test-slow lint docs bench bench-full bench-speed clean

demo: .venv/ready
	$(BIN)/reticent demo --out demo

test: .venv/ready
	$(BIN)/python -m pytest -q

test-slow: .venv/ready
	$(BIN)/python -m pytest -q -m slow

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/ready
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

# The paper's findings in minutes; data sets that are not in DATA are left out. See docs/reproducing-the-paper.md.
DATA ?= ../shared/data
bench: .venv/ready
	$(BIN)/reticent bench quick --data $(DATA) --out results/quick
	$(BIN)/reticent report results/quick

# Everything that needs neither a network nor a GPU: hours, resumable.
bench-full: .venv/ready
	$(BIN)/reticent bench all --data $(DATA) --out results/full --page docs/results.md
	$(BIN)/reticent report results/full

# The peers (Opacus, OpenDP, python-dp) are only needed here.
bench-speed: .venv/ready
	$(BIN)/pip install -q -c constraints.txt -e '.[speed]'
	$(BIN)/python benchmarks/speed.py docs/speed.md

# torch first, so that nothing that needs it brings another build.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt torch
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
