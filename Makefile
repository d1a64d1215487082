# The thin front over Meson. Every target works on a fresh Debian 12 machine from a clone: as root it installs what is
# missing first, as an ordinary user it says what to install. `make help` lists the targets.
BUILD        ?= build
TEST_BUILD   ?= build-test
REPORTS      ?= $(BUILD)/reports
PREFIX       ?= /usr/local
DESTDIR      ?=
BRIG         ?= $(BUILD)/brig
RUN_TESTS     = /usr/bin/python3 tools/run-tests --build $(BUILD) --test-build $(TEST_BUILD) --reports $(REPORTS)

BINDIR  = $(DESTDIR)$(PREFIX)/bin
LIBEXECDIR = $(DESTDIR)$(PREFIX)/libexec/brig
MANDIR  = $(DESTDIR)$(PREFIX)/share/man
BASHDIR = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSHDIR  = $(DESTDIR)$(PREFIX)/share/zsh/site-functions
FISHDIR = $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d

MAN_SOURCES = $(wildcard docs/man/*.scd)
MAN_PAGES   = $(patsubst docs/man/%.scd,$(BUILD)/man/%,$(MAN_SOURCES))

.PHONY: all help demo test test-full unit integration escape asan fuzz cross machines bench bench-growth soak format lint man docs/man
.PHONY: install clean deps-test test-build FORCE

all: $(BUILD)/brig $(BUILD)/brig-proxy $(BUILD)/brig-daemon $(BUILD)/brig-template.so

help:
	@echo 'make              build brig into $(BUILD)/brig'
	@echo 'make demo         build it and run the examples, with what they show'
	@echo 'make test         what every change must pass: at most 20 minutes on two cores'
	@echo 'make test-full    what a release must pass: the same under sanitizers, long fuzzing, soak; hours'
	@echo 'make unit | integration | escape | asan | fuzz | cross | machines    one part of the tests'
	@echo 'make bench        measure against the peers that are installed'
	@echo 'make soak         ten minutes of mixed clients and random kills against the daemon, and ten of a greedy one'
	@echo 'make lint         formatting, house rules, static analysis;  make format  formats'
	@echo 'make man          manual pages into $(BUILD)/man'
	@echo 'make install      into DESTDIR$(PREFIX);  make clean  removes what was built'

# ---- build ----

$(BUILD)/build.ninja:
	@tools/bootstrap build
	@tools/configure $(BUILD)

$(BUILD)/brig: $(BUILD)/build.ninja FORCE
	@ninja -C $(BUILD) --quiet

# OpenSSL, c-ares and SQLite are built for the system's C library: brig-proxy and brig-daemon have a build folder of
# their own.
$(BUILD)-proxy/build.ninja: $(BUILD)/build.ninja
	@CC=gcc meson setup $(BUILD)-proxy >/dev/null

# The linker warns of calls in OpenSSL and c-ares that would load libraries; brig-proxy makes none of them (and its
# filter would not let it).
$(BUILD)/brig-proxy: $(BUILD)-proxy/build.ninja FORCE
	@said=$$(ninja -C $(BUILD)-proxy --quiet brig-proxy 2>&1); status=$$?; \
	 printf '%s\n' "$$said" | grep -vE 'in statically linked applications requires|: in function |^$$' >&2; exit $$status
	@cmp -s $(BUILD)-proxy/brig-proxy $@ || install -m 0755 $(BUILD)-proxy/brig-proxy $@

$(BUILD)/brig-daemon: $(BUILD)/brig-proxy FORCE
	@said=$$(ninja -C $(BUILD)-proxy --quiet brig-daemon 2>&1); status=$$?; \
	 printf '%s\n' "$$said" | grep -vE 'in statically linked applications requires|: in function |^$$' >&2; exit $$status
	@cmp -s $(BUILD)-proxy/brig-daemon $@ || install -m 0755 $(BUILD)-proxy/brig-daemon $@

$(BUILD)/brig-template.so: $(BUILD)/brig-proxy FORCE
	@ninja -C $(BUILD)-proxy --quiet brig-template.so
	@strip -S -o $@.new $(BUILD)-proxy/brig-template.so
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(TEST_BUILD)/build.ninja: | deps-test
	@meson setup $(TEST_BUILD) -Dsanitize=true -Dtests=true >/dev/null

test-build: $(TEST_BUILD)/build.ninja
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
test: deps-test
	@$(MAKE) --no-print-directory all test-build
	@$(RUN_TESTS) unit integration escape asan fuzz cross machines

# Hours: everything under the sanitizers, long fuzzing, leak checks on every architecture, soak.
test-full: deps-test
	@$(MAKE) --no-print-directory all test-build
	@$(RUN_TESTS) --full unit integration escape asan fuzz cross machines soak

unit asan: deps-test test-build
	@$(RUN_TESTS) $@

integration escape: deps-test all test-build
	@$(RUN_TESTS) $@

machines: deps-test all
	@$(RUN_TESTS) cross machines

fuzz cross: deps-test
	@$(RUN_TESTS) $@

bench:
	@tools/bootstrap bench
	@$(MAKE) --no-print-directory all
	@if [ -e tests/bench/run ]; then BRIG=$(BRIG) tests/bench/run && BRIG=$(BRIG) tests/bench/serve; \
	 else echo "bench: tests/bench/run is not there" >&2; exit 1; fi

# 10 000 runs; QUICK=1 for 500.
bench-growth: all
	@BRIG=$(BRIG) tests/bench/growth $(if $(QUICK),--quick)

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

man docs/man: $(MAN_PAGES)

$(BUILD)/man/%: docs/man/%.scd
	@command -v scdoc >/dev/null || tools/bootstrap install
	@mkdir -p $(BUILD)/man
	@scdoc <$< >$@.tmp && mv $@.tmp $@

install: $(BUILD)/brig $(BUILD)/brig-proxy $(BUILD)/brig-daemon $(BUILD)/brig-template.so $(MAN_PAGES)
	install -D -m 0755 $(BUILD)/brig $(BINDIR)/brig
	install -D -m 0755 $(BUILD)/brig-proxy $(LIBEXECDIR)/brig-proxy
	install -D -m 0755 $(BUILD)/brig-daemon $(LIBEXECDIR)/brig-daemon
	install -D -m 0755 $(BUILD)/brig-template.so $(LIBEXECDIR)/brig-template.so
	for page in $(MAN_PAGES); do install -D -m 0644 $$page $(MANDIR)/man$${page##*.}/$${page##*/} || exit 1; done
	$(BUILD)/brig completion bash >$(BUILD)/completion.bash
	$(BUILD)/brig completion zsh >$(BUILD)/completion.zsh
	$(BUILD)/brig completion fish >$(BUILD)/completion.fish
	install -D -m 0644 $(BUILD)/completion.bash $(BASHDIR)/brig
	install -D -m 0644 $(BUILD)/completion.zsh $(ZSHDIR)/_brig
	install -D -m 0644 $(BUILD)/completion.fish $(FISHDIR)/brig.fish

clean:
	rm -rf $(BUILD) $(BUILD)-proxy $(BUILD)-uapi $(TEST_BUILD) build-fuzz build-cross
