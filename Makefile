# `make` lists the targets. Everything lives in .venv, set up on first use from the hashed files in requirements/.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# The first interpreter that runs and is 3.11 or newer. Give your own with `make PYTHON=/path/to/python3.12 ...`.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)

# Svix's SDKs for the tests, each generation and language in a place of its own.
SDK := $(VENV)/sdk
# The job queues that the benchmark measures beside Hookline.
PEERS := $(VENV)/peers
NODE_22 := node -e 'process.exit(parseInt(process.versions.node) < 22 ? 1 : 0)' && npm --version
NODE_20 := node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b > 18) ? 0 : 1)' && \
	npm --version

# Loopback is refused to webhooks unless it is opened; a server that is started from here is for trying things out.
TRY_NETS := 127.0.0.0/8,::1/128

# The tests start hundreds of processes: each would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo serve listen test drill compiled sdk check format bench peers screenshots simulate lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.runtime ## Set up .venv with what Hookline needs to run

demo: $(VENV)/.runtime ## Run a demo with customers whose endpoints work, fail, hang and recover; prints a sign-in link
	@exec $(BIN)/hookline demo

serve: $(VENV)/.runtime ## Start Hookline on SQLite: API, worker and dashboard in one process
	@HOOKLINE_ALLOW_NETS="$${HOOKLINE_ALLOW_NETS-$(TRY_NETS)}" exec $(BIN)/hookline serve

listen: $(VENV)/.runtime ## Run a receiver for `make serve`: an endpoint of the application "demo", and a first webhook
	@HOOKLINE_ALLOW_NETS="$${HOOKLINE_ALLOW_NETS-$(TRY_NETS)}" exec $(BIN)/hookline listen --register demo --ping

test: $(VENV)/.dev sdk $(VENV)/.browser ## Run every test; starts a PostgreSQL server, and finds or installs a Chromium
	$(BIN)/python -m pytest -n 5 --dist worksteal

drill: $(VENV)/.dev ## Run the fault drills, about 45 minutes; one: make drill DRILL=kill-worker ENGINE=postgres SEED=7
	$(BIN)/python -m tests.faults $(or $(DRILL),--all) $(addprefix --engine ,$(ENGINE)) $(addprefix --seed ,$(SEED)) $(ARGS)

# Five processes would each compile all tests the first time; what is wrong with them, the tests themselves say.
compiled: $(VENV)/.dev
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 || :

sdk: $(SDK)/svix-1/.ready $(SDK)/node/.ready ## Install the Svix SDKs that the tests run against the API

check: $(VENV)/.dev ## Formatting, lint, types, import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev ## Format the code and apply the fixes of lint
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev ## Measure Hookline on this machine, under ten minutes; shorter: make bench ARGS=--quick
	@PATH="$$PATH:$$($(BIN)/python -c 'from tests.support.postgres import binaries; print(binaries())' 2>/dev/null)" \
		exec $(BIN)/hookline bench $(ARGS)

peers: $(PEERS)/node/.ready $(PEERS)/python/.ready ## Install the job queues that `python -m bench.peers` compares with Hookline

screenshots: $(VENV)/.browser ## Make docs/screenshots again, from `make demo` after a minute and a half
	$(BIN)/python -m tests.browser.screenshots

simulate: $(VENV)/.dev ## Make docs/simulations again from the current code: takes some minutes
	$(BIN)/python -m bench.simulate

lock: ## Pin every dependency again, with hashes (needs uv and npm)
	@command -v uv >/dev/null || { echo "make lock needs uv: https://docs.astral.sh/uv/" >&2; exit 1; }
	@command -v npm >/dev/null || { echo "make lock needs npm: https://nodejs.org/" >&2; exit 1; }
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--upgrade pyproject.toml --extra server --group build -o requirements/runtime.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--upgrade pyproject.toml --extra server --extra otel --group build --group dev -c requirements/runtime.txt -o requirements/dev.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--upgrade --group svix-1 -o requirements/svix-1.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--upgrade --group node -o requirements/node.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--upgrade --group peers -o requirements/peers.txt
	npm update --prefix bench/peers --package-lock-only --omit-lockfile-registry-resolved --no-audit --no-fund
	npm update --prefix tests/sdk/node --package-lock-only --omit-lockfile-registry-resolved --no-audit --no-fund

clean: ## Remove .venv, caches and builds; databases stay
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ── the stamps: newer than what they were made from, so that the second start is quick ──

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Hookline needs Python 3.11 or newer, and none of python3, python3.11 ... python3.14 \
	on your PATH is. Install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Hookline needs Python 3.11 or newer; $(PYTHON) is older or does not run." >&2; exit 1; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version) ..."
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make virtual environments. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@$(PIP) --version >/dev/null || { rm -rf $(VENV); \
		echo "$(PYTHON) makes virtual environments without pip. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

$(VENV)/.runtime: pyproject.toml requirements/runtime.txt | $(BIN)/python
	@$(PIP) install --require-hashes -r requirements/runtime.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: pyproject.toml requirements/dev.txt | $(BIN)/python
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/.runtime

# The tests of the pages need a Chromium: the machine's, Playwright's, or the distribution's where we may install it.
$(VENV)/.browser: $(VENV)/.dev
	@$(BIN)/python -m tests.support.chromium
	@touch $@

$(SDK)/svix-1/.ready: requirements/svix-1.txt | $(VENV)/.dev
	@$(BIN)/python -m venv --clear --without-pip $(SDK)/svix-1
	@$(PIP) --python $(SDK)/svix-1/bin/python install --require-hashes -r requirements/svix-1.txt
	@touch $@

$(PEERS)/python/.ready: requirements/peers.txt | $(VENV)/.dev
	@$(BIN)/python -m venv --clear --without-pip $(PEERS)/python
	@$(PIP) --python $(PEERS)/python/bin/python install --require-hashes -r requirements/peers.txt
	@touch $@

$(PEERS)/node/.ready: bench/peers/package.json bench/peers/package-lock.json requirements/node.txt | $(VENV)/.dev
	@{ $(NODE_20); } >/dev/null 2>&1 || $(PIP) install --require-hashes -r requirements/node.txt || { \
		echo "The job queues for Node need Node 20.18.1 or newer with npm: https://nodejs.org/" >&2; exit 1; }
	@mkdir -p $(PEERS)/node
	@cp bench/peers/package.json bench/peers/package-lock.json $(PEERS)/node/
	@export PATH="$(abspath $(BIN)):$$PATH" && ln -sf "$$(node -p process.execPath)" $(PEERS)/node/node && \
		npm ci --prefix $(PEERS)/node --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
	@touch $@

# The newest svix of npm needs Node 22: the machine's, or PyPI's where it is older, missing, or without npm.
$(SDK)/node/.ready: tests/sdk/node/package.json tests/sdk/node/package-lock.json requirements/node.txt | $(VENV)/.dev
	@{ $(NODE_22); } >/dev/null 2>&1 || $(PIP) install --require-hashes -r requirements/node.txt || { \
		echo "The tests of the npm package svix need Node 22 or newer with npm: https://nodejs.org/" >&2; exit 1; }
	@mkdir -p $(SDK)/node
	@cp tests/sdk/node/package.json tests/sdk/node/package-lock.json $(SDK)/node/
	@export PATH="$(abspath $(BIN)):$$PATH" && ln -sf "$$(node -p process.execPath)" $(SDK)/node/node && \
		npm ci --prefix $(SDK)/node --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
	@touch $@
