# `make demo` and `make test` set everything up by themselves, in .venv.
PYTHON ?= python3
BIN := .venv/bin
export HF_HUB_OFFLINE := 1

.PHONY: demo test test-slow lint docs bench-speed clean

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
