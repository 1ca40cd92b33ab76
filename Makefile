# Each target sets up what it needs: on a bare machine with Python 3.11+ and make, `make demo` or `make test` is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.ready-to-run
DEV := $(VENV)/.ready-to-develop
# Where the build of torch comes from: this one is for CPUs, and a tenth of the size of the one with CUDA.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
PIP = $(BIN)/python -m pip --disable-pip-version-check
INSTALL = $(PIP) install --quiet --no-compile

.PHONY: demo test check docs bench lock clean

demo: $(RUN)
	@bash examples/demo.sh

test: check docs
	$(BIN)/pytest -n auto --dist worksteal

check: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: $(DEV)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

bench: $(DEV)
	$(BIN)/python -m benchmarks

lock: $(DEV)
	$(BIN)/python scripts/lock.py

# The files of requirements hold everything, so that pip need not look for what a package depends on (--no-deps): where a
# package asks for another's extra, pip wants the newest version of that and refuses it for its missing hash.
# torch has no hash, since its build depends on where it comes from. Where that index cannot be reached, the build of
# the usual index takes its place, with all that it depends on: the build for CUDA wants a triton of its own, so that
# other constraints are left out.
$(RUN): pyproject.toml constraints.txt requirements/run.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "relatum needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	@echo 'Setting up $(VENV): PyTorch for CPUs and the packages that relatum needs (250 MB to download, 0.9 GB on disk).'
	@echo 'This takes about a minute, and longer on a slow network.'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --no-deps --constraint constraints.txt --index-url $(TORCH_INDEX) --retries 2 torch \
		|| { echo 'No CPU build of PyTorch at $(TORCH_INDEX): installing the usual build, which can be gigabytes.'; \
		$(INSTALL) "$$(grep '^torch==' constraints.txt)"; }
	$(INSTALL) --no-deps --require-hashes --requirement requirements/run.txt
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $(RUN)

$(DEV): $(RUN) requirements/dev.txt
	@echo 'Adding what the tests need: linters, spaCy, Ray, Spark, Playwright, Triton and more (another 3 GB on disk).'
	@echo 'This takes about a minute, and longer on a slow network.'
	$(INSTALL) --no-deps --require-hashes --requirement requirements/dev.txt
	@touch $(DEV)

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
