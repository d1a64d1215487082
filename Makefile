# The thin front: every target works on a fresh Debian 12 machine.
.PHONY: all demo test unit integration escape fuzz bench soak format lint clean install deps deps-test

BUILD ?= build
TEST_BUILD ?= build-test

all: $(BUILD)/brig

$(BUILD)/build.ninja:
	@tools/bootstrap build
	@tools/configure $(BUILD)

$(BUILD)/brig: $(BUILD)/build.ninja FORCE
	@ninja -C $(BUILD) --quiet

.PHONY: FORCE
FORCE:
