# The front of the project: `make` lists what can be asked. meson does the building; the builds are
# defined in scripts/build.

.DEFAULT_GOAL := help

PREFIX ?=
DESTDIR ?=
ARGS ?=
TESTS ?=
FUZZ ?=
FUZZ_SECONDS ?= 60

# make has a CC of its own; only one that the user gave counts.
ifeq ($(origin CC),default)
unexport CC
else
export CC
endif
export PREFIX DESTDIR TESTS

SYSTEM_BUILDS := build:test build:release-check build:release-fake
# With TESTS only those system tests are run.
ifeq ($(strip $(TESTS)),)
TEST_PARTS := meson:test:unit,fuzz meson:clang:unit,fuzz system microvm:short
TEST_BUILDS := build:test build:clang build:release-check build:release-fake
else
TEST_PARTS := system
TEST_BUILDS := $(SYSTEM_BUILDS)
endif

.PHONY: help
help: ## This list
	@echo 'make TARGET [VARIABLE=...]'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1	\2/p' Makefile | expand -t 14
	@echo 'Variables:'
	@echo '  ARGS          further flags of boxd (run), or of tests/bench/run (bench)'
	@echo '  TESTS         only these system tests, as arguments of pytest (test, soak, test-vm)'
	@echo '  FUZZ          only this fuzz target; FUZZ_SECONDS=60 for each (fuzz)'
	@echo '  CC            the compiler (build, run, install)'
	@echo '  PREFIX        where to install, default /usr/local; DESTDIR is honoured (install, libkrun)'

.PHONY: build
build: ## Compile for use, in build/release
	@scripts/build release

.PHONY: run
run: ## Install what is missing, compile, and start boxd on 127.0.0.1:5410
	@scripts/deps build
	@scripts/build release
	@scripts/how-to-try
	@exec build/release/boxd --standalone-box $(ARGS)

.PHONY: check
check: ## Compile, run the unit tests and a smoke test of the real thing: for every change
	@scripts/deps test
	@scripts/test-summary build:test meson:test:unit,fuzz system:smoke

.PHONY: test
test: ## Compile and run all tests but the long ones
	@scripts/deps test
	@scripts/test-summary $(TEST_BUILDS) $(TEST_PARTS)

.PHONY: soak
soak: ## Run the long tests
	@scripts/deps test
	@BOX_SOAK=1 scripts/test-summary $(SYSTEM_BUILDS) system:soak

.PHONY: escape
escape: ## Try to get out of boxes, with and without each defence
	@scripts/deps test
	@scripts/build test
	@tests/escape/run
	@tests/escape/run --rootless
	@tests/escape/run --weak

.PHONY: vm
vm: ## Run the tests of native boxes in a machine with pure cgroup v2
	@scripts/deps vm
	@scripts/build test
	@scripts/build release-fake
	@tests/vm/cgroups

.PHONY: libkrun
libkrun: ## Bring what microVMs need, for the builds or to PREFIX
	@scripts/libkrun

.PHONY: test-vm
test-vm: ## Run the tests of microVMs in a machine with KVM
	@scripts/test-summary build:release-fake microvm

.PHONY: bench-vm
bench-vm: ## Measure microVMs in that machine
	@scripts/deps vm
	@scripts/libkrun --own
	@scripts/libkrun --msb
	@scripts/build release-fake
	@tests/vm/bench

.PHONY: bench
bench: ## Measure
	@scripts/deps bench
	@scripts/build release-fake
	@BOX_RELEASE_FAKE=$(CURDIR)/build/release-fake build/venv/bin/python tests/bench/run $(ARGS)

.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZ_SECONDS
	@scripts/deps fuzz
	@scripts/build fuzz
	@scripts/fuzz $(FUZZ_SECONDS) $(FUZZ)

.PHONY: lint
lint: ## Check layers, format, clang-tidy, shell scripts and spelling
	@scripts/deps lint
	@scripts/lint

.PHONY: format
format: ## Write the sources in the project's format
	@scripts/deps lint
	@scripts/lint format

.PHONY: install
install: export PREFIX := $(or $(PREFIX),/usr/local)
install: build ## Install what `make build` made
	@meson install -C build/release --no-rebuild

.PHONY: clean
clean: ## Remove all builds, but not what was fetched for the tests
	@if [ -d build ]; then \
		find build -mindepth 1 -maxdepth 1 ! -name 'venv*' ! -name 'sdk-*' ! -name npm ! -name libkrun \
			-exec rm -rf {} +; \
	fi

.PHONY: distclean
distclean: ## Remove everything that was made here
	@rm -rf build
