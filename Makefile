# make demo   compile a kernel, print its CUDA, run it and check the result
# make test   everything that CI checks
# make docs   write the reference pages of dialects and passes
# make clean  remove what the targets above made
# All but clean set up .venv first; PYTHON=python3.12 chooses another interpreter (3.11 or newer).

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/deplodock.stamp
LIT_STAMP := .venv/lit.stamp
BYTECODE_STAMP := .venv/bytecode.stamp
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
RMS_NORM := torch.nn.RMSNorm(2048)(torch.randn(1,32,2048))

.PHONY: demo test docs lint types lit pytest setup clean

demo: $(STAMP)
	$(BIN)/deplodock run -c "$(RMS_NORM)" --ir cuda

test: lint types lit pytest

docs: $(STAMP)
	$(BIN)/python -m deplodock.tools.docs docs

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) build/types/deplodock
	$(BIN)/basedpyright

lit: $(LIT_STAMP)
	$(BIN)/lit test

# Each process has one core.
pytest: $(BYTECODE_STAMP)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n logical --dist worksteal

setup: $(STAMP) build/types/deplodock

# What lit needs comes first, so that lit runs while the rest is downloaded.
$(LIT_STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("deplodock needs Python 3.11 or newer: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --editable '.[lit]'
	touch $@

$(STAMP): $(LIT_STAMP)
	$(PIP) --editable '.[dev]'
	touch $@

# Of what pip installs, and would compile, tests import less than half. One process does that before several do it at
# the same time, each for itself; whether all tests can be collected, the run of them says.
$(BYTECODE_STAMP): $(STAMP)
	$(BIN)/pytest --collect-only -qq > /dev/null || true
	touch $@

# The type checker finds the package `deplodock` through this link, as the root folder is the package.
build/types/deplodock:
	mkdir -p $(@D)
	ln -sfn ../.. $@

clean:
	rm -rf .venv .lit .pytest_cache .ruff_cache .hypothesis build *.egg-info
