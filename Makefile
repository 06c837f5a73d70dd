# `make demo` and `make test` do all the set-up they need, with nothing but Python 3.11 and make
# (and Java, for the METEOR metric). A second call finds the stamps and sets nothing up again.

PYTHON ?= python3.11
VENV ?= .venv

PIP = $(BIN)/python -m pip install --disable-pip-version-check --quiet
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif

# As many processes run tests; spinning OpenMP threads of torch would slow each other down.
JOBS ?= 2
# Damaged files have a run of their own: make fuzz.
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --ignore=tests/fuzz
# Tests start many processes; where nothing may be kept, each of them compiles all modules anew.
test quick fuzz: export PYTHONDONTWRITEBYTECODE =
test quick fuzz: export OMP_NUM_THREADS = 1
test quick fuzz: export OMP_WAIT_POLICY = PASSIVE

.PHONY: help demo test quick fuzz lint linters format install plugin docs lock sbom audit clean

help:
	@echo "make demo     render a pair of scenes, caption what changed between them"
	@echo "make test     run every test that this machine can run"
	@echo "make quick    the tests that take a few minutes: not the slow, real, qgis, chromium and kills ones"
	@echo "make fuzz     damaged files and values for every parser, in about a minute"
	@echo "make lint     ruff and mypy"
	@echo "make linters  linters of GeoJSON from npm, which a test asks, in build/npm"
	@echo "make install  everything for development, in $(VENV)"
	@echo "make plugin   build/rscc_changes.zip: the QGIS plugin"
	@echo "make docs     build/site: the pages of docs/ as a site, by MkDocs; open build/site/index.html"
	@echo "make lock     requirements/lock.txt anew: the base install, pinned by hashes"
	@echo "make sbom     sbom.json: what the base install consists of (CycloneDX)"
	@echo "make audit    known vulnerabilities of what the base install consists of; asks the package index"
	@echo "make clean    remove $(VENV), the demo and the caches"
	@echo "PYTHON=...    the interpreter to start from (now: $(PYTHON)), 3.11 or newer"

# As a user would install it: no training libraries.
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
		echo "rscc needs Python 3.11 or newer, and '$(PYTHON)' is not: name one, as in make PYTHON=python3.12 demo" >&2; \
		exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml
	$(PIP) -e .
	@touch $@

# The parser goes first and alone, so that its content is checked before anything else can ask for it.
$(VENV)/.installed-dev: $(VENV)/.created pyproject.toml requirements/parser.txt
	$(PIP) --no-deps --require-hashes -r requirements/parser.txt
	$(PIP) -e '.[dev]'
	@touch $(VENV)/.installed $@

# Tools that the tests do without, in an environment of their own.
build/tools/.installed:
	$(PYTHON) -m venv build/tools
	build/tools/bin/python -m pip install --disable-pip-version-check --quiet uv cyclonedx-bom pip-audit
	@touch $@

# Strict: a page outside the menu, a link or an anchor that leads nowhere is an error.
docs: build/docs-tools/.installed
	build/docs-tools/bin/mkdocs build --strict --quiet

build/docs-tools/.installed:
	$(PYTHON) -m venv build/docs-tools
	build/docs-tools/bin/python -m pip install --disable-pip-version-check --quiet 'mkdocs>=1.6,<2'
	@touch $@

# Linters of GeoJSON that are none of ours, for the tests.
linters:
	npm install --silent --no-save --prefix build/npm @placemarkio/check-geojson@0.1.14 geojsonhint@2.0.0

# For all systems and Pythons; no address of an index gets into the file, and no private one is asked.
lock: build/tools/.installed
	UV_CUSTOM_COMPILE_COMMAND="make lock" build/tools/bin/uv pip compile --no-config --universal --python-version 3.11 \
		--upgrade --generate-hashes --no-emit-index-url --no-emit-find-links --strip-extras --quiet \
		--output-file requirements/lock.txt pyproject.toml

sbom: build/tools/.installed
	build/tools/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
		--output-file sbom.json requirements/lock.txt

# Strict: a package of which nothing can be learned is a failure, not one without vulnerabilities.
audit: build/tools/.installed
	build/tools/bin/pip-audit --strict --disable-pip --require-hashes --requirement requirements/lock.txt

clean:
	rm -rf $(VENV) sbom.json demo build *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
