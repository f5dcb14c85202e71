# Every target sets up what it needs. Only `make` is assumed, and Python 3.11 or later.
CASES ?= 10000
FAULTS ?= 10000
SEED ?= 0
SECONDS ?= 1800
KILLS ?= 20
PYTEST_ARGS ?= -n 2
BENCH ?= all

.DEFAULT_GOAL := help
.PHONY: help setup demo kafka test cold processors lint docs faults fuzz damage mutants test-spark-versions soak bench bench-beside lock clean

help:  ## Show the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 21

setup: .venv/.ready  ## Make .venv and install everything, locked

.venv/.ready: pyproject.toml requirements/dev.lock scripts/setup scripts/apt.sh
	@scripts/setup

demo: setup  ## Join two live streams on Spark, in local mode, and watch
	@.venv/bin/crosswind demo

kafka: setup  ## Fetch a Kafka broker and Spark's connector into .kafka; then scripts/kafka start
	@scripts/kafka fetch

test: setup  ## Run the tests: make test [SEED=any]
	@missing=$$(scripts/test-tools) && \
		CROSSWIND_TEST_MAY_SKIP="$$missing,$$CROSSWIND_TEST_MAY_SKIP" CROSSWIND_TEST_SEED=$(SEED) \
		.venv/bin/python -m pytest -q $(PYTEST_ARGS)

processors: setup  ## Run the tests of kernels, compiled for processors that can do less
	@PYTEST_ADDOPTS="$(PYTEST_ARGS)" .venv/bin/python -m tests.processors

cold: setup  ## Run the tests of kernels and of what a query means with nothing compiled before
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; CROSSWIND_CACHE_DIR="$$folder" .venv/bin/python -m pytest -q \
		$(PYTEST_ARGS) -m 'not long and not spark' tests/test_kernel.py tests/test_kernel_cache.py tests/test_semantics.py

lint: setup  ## Check style and types
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy

docs: setup  ## Build the documentation into site/, without a warning
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs --quiet build --strict
	@echo "crosswind: the documentation is in site/index.html"

fuzz: setup  ## Compare random cases of all modes with the oracle: make fuzz CASES=10000 SEED=0
	@.venv/bin/python -m tests.fuzz --cases $(CASES) --seed $(SEED)

damage: setup  ## Damage snapshots and Spark's state, and read them: make damage CASES=5000 SEED=0
	@.venv/bin/python -m tests.damage --cases $(CASES) --seed $(SEED)

mutants: setup  ## Put faults into the source and see whether the tests notice: make mutants [MUTANTS="--room plan"]
	@.venv/bin/python -m tests.mutants $(MUTANTS)

faults: setup  ## Interrupt joins at any line: make faults FAULTS=10000 SEED=0
	@.venv/bin/python -m tests.faults --faults $(FAULTS) --seed $(SEED)

test-spark-versions: setup  ## A small suite with each minor version of PySpark: [PYTHONS="python3.12 ..."] [FOLDER=...]
	@.venv/bin/python scripts/test-spark-versions $(if $(FOLDER),--folder $(FOLDER)) $(if $(PYTHONS),--python $(PYTHONS))

soak: setup  ## On Spark for long: flat memory, exact output, 20 kills: make soak SECONDS=1800 KILLS=20
	@.venv/bin/python -m pytest -q -m long tests
	@.venv/bin/python -m tests.spark.killing --kills $(KILLS) --seed $(SEED)
	@.venv/bin/python -m tests.spark.killing --kills $(KILLS) --seed $(SEED) --master "local-cluster[2,1,1024]" --pipeline plain "join after join" --what executor worker
	@.venv/bin/python -m tests.spark.soak --seconds $(SECONDS) --seed $(SEED)

bench: setup  ## Measure it here: make bench [BENCH="all --quick"]
	@.venv/bin/crosswind bench $(BENCH)

bench-beside: setup  ## Measure another commit and this tree in turns: make bench-beside OLD=main~5
	@.venv/bin/python scripts/bench-beside $(OLD)

lock: setup  ## Write the lock files anew: make lock [UPGRADE=1]
	@scripts/lock $(if $(UPGRADE),--upgrade)

clean:  ## Remove what the other targets made
	@rm -rf .venv .kafka .spark-versions dist build site .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +
