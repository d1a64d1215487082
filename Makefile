# The thin front over Meson. Every target works on a fresh Debian 12 machine from a clone: as root it installs what is
# missing first, as an ordinary user it says what to install. `make help` lists the targets.
BUILD        ?= build
TEST_BUILD   ?= build-test
REPORTS      ?= $(BUILD)/reports
PREFIX       ?= /usr/local
DESTDIR      ?=
BRIG         ?= $(BUILD)/brig
RUN_TESTS     = /usr/bin/python3 tools/run-tests --build $(BUILD) --test-build $(TEST_BUILD) --reports $(REPORTS)

.DEFAULT_GOAL := all
.PHONY: all help demo test test-full unit integration escape asan fuzz cross machines bench bench-growth bench-vm soak format lint man
.PHONY: install clean deps-test test-build

help:
	@echo 'make              build brig, and all that belongs to it, into $(BUILD)'
	@echo 'make demo         build it and run the examples, with what they show'
	@echo 'make test         what every change must pass: at most 20 minutes on two cores'
	@echo 'make test-full    what a release must pass: the same under sanitizers, long fuzzing, soak; hours'
	@echo 'make unit | integration | escape | asan | fuzz | cross | machines    one part of the tests'
	@echo 'make bench        measure against the peers that are installed'
	@echo 'make bench-vm     count what virtual machines cost, in emulated machines of both architectures'
	@echo 'make soak         ten minutes of mixed clients and random kills against the daemon, and ten of a greedy one'
	@echo 'make lint         formatting, house rules, static analysis;  make format  formats'
	@echo 'make man          manual pages into $(BUILD)/docs/man'
	@echo 'make install      into DESTDIR$(PREFIX);  make clean  removes what was built'

# ---- build ----

# Three folders at most: $(BUILD), $(TEST_BUILD) with the sanitizers and the fuzzers, build-cross for the other architecture.
$(BUILD)/machines/configured: tools/configure
	@tools/bootstrap build
	@tools/configure release $(BUILD)

# QuickJS as a module is one long compilation, beside the others.
all: $(BUILD)/machines/configured
	@tools/quickjs $(BUILD) & module=$$!; ninja -C $(BUILD) --quiet && wait $$module && tools/quickjs $(BUILD)

$(TEST_BUILD)/machines/configured: tools/configure | deps-test
	@tools/configure test $(TEST_BUILD)

test-build: $(TEST_BUILD)/machines/configured
	@ninja -C $(TEST_BUILD) --quiet

# ---- try ----

demo:
	@tools/bootstrap demo
	@$(MAKE) --no-print-directory all
	@BRIG=$(BRIG) tools/demo

# ---- test ----

deps-test:
	@tools/bootstrap test

# At most 20 minutes on two cores. The fuzzers and the other architecture are built while tests that mostly wait run.
test:
	@tools/bootstrap test $(MAKE) --no-print-directory all test-build
	@$(RUN_TESTS) unit integration escape asan fuzz cross machines

# Hours: everything under the sanitizers, long fuzzing, leak checks on every architecture, soak.
test-full:
	@tools/bootstrap test-full $(MAKE) --no-print-directory all test-build
	@$(RUN_TESTS) --full unit integration escape asan fuzz cross machines soak

unit asan: deps-test test-build
	@$(RUN_TESTS) $@

integration escape: deps-test all test-build
	@$(RUN_TESTS) $@

machines: deps-test all
	@$(RUN_TESTS) cross machines

fuzz: $(TEST_BUILD)/machines/configured
	@$(RUN_TESTS) $@

cross: deps-test
	@$(RUN_TESTS) $@

bench:
	@tools/bootstrap bench
	@$(MAKE) --no-print-directory all
	@if [ -e tests/bench/run ]; then BRIG=$(BRIG) tests/bench/run && BRIG=$(BRIG) tests/bench/serve && \
	 BRIG=$(BRIG) tests/bench/figure; \
	 else echo "bench: tests/bench/run is not there" >&2; exit 1; fi

# 10 000 runs; QUICK=1 for 500.
bench-growth: all
	@BRIG=$(BRIG) tests/bench/growth $(if $(QUICK),--quick)

bench-vm: deps-test all
	@BRIG=$(BRIG) tests/bench/vm

# Longer than a test run may take: MINUTES=10.
soak: all
	@BRIG=$(BRIG) tests/soak/run --minutes $(or $(MINUTES),10)
	@BRIG=$(BRIG) tests/soak/tenant --minutes $(or $(MINUTES),10)

# ---- keep in order ----

format:
	@tools/bootstrap lint
	@tools/lint --fix

lint:
	@tools/bootstrap lint
	@tools/lint

# ---- manual pages, install ----

man: $(BUILD)/machines/configured
	@ninja -C $(BUILD) --quiet man

install: all
	@tools/configure prefix $(BUILD) $(PREFIX)
	@DESTDIR='$(abspath $(DESTDIR))' meson install -C $(BUILD) --no-rebuild --quiet

clean:
	rm -rf $(BUILD) $(TEST_BUILD) build-cross
