# make demo   the main job, end to end: a real broker, the shim, unmodified clients
# make test   everything, in its short, seeded form        make soak   the full counts (long)
# make bench  the benchmarks, as ratios of one run
# make jars   the connector jars of the Spark jobs, into the cache
# make lint   ruff, mypy, import-linter, links of docs     make site   the documentation, into build/site
# make clean  forget the virtual environment

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
SPARK := .venv/.spark
# Hundreds of processes of the shim and its commands are begun: with this variable set, as some images of Python have it,
# each of them compiles every module anew. Empty is as not set.
export PYTHONDONTWRITEBYTECODE :=
# Strict: a link to nowhere, or a page that nothing leads to, is an error.
SITE := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.PHONY: parts demo test soak bench jars lint site format lock clean
.DEFAULT_GOAL := test

# What nothing imports needs no bytecode; and the pip that comes with Python may take twice as long as one of today.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0])

$(INSTALLED): requirements-pip.lock requirements.lock pyproject.toml
	@$(PYTHON) -c '$(NEW_ENOUGH)'
	@echo "installing into .venv what is needed, 600 MB; this takes some two minutes, and says nothing"
	$(PYTHON) -m venv .venv
	$(INSTALL) --require-hashes -r requirements-pip.lock
	$(INSTALL) --require-hashes -r requirements.lock
	$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

# Spark is large, and the demo does without.
$(SPARK): $(INSTALLED) requirements-pipeline.lock
	$(INSTALL) --require-hashes -r requirements-pipeline.lock
	@touch $@

# Java and Maven, looked for before two minutes are spent on what is of no use without; it takes the bare Python.
parts: LOOKING = $(or $(wildcard $(BIN)/python),$(PYTHON))
parts:
	@$(LOOKING) -c '$(NEW_ENOUGH)'
	@$(LOOKING) -m shim.demo.parts

demo: parts $(INSTALLED)
	@$(BIN)/offset-shim demo

test: parts $(SPARK)
	$(BIN)/python -m tests.short

soak: parts $(SPARK)
	$(BIN)/python -m tests.soak

bench: $(SPARK)
	$(BIN)/python -m benchmarks.codec
	$(BIN)/python -m benchmarks.log commits
	$(BIN)/python -m benchmarks.log load --entries 1000000
	$(BIN)/python -m benchmarks.log compaction
	$(BIN)/python -m benchmarks.commit
	$(BIN)/python -m benchmarks.connections
	$(BIN)/python -m benchmarks.overhead
	$(BIN)/python -m benchmarks.proxy
	$(BIN)/python -m benchmarks.pipeline.load
	$(BIN)/python -m benchmarks.pipeline.history

jars: $(SPARK)
	@$(BIN)/offset-pipeline jars

lint: $(SPARK)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(SITE) --quiet

site: $(INSTALLED)
	$(SITE)

format: $(INSTALLED)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# The lock file is made anew with: make lock (needs uv, https://docs.astral.sh/uv/, on the path)
lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --extra dev \
		--custom-compile-command 'make lock' --output-file requirements.lock pyproject.toml
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --extra pipeline \
		--constraint requirements.lock --custom-compile-command 'make lock' \
		--output-file requirements-pipeline.lock pyproject.toml
	echo pip | uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command 'make lock' --output-file requirements-pip.lock -

clean:
	rm -rf .venv
