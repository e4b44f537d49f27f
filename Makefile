# `make help` lists what there is. Everything stays inside this folder, except system packages
# (Nginx, Rust, Chromium for the tests), which are named before they are installed: .ci/require.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# A user's PATH on Debian has no /usr/sbin (Nginx), and a fresh rustup is on no PATH yet.
export PATH := $(PATH):/usr/sbin:/sbin:$(HOME)/.cargo/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHON

VENV := .venv
BIN := $(VENV)/bin
# Inside the environment, so that whoever deletes it deletes them too.
STAMPS := $(VENV)/stamps
# Without the job server of make, whose descriptors only a make of its own inherits.
ALONE := env --unset=MAKEFLAGS --unset=MFLAGS
CARGO := $(ALONE) cargo
CRATE := --manifest-path loadgen/Cargo.toml --locked
GENERATOR_SOURCES := $(shell find loadgen \( -name target -o -name fuzz \) -prune -o -type f -print)

.PHONY: help
help: ## List these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# ---------------------------------------------------------------- use

.PHONY: optimize
optimize: nginx setup ## Tune a real Nginx for p99 on this machine (more options: ARGS="--time 5m")
	$(BIN)/tuner optimize --server nginx --objective p99 $(ARGS)

# First, because it may ask for a password.
.PHONY: nginx
nginx:
	@.ci/require nginx

.PHONY: setup
setup: $(STAMPS)/package ## Install tuner with its pinned dependencies into .venv

$(BIN)/python:
	python=$$(.ci/require python) && "$$python" -m venv $(VENV)

$(STAMPS)/locked: requirements.lock | $(BIN)/python
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	@mkdir -p $(STAMPS) && touch $@

# Apart from the package, so that make --jobs builds it while packages install.
$(STAMPS)/generator: $(GENERATOR_SOURCES) | $(BIN)/python
	@.ci/require cargo
	$(CARGO) build --quiet --release $(CRATE)
	@mkdir -p $(STAMPS) && touch $@

# Editable, so that a change to the Python code needs no step; one to the generator does.
$(STAMPS)/package: pyproject.toml hatch_build.py $(STAMPS)/generator $(STAMPS)/locked
	@# An environment from before the package was renamed holds it under its old name.
	$(BIN)/python -m pip uninstall --quiet --yes tuner 2>/dev/null
	@# The build's cargo is no child of this make, whose job server pip closes.
	$(ALONE) $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# ---------------------------------------------------------------- develop

.PHONY: develop
develop: setup $(STAMPS)/locked-dev ## Install the tools of the tests too

$(STAMPS)/locked-dev: requirements-dev.lock $(STAMPS)/locked
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.lock
	@touch $@

# Studies own the machine's cores, so what measures runs one after another, and so does what changes
# hosts, while the rest only computes (tests/conftest.py). Five, because tests of faults wait a lot.
# A test that hangs fails with the stack of each thread; the slowest take two or three minutes.
PYTEST := $(ALONE) $(BIN)/python -m pytest -n 5 --dist loadfile --timeout 1200
# As in pyproject.toml.
EVERY_RUN := not proof and not systemd and not gp and not vm and (not fleet or every_run)
SYSTEM := nginx nghttpx haproxy apache h2load compose applications shells go chromium postgresql tools hosts

# Side by side, because much of it waits: for packages, for a linker, or for servers at fault.
# First what may install a package too, or ask for a password.
.PHONY: test
test: nginx rust-lints ## Run all checks: lints, types, tests, a study, the wheel
	@.ci/require python >/dev/null
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target system develop test-figures lint compiled
	@$(MAKE) --no-print-directory --jobs=3 rust-aside pytest

# One after another, because the system installs no two packages at once.
.PHONY: system
system:
	@$(ALONE) $(MAKE) --no-print-directory $(SYSTEM)

# A user with sudo needs two runs: as root, the tests that need root, and the others.
TWO_RUNS = [ "$$(id -u)" -ne 0 ] && [ -z "$(ARGS)" ] && sudo -n true 2>/dev/null
.PHONY: pytest
pytest: pytest-root pytest-rest

# Hosts in namespaces, accounts of their own. Its output in one piece, as that of rust-aside.
.PHONY: pytest-root
pytest-root: develop
	@if $(TWO_RUNS); then \
		output=$$(sudo env "PATH=$$PATH" PYTHONDONTWRITEBYTECODE=1 \
			$(PYTEST) -n 2 -p no:cacheprovider -m "root and $(EVERY_RUN)" 2>&1) || failed=$$?; \
		echo "tuner: as root:"; echo "$$output"; exit $${failed:-0}; \
	fi

.PHONY: pytest-rest
pytest-rest: develop
	@if $(TWO_RUNS); then \
		$(PYTEST) -n 4 -m "not root and $(EVERY_RUN)"; \
	else \
		[ "$$(id -u)" -eq 0 ] || [ -n "$(ARGS)" ] || \
			echo "tuner: left out: tests on remote hosts, which need root or sudo without a password"; \
		$(PYTEST) $(ARGS); \
	fi

# Not all systems have a package of these; the tests that need one are then skipped, and say so.
.PHONY: nghttpx haproxy apache h2load compose applications shells go
nghttpx haproxy apache h2load compose applications shells go:
	@.ci/require $@ || true

.PHONY: postgresql chromium tools hosts rust-lints
postgresql chromium tools hosts rust-lints:
	@.ci/require $@

# Hundreds of tests start a command, and each worker of pytest imports all tests, with assertions that
# pytest rewrites. Some environments forbid Python to keep what it compiled.
.PHONY: compiled
compiled: $(STAMPS)/locked-dev
	@$(BIN)/python -m compileall -q tuner tests
	@env --unset=PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest --collect-only --quiet -p no:xdist >/dev/null

.PHONY: fresh
fresh: ## Run the README's two commands in a bare Debian root, as root or AS=user with sudo (needs root)
	@# make has an AS of its own, the assembler.
	.ci/fresh $(if $(filter default,$(origin AS)),root,$(AS))

.PHONY: lint
lint: $(STAMPS)/locked-dev ## Run ruff and mypy
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

.PHONY: lint-rust
lint-rust: rust-lints ## Run rustfmt and clippy
	$(CARGO) fmt --manifest-path loadgen/Cargo.toml --check
	$(CARGO) clippy $(CRATE) --all-targets -- -D warnings

.PHONY: test-rust
test-rust: test-figures test-function ## Run the generator's own tests

# These judge times: one runs after another, and none beside pytest.
.PHONY: test-figures
test-figures:
	@.ci/require cargo
	$(CARGO) test --quiet $(CRATE) --test figures -- --test-threads 1

# Most of these wait for a server at fault.
.PHONY: test-function
test-function:
	@.ci/require cargo
	$(CARGO) test --quiet $(CRATE) --lib --bins --test function --test fuzz -- --test-threads 8

# Its output in one piece, which does not mix with another target's.
.PHONY: rust-aside
rust-aside:
	@output=$$($(MAKE) --no-print-directory lint-rust test-function 2>&1) || failed=$$?; echo "$$output"; exit $${failed:-0}

.PHONY: fuzz
fuzz: fuzz-generator fuzz-records ## Test all readers of foreign files with random inputs (INPUTS=N for each)

.PHONY: fuzz-generator
fuzz-generator: ## Test the generator's readers with millions of inputs (INPUTS=5000000 for each)
	@.ci/require cargo
	FUZZ_INPUTS=$(or $(INPUTS),5000000) $(CARGO) test $(CRATE) --profile fuzz --test fuzz -- \
		--nocapture --test-threads 1

.PHONY: fuzz-records
fuzz-records: develop ## Test thousands of damaged records of each kind (INPUTS=2000 for each)
	$(BIN)/python -m tests.record.damages --inputs $(or $(INPUTS),2000)

.PHONY: fuzz-coverage
fuzz-coverage: ## Test the generator's readers with libFuzzer (ARGS="--seconds 60 hpack"; 10^7 inputs for each)
	@.ci/require cargo
	loadgen/fuzz/run $(ARGS)

# In an environment of its own: few need Atheris, and it has no wheel for the newest Python.
.PHONY: fuzz-python
fuzz-python: develop ## Test the Python readers with Atheris (ARGS="--seconds 60 log"; 10^7 inputs for each)
	test -x build/fuzz/bin/python || $(BIN)/python -m venv build/fuzz
	build/fuzz/bin/python -m pip install --quiet atheris
	PYTHONPATH=$$($(BIN)/python -c 'import site; print(site.getsitepackages()[0])') \
		build/fuzz/bin/python -m tests.reading.fuzz $(ARGS)

# Miri and the sanitizers are parts of nightly Rust: rustup component add --toolchain nightly miri rust-src
.PHONY: miri
miri: ## Test the generator's raw memory with Miri (needs nightly Rust)
	cargo +nightly miri test $(CRATE) --lib -- sys::memory

# The stable toolchain has the runtime; the variable permits its unstable option.
.PHONY: sanitize
sanitize: ## Run the generator's tests with AddressSanitizer
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_leaks=0 \
		$(CARGO) test $(CRATE) --target $$(rustc -vV | sed -n 's/^host: //p') \
		--target-dir loadgen/target/sanitize --lib --test function --test fuzz -- --test-threads 2

.PHONY: endurance
endurance: nginx setup ## Run the generator for minutes or hours (ARGS="--minutes 720 --rate 50000")
	$(BIN)/python -m benchmarks.endurance $(ARGS)

.PHONY: growth
growth: setup ## Run a simulated study of 24 hours (ARGS="--trials 10000"; ARGS="--studies 1000")
	$(BIN)/python -m benchmarks.growth $(ARGS)

.PHONY: campaign
campaign: develop ## Strike commands with faults on a simulated lab (ARGS="--faults 1000 --seed 1")
	@# As in the commands (tuner/cli/__init__.py); NumPy reads it once.
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.campaign $(ARGS)

.PHONY: proof
proof: develop ## Run the long simulations behind the statistics
	$(BIN)/python -m pytest -m proof $(ARGS)

.PHONY: roam
roam: develop ## Run the property tests with new examples, a thousand per test
	$(PYTEST) --timeout 0 -m hypothesis --hypothesis-profile roam $(ARGS)

# The files that draw from tests/seeds.py.
SEEDED = $(shell grep -rlE 'from tests(\.seeds)? import (seeds|.*simulate|.*rng)' tests --include='test_*.py')
.PHONY: seeds
seeds: develop ## Run the statistical tests under 50 seeds (SEEDS="1 2 3" for others)
	for seed in $(or $(SEEDS),{1..50}); do \
		echo "seed $$seed"; TUNER_TEST_SEED=$$seed $(PYTEST) -q $(SEEDED) $(ARGS); \
	done

.PHONY: hashes
hashes: develop ## Run all tests under 20 seeds of Python's hashes (ARGS="-m 'not integration'" for some)
	for seed in $(or $(SEEDS),{1..20}); do \
		echo "hash seed $$seed"; PYTHONHASHSEED=$$seed $(PYTEST) -q $(ARGS); \
	done

.PHONY: test-fleet
test-fleet: develop ## Test studies and faults on real hosts, in namespaces of this machine (needs root)
	$(BIN)/python -m pytest tests/fleet -m "not proof" $(ARGS)

.PHONY: test-vm
test-vm: develop ## Test topologies, quotas and studies in virtual machines (KVM; ACCELERATOR=tcg without, far slower)
	@.ci/require vm || true
	TUNER_VM_ACCELERATOR=$(or $(ACCELERATOR),kvm) $(BIN)/python -m pytest tests/vm -m vm $(ARGS)

# In an environment of its own, so that the tests' one stays small.
.PHONY: test-gp
test-gp: develop ## Test the sampler gp, which needs PyTorch (several gigabytes, in build/gp)
	test -x build/gp/bin/python || $(BIN)/python -m venv build/gp
	build/gp/bin/python -m pip install --quiet torch
	PYTHONPATH=$$($(BIN)/python -c 'import site; print(site.getsitepackages()[0])') \
		build/gp/bin/python -m pytest -m gp $(ARGS)

.PHONY: bench
bench: nginx setup ## Compare the instrument with zrk, oha, wrk2 and wrk (ARGS="--peers DIR")
	$(BIN)/python -m benchmarks $(ARGS)

.PHONY: claims
claims: nginx setup ## Count false claims and found handicaps of real confirmations, about 50 minutes
	$(BIN)/python -m benchmarks.claims $(ARGS)

BAD_CPUS := 1
.PHONY: bad-hours
bad-hours: nginx setup ## Run a study while core 1 is stalled by a seeded schedule (BAD_CPUS=0,1 SEED=2 ARGS=...; needs root)
	$(BIN)/python -m tuner.testing.bad_hours --cpus $(BAD_CPUS) --seed $(or $(SEED),1) -- \
		$(BIN)/tuner optimize --server nginx --workload proxy --objective p99 $(ARGS)

.PHONY: efficiency
efficiency: setup ## Compare the search with others on a recorded table (ARGS=--no-smac; ARGS="--only tuner")
	$(BIN)/python -m benchmarks.efficiency --table benchmarks/data/proxy.json $(ARGS)

.PHONY: format
format: develop ## Format Python and Rust
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format
	$(CARGO) fmt --manifest-path loadgen/Cargo.toml

# All extras but gp: PyTorch takes several gigabytes.
EXTRAS = --extra caddy --extra envoy --extra postgresql --extra grpc --extra dashboard --extra cmaes --extra pandas --extra polars --extra png
# The locks hold for every Python from 3.11 on, and name no index: whose mirror is used is the
# business of who installs. `make lock ARGS=--upgrade` takes newer versions.
UV_COMPILE = UV_CUSTOM_COMPILE_COMMAND="make lock" build/uv/bin/uv pip compile \
	--quiet --no-config --system-certs --default-index https://pypi.org/simple \
	--universal --python-version 3.11 --generate-hashes

.PHONY: lock
lock: ## Pin every dependency again
	@test -x build/uv/bin/uv || { "$$(.ci/require python)" -m venv build/uv && build/uv/bin/pip install --quiet uv; }
	$(UV_COMPILE) pyproject.toml --group build --extra caddy -o requirements.lock $(ARGS)
	$(UV_COMPILE) pyproject.toml --group dev $(EXTRAS) -c requirements.lock -o requirements-dev.lock $(ARGS)
	$(UV_COMPILE) --group release -c requirements.lock -o requirements-release.lock $(ARGS)

# ---------------------------------------------------------------- release

# Everything that a release runs is pinned and stays out of the environment of the tests.
RELEASE := build/release
RELEASE_PYTHON := $(RELEASE)/bin/python
NODE_MODULES := build/vega/node_modules

$(RELEASE)/locked: requirements-release.lock
	rm -rf $(RELEASE)
	python=$$(.ci/require python) && "$$python" -m venv $(RELEASE)
	$(RELEASE_PYTHON) -m pip install --quiet --require-hashes -r requirements-release.lock
	@touch $@

.PHONY: release
release: $(RELEASE)/locked ## Build the sdist, the wheels of both machines and their symbols into dist/ (ARGS="--only x86_64")
	@.ci/require cross
	$(RELEASE_PYTHON) -m release.build $(ARGS)

.PHONY: release-check
release-check: $(RELEASE)/locked ## Install dist/ in clean roots without a compiler and run a study there (needs root)
	@.ci/require debootstrap
	@.ci/require qemu || true
	release/check

# The runner of the release sets GITHUB_REF_NAME, which stays out of the shell's text.
.PHONY: release-tag
release-tag: ## Check that the tag GITHUB_REF_NAME names this version
	@grep -qxF "__version__ = \"$${GITHUB_REF_NAME#v}\"" tuner/__init__.py || { \
		echo "the tag is $$GITHUB_REF_NAME, but tuner/__init__.py has another version" >&2; exit 1; }

.PHONY: man
man: setup ## Write the manual pages of all commands into build/man/
	$(BIN)/python -m release.man $(ARGS)

.PHONY: image
image: ## Build the image servertune from the wheel in dist/ (with podman, buildah or docker)
	@engine=$$(command -v podman buildah docker | head -n 1 || true); \
	[ -n "$$engine" ] || { echo "image: install podman, buildah or docker" >&2; exit 1; }; \
	"$$engine" build --file Containerfile --tag servertune $(ARGS) .

.PHONY: audit
audit: audit-python audit-rust ## Look for known weaknesses and unwanted licences among all dependencies

# The lock of the tests contains that of users. --strict: a package that PyPI does not answer for fails.
.PHONY: audit-python
audit-python: $(RELEASE)/locked ## Look for known weaknesses of the Python packages (asks PyPI)
	for lock in requirements-dev.lock requirements-release.lock; do \
		$(RELEASE)/bin/pip-audit --strict --require-hashes --disable-pip -r $$lock; \
	done

CARGO_DENY := build/cargo-deny/bin/cargo-deny
$(CARGO_DENY):
	@.ci/require cargo
	$(CARGO) install --quiet --locked --root build/cargo-deny --version 0.20.2 cargo-deny

# The database of weaknesses is a repository on GitHub. Without it: CHECKS="bans licenses sources".
CHECKS := advisories bans licenses sources
.PHONY: audit-rust
audit-rust: $(CARGO_DENY) ## Check the crates by deny.toml (fetches RustSec's database)
	$(CARGO_DENY) --manifest-path loadgen/Cargo.toml --config deny.toml --locked check $(CHECKS)

$(NODE_MODULES): release/vega/package.json release/vega/package-lock.json
	mkdir -p build/vega && cp $^ build/vega
	npm ci --prefix build/vega --ignore-scripts --no-fund --no-audit
	@touch $@

.PHONY: charts
charts: $(NODE_MODULES) $(RELEASE)/locked ## Join Vega's scripts again, after a change to release/vega (needs npm)
	$(RELEASE_PYTHON) -m release.charts $<

.PHONY: notices
notices: $(NODE_MODULES) $(RELEASE)/locked ## Collect the notices of others again, after a change to a lock (needs npm)
	$(RELEASE_PYTHON) -m release.notices $<

.PHONY: clean
clean: ## Remove everything built and installed here; the results of studies stay
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis loadgen/target
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
