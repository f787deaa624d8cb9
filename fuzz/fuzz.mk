# Fuzz targets: included by the Makefile. `make fuzz` runs them under libFuzzer; `make test` replays their corpora.
comma := ,
# Each fuzz target, as a plain program that replays its corpus (`make test`) and, in build-fuzz, as libFuzzer's.
FUZZ := $(patsubst fuzz/fuzz_%.c,%,$(sort $(wildcard fuzz/fuzz_*.c)))
TESTS += $(FUZZ:%=$(BUILD)/tests/test_fuzz_%)
FUZZERS := $(FUZZ:%=$(BUILD)/fuzz_%)

.PHONY: fuzz fuzzers
# fuzz/held.c answers these calls of parsers from memory, fuzz/compare.c those for libFuzzer's notes.
HELD := tri__file_read tri__file_there tri__file_write tri__folder_there tri__folder_make
COMPARED := $(if $(FAST),strcmp strncmp memcmp)
wrap = $(patsubst %,-Wl$(comma)--wrap=%,$(1))
$(BUILD)/tests/test_fuzz_%: $(BUILD)/fuzz/fuzz_%.o $(BUILD)/fuzz/fuzz.o $(BUILD)/fuzz/held.o $(BUILD)/fuzz/replay.o \
  $(BUILD)/libtrident.a
	@mkdir -p $(@D)
	@$(LINK) $(call wrap,$(HELD)) -o $@ $^ $(LIBS)
FUZZ_OBJECTS := $(BUILD)/fuzz/fuzz.o $(BUILD)/fuzz/held.o $(if $(FAST),$(BUILD)/fuzz/compare.o)
# What brings main(): libFuzzer, or what OSS-Fuzz gives instead.
FUZZ_ENGINE ?= -fsanitize=fuzzer
FUZZ_LINK = @echo "  LINK $@" && $(LINK) $(FUZZ_ENGINE) $(call wrap,$(HELD) $(COMPARED)) -o $@ $^ $(LIBS)
$(BUILD)/fuzz_%: $(BUILD)/fuzz/fuzz_%.o $(FUZZ_OBJECTS) $(BUILD)/libtrident.a
	$(FUZZ_LINK)
# Targets of requests link most of the library: counters of what reads no request are put where libFuzzer, which looks
# through all after each input, does not look.
$(BUILD)/fuzz_request_%: $(BUILD)/fuzz/fuzz_request_%.o $(FUZZ_OBJECTS) $(BUILD)/fuzz/librequests.a
	$(FUZZ_LINK)
$(BUILD)/fuzz/librequests.a: $(LIB_OBJECTS)
	@rm -rf $@ $(@D)/aside && mkdir -p $(@D)/aside
	@for object in $(filter-out $(foreach part,base serve web data/table,$(BUILD)/src/$(part)/%),$^); do \
	  objcopy --rename-section __sancov_cntrs=aside_cntrs --rename-section __sancov_pcs=aside_pcs $$object \
	    $(@D)/aside/$$(echo $${object#$(BUILD)/} | tr / _) || exit 1; done
	@ar rcs $@ $(filter $(foreach part,base serve web data/table,$(BUILD)/src/$(part)/%),$^) $(@D)/aside/*.o
# Every parser under libFuzzer with ASan and UBSan, SECONDS each, or only TARGET (docs/internals/fuzzing.md). It needs
# clang. FAST=1: several times as many inputs, without ASan and without tracing comparisons, in a build of its own.
SECONDS ?= 60
fuzz:
	@CC='$(FUZZ_CC)' OPENMP= tools/deps --fuzz
	@$(MAKE) --no-print-directory BUILD=$(FUZZ_BUILD) CC='$(FUZZ_CC)' OPENMP= FAST='$(FAST)' \
	  CFLAGS='$(FUZZ_CFLAGS)' fuzzers
	@fuzz/run $(FUZZ_BUILD) $(SECONDS) $(TARGET)
FUZZ_CC := clang
FUZZ_BUILD := build-fuzz$(if $(FAST),-fast)
FUZZ_CFLAGS := -O2 -g -fsanitize=fuzzer-no-link,undefined,float-cast-overflow $(if $(FAST),\
  -fsanitize-trap=all -fno-sanitize-coverage=trace-cmp$(comma)indirect-calls,\
  -fsanitize=address -fno-omit-frame-pointer -fno-sanitize-recover=all) -fsanitize-coverage-ignorelist=fuzz/uncovered \
  -Wno-unknown-pragmas -Wno-unused-parameter
fuzzers: $(FUZZERS)
