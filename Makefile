# `make demo` and `make test` set everything up by themselves, in .venv.
PYTHON ?= python3
BIN := .venv/bin
export HF_HUB_OFFLINE := 1

.PHONY: demo test test-slow lint docs bench-speed clean

demo: .venv/ready
	$(BIN)/reticent attack labels
	$(BIN)/reticent plan --epsilon 1 --delta 1e-5 --class-size 100 --tasks 12

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

# The peers (Opacus, OpenDP, python-dp) are only needed here; torch first, so that nothing brings another build.
bench-speed: .venv/ready
	$(BIN)/pip install -q -c constraints.txt torch
	$(BIN)/pip install -q -c constraints.txt -e '.[speed]'
	$(BIN)/python benchmarks/speed.py

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
