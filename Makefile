# From a bare machine to a result: `make run` searches for a faster kernel on an example, `make test` runs every check.
# Set-up happens once; the stamp files inside the virtual environment say what is done.
#
#   make run   TARGET=cpu EXAMPLE=examples/softcap_rmsnorm.py EVALUATIONS=30 MINUTES=1.0
#   make test  PYTEST_ARGS="-m 'not slow'"
#   make lint | setup | clean

SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help run test lint setup setup-dev compiler clean

VENV := .venv
BIN := $(VENV)/bin
# The CPU build where pip finds one; a torch that the system's Python already has is used as it is.
TORCH ?= torch==2.13.0
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

EXAMPLE ?= examples/softcap_rmsnorm.py
TARGET ?= auto
EVALUATIONS ?= 30
MINUTES ?= 1.0
PYTEST_ARGS ?=

# The first interpreter that is new enough. Looked for only when the virtual environment is made.
find_python = for python in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v $$python; break; }; done
PYTHON ?=

help:
	@sed -n '1,/^$$/s/^# \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

run: setup compiler
	$(BIN)/kernelevolve optimize $(EXAMPLE) --target $(TARGET) --evaluations $(EVALUATIONS) --minutes $(MINUTES) --out runs

test: lint compiler
	$(BIN)/python -m pytest -n 2 $(PYTEST_ARGS)

lint: setup-dev
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/mypy

setup: $(VENV)/.installed
setup-dev: $(VENV)/.installed-dev

compiler:
	@command -v "$${CXX:-g++}" >/dev/null || { \
		echo "There is no C++ compiler: kernels for the CPU are built with one." >&2; \
		echo "Install the Debian package g++ (sudo apt-get install g++), or set CXX to a compiler." >&2; exit 1; }

$(VENV)/.created:
	@python="$${PYTHON:-$(PYTHON)}"; python="$${python:-$$($(find_python))}"; \
	test -n "$$python" || { echo "There is no Python 3.11 or newer; install the Debian package python3." >&2; exit 1; }; \
	"$$python" -c 'import ensurepip' 2>/dev/null || { \
		echo "$$python cannot make virtual environments; install the Debian package python3-venv." >&2; exit 1; }; \
	if "$$python" -c 'import torch' 2>/dev/null; then site=--system-site-packages; else site=; fi; \
	echo "making $(VENV) with $$python $$site"; "$$python" -m venv $$site $(VENV)
	@touch $@

$(VENV)/.torch: $(VENV)/.created
	@$(BIN)/python -c 'import torch' 2>/dev/null || { echo "installing $(TORCH)"; $(PIP) install '$(TORCH)'; }
	@touch $@

$(VENV)/.installed: pyproject.toml $(VENV)/.torch
	@echo "installing kernelevolve"; $(PIP) install --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml $(VENV)/.installed
	@echo "installing the tools of development"; $(PIP) install --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
