# A fresh machine with Python >= 3.11 and make is enough: everything else lands in .venv.
PYTHON ?= python3
BIN := .venv/bin
OUT ?= results

.PHONY: reproduce demo test test-all test-machines coverage bench docs lint env clean lock

reproduce: env
	$(BIN)/manyone reproduce --out $(OUT)

# The engineer's path on an example table: model, scores, page.
demo: env
	$(BIN)/manyone demo --out demo

PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

# Under 8 minutes on two cores: all but the tests that are marked slow.
test: env
	$(PYTEST) -m "not slow"

# Every test.
test-all: env
	$(PYTEST)

# The numeric tests under other BLAS kernels, CPU features, threads and seeds: half an hour.
test-machines: env
	$(BIN)/python tests/machines.py

# Branches of the package, experiments left out; at least what pyproject.toml asks for.
coverage: env
	$(PYTEST) --cov --cov-report=term

bench: env
	$(BIN)/python benchmarks/run.py

docs: .venv/docs
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

env: .venv/ready

.venv/ready: requirements/dev.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24"
	$(BIN)/python -m pip install --quiet -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

.venv/docs: .venv/ready requirements/docs.txt
	$(BIN)/python -m pip install --quiet -r requirements/docs.txt
	touch $@

# Pin again, for every Python from 3.11 on.
lock: env
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate \
	  --extra all --extra test --extra lint \
	  --output-file requirements/dev.txt pyproject.toml requirements/build.in
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate \
	  --extra docs --extra plot --constraint requirements/dev.txt \
	  --output-file requirements/docs.txt pyproject.toml

clean:
	rm -rf .venv build dist docs/_build docs/auto_examples docs/generated
