# `make demo` and `make test` set up everything they need; they require Python 3.11, make, and Java for METEOR.
# Stamp files record what is set up already.

PYTHON ?= python3.11
VENV ?= .venv

PIP = $(BIN)/python -m pip install --disable-pip-version-check --quiet $(PIP_OPTIONS)
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif

# Number of test processes: one more than two cores, because tests also wait. Each uses one thread, because
# spinning OpenMP threads slow each other down.
JOBS ?= 3
# Fuzzing runs separately: make fuzz.
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --ignore=tests/fuzz
# Tests start many processes; without bytecode files each of them would compile all modules.
test quick fuzz: export PYTHONDONTWRITEBYTECODE =
test quick fuzz: export OMP_NUM_THREADS = 1
test quick fuzz: export OMP_WAIT_POLICY = PASSIVE

.PHONY: help demo test quick fuzz lint format install plugin docs lock sbom audit clean

help:
	@echo "make demo     render two scenes, find and describe the changes"
	@echo "make test     all tests that this machine can run"
	@echo "make quick    the fast tests, in two minutes on two cores"
	@echo "make fuzz     damaged files for every parser, in about a minute"
	@echo "make lint     ruff and mypy"
	@echo "make format   format the code"
	@echo "make install  everything for development, in $(VENV)"
	@echo "make plugin   build/rscc_changes.zip, the QGIS plugin"
	@echo "make docs     build/site, the pages of docs/ as a site"
	@echo "make lock     requirements/lock.txt, the base install pinned by hashes"
	@echo "make sbom     sbom.json, the contents of the base install (CycloneDX)"
	@echo "make audit    known vulnerabilities of the base install, from the package index"
	@echo "make clean    remove $(VENV), the demo and the caches"
	@echo "PYTHON=...    interpreter to use (now: $(PYTHON)), 3.11 or newer"

# Installed as by a user, without the training libraries.
demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py demo

test: $(VENV)/.installed-dev
	$(PYTEST) $(PYTEST_OPTIONS)

quick: $(VENV)/.installed-dev
	$(PYTEST) -m "not slow and not real and not qgis and not chromium and not kills" $(PYTEST_OPTIONS)

fuzz: $(VENV)/.installed-dev
	$(BIN)/python -m pytest tests/fuzz $(PYTEST_OPTIONS)

lint: $(VENV)/.installed-dev
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy

format: $(VENV)/.installed-dev
	$(BIN)/python -m ruff format .
	$(BIN)/python -m ruff check --fix .

install: $(VENV)/.installed-dev

plugin:
	@mkdir -p build
	$(PYTHON) qgis_plugin/make_zip.py build/rscc_changes.zip

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "rscc needs Python 3.11 or newer, not '$(PYTHON)'; name another, as in make PYTHON=python3.12 demo" >&2; \
		exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml
	$(PIP) -e .
	@touch $@

# The parser is installed first, so that its hash is checked before another package can require it.
$(VENV)/.installed-dev: $(VENV)/.created pyproject.toml requirements/parser.txt
	$(PIP) --no-deps --require-hashes -r requirements/parser.txt
	$(PIP) -e '.[dev]'
	@touch $(VENV)/.installed $@

# Tools that the tests do not need, in their own environment.
build/tools/.installed:
	$(PYTHON) -m venv build/tools
	build/tools/bin/python -m pip install --disable-pip-version-check --quiet uv cyclonedx-bom pip-audit
	@touch $@

# Strict: pages outside the menu and broken links are errors.
docs: build/docs-tools/.installed
	build/docs-tools/bin/mkdocs build --strict --quiet

build/docs-tools/.installed:
	$(PYTHON) -m venv build/docs-tools
	build/docs-tools/bin/python -m pip install --disable-pip-version-check --quiet 'mkdocs>=1.6,<2'
	@touch $@

# For all systems and Python versions, without the address of any index in the file.
lock: build/tools/.installed
	UV_CUSTOM_COMPILE_COMMAND="make lock" build/tools/bin/uv pip compile --no-config --universal --python-version 3.11 \
		--upgrade --generate-hashes --no-emit-index-url --no-emit-find-links --strip-extras --quiet \
		--output-file requirements/lock.txt pyproject.toml

sbom: build/tools/.installed
	build/tools/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
		--output-file sbom.json requirements/lock.txt

# Strict: a package without data is a failure, not a package without vulnerabilities.
audit: build/tools/.installed
	build/tools/bin/pip-audit --strict --disable-pip --require-hashes --requirement requirements/lock.txt

clean:
	rm -rf $(VENV) sbom.json demo build *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
