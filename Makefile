# Trident. `make` builds build/trident and libtrident; there is no configure step, and what is found is announced.
#   make test | test-pages | test-python | soak | demo | parity | ulfm | bench | lint | asan | tsan
#   make fuzz SECONDS=60 [FAST=1]
#   make frozen [PARTS='runs programs bytes words'] | extending
#   make examples
#   make install PREFIX=/usr/local LIBDIR=PREFIX/lib PLUGINDIR=LIBDIR DESTDIR=
#   make test-packages [PARTS='deb container recipes']
#   make dist | wheel [WHEEL_ARCH=aarch64] | wheel-cuda | sbom | abi        (tools/release.mk)
#   make cuda | test-cuda | sanitize-cuda | nccl-double [NVCC=/usr/local/cuda/bin/nvcc]
#        [CUDA_ARCH='-gencode arch=compute_90a,code=sm_90a']
#   make CC=clang BUILD=build-clang        make CFLAGS='-O0 -g'
VERSION := 0.3.0
# All cores, unless a -j was given; a compiler takes up to 0.7 GB.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(or $(shell awk -v n="$$(nproc)" \
  '/^MemAvailable/ { most = int($$2 / 7e5); print most < 1 ? 1 : most < n ? most : n }' /proc/meminfo),1)
endif
SONAME := libtrident.so.0
CC := gcc
BUILD ?= build
$(if $(word 2,$(BUILD)),\
  $(error BUILD='$(BUILD)': make cannot have a build folder with a blank in its name; take another))
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
# Where MPI's and CUDA's plug-ins go. Elsewhere than in LIBDIR they need LDFLAGS=-Wl,-rpath,PLUGINDIR.
PLUGINDIR ?= $(LIBDIR)
CFLAGS ?= -O3 -g1
OPENMP ?= -fopenmp
PKGS := libutf8proc

# What this machine has (MPI, CUDA, libraries) is looked up each time, in about 0.1 s, and kept in found.mk. What is
# missing is named before anything is compiled; only `make demo` and `make test` install it.
ifneq ($(if $(MAKECMDGOALS),$(filter-out clean lint parity extending asan tsan fuzz test-packages \
  dist wheel wheel-cuda sbom abi abi-record,$(MAKECMDGOALS)),all),)
include $(BUILD)/found.mk
endif
SETS_UP := $(filter demo test,$(MAKECMDGOALS))
HAS_TESTS := $(filter test check soak check-tsan test-cuda sanitize-cuda $(BUILD)/tests/%,$(MAKECMDGOALS))
$(BUILD)/found.mk: always
	@CC='$(CC)' OPENMP='$(OPENMP)' tools/deps $(if $(SETS_UP),--install) \
	  $(if $(HAS_TESTS),--tests) --write '$@'

# A frame that is larger than this belongs on the heap: threads and `ulimit -s` may leave little stack. Frames of other
# compilers, of -O0 and of sanitizers are larger, so that only the default build is checked.
FRAME = $(if $(and $(filter gcc,$(CC)),$(findstring -O3,$(CFLAGS)),$(filter src/%,$<)),-Wframe-larger-than=40960)
# Warnings are errors, but for clang's of a loop that it did not unroll, which only costs time.
STRICT := -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wmissing-prototypes -Wstrict-prototypes -Wno-pass-failed
ALL_CFLAGS = $(STRICT) $(FRAME) -DTRI_VERSION='"$(VERSION)"' $(HAS_PACKED) -Iinclude -Isrc -I. $(PKG_CFLAGS) \
  -fPIC -fvisibility=hidden $(OPENMP) -pthread -MMD -MP $(CPPFLAGS) $(CFLAGS)
# Compressed tables, and YAML: `make ZSTD=` builds without that library.
HAS_PACKED = $(if $(ZLIB),-DTRI_HAS_ZLIB) $(if $(ZSTD),-DTRI_HAS_ZSTD) $(if $(LZ4),-DTRI_HAS_LZ4) \
  $(if $(YAML),-DTRI_HAS_YAML)
LIBS = $(PKG_LIBS) $(ZLIB) $(ZSTD) $(LZ4) $(YAML) $(OPENMP) -pthread -lm
LINK = $(CC) $(CFLAGS) $(LDFLAGS)

# The MPI plug-in is a library of its own, built where an MPI compiler was found; everything else works without it.
# Where there are two MPIs (Debian's mpicc.openmpi and mpicc.mpich), each has one more, and the launcher decides which
# is loaded.
MPI_EACH := $(if $(MPI),$(if $(shell command -v mpicc.openmpi),$(if $(shell command -v mpicc.mpich),openmpi mpich)))
MPI_PLUGIN := $(if $(MPI),$(BUILD)/libtrident_mpi.so) $(MPI_EACH:%=$(BUILD)/libtrident_mpi_%.so)
# Fast CPU kernels that use vectors (runtime/isa.h) are compiled once per instruction set of the processor. Lists of
# rows are found by name: a new file needs no other. ISAS=avx2, or ISAS= for plain C, compiles less; the best last.
# `make demo` alone takes this machine's best, or what is built already: a third of the time of a build from nothing.
ISAS_x86_64 := sse2 avx2 avx512 avx512_bf16
ISAS_aarch64 := neon
ISAS_ALL := $(ISAS_$(firstword $(subst -, ,$(shell $(CC) -dumpmachine))))
ifeq ($(MAKECMDGOALS),demo)
ISAS := $(or $(filter $(ISAS_ALL),$(file <$(BUILD)/families)),$(lastword $(firstword $(ISAS_ALL)) \
  $(shell grep -m 1 '^flags' /proc/cpuinfo | grep -ow 'avx2\|avx512dq\|avx512_bf16' | sed s/dq// | sort)))
else
ISAS := $(ISAS_ALL)
endif
FLAGS_avx2 := -mavx2 -mfma
FLAGS_avx512 := -mavx512f -mavx512dq $(FLAGS_avx2)
FLAGS_avx512_bf16 := -mavx512bf16 $(FLAGS_avx512)
SIMD_SOURCES := $(sort $(shell grep -rlE --include='*.c' '/simd_?[a-z0-9_]*\.h"|PER_ISA' src/device/cpu/fast))
PLAIN_FAST := $(filter-out $(SIMD_SOURCES),$(shell find src/device/cpu/fast -name '*.c'))
families = $(sort $(shell grep -ho '^$(1)([a-z0-9_]*)' $(2) | sed 's/$(1)/X/'))
FAMILIES = -D'TRI_SIMD_FAMILIES(X)=$(call families,TRI_FAST_ROWS,$(SIMD_SOURCES))' \
  -D'TRI_PLAIN_FAMILIES(X)=$(call families,TRI_FAST_ROWS,$(PLAIN_FAST))'
LIB_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out src/cli/main.c src/comm/mpi/plugin.c src/device/cuda/% \
  $(SIMD_SOURCES),$(sort $(shell find src -name '*.c'))))
SIMD_OBJECTS := $(foreach source,$(SIMD_SOURCES:%.c=%),$(ISAS:%=$(BUILD)/$(source).%.o))
LIB_OBJECTS += $(SIMD_OBJECTS)
# A test is tests/ROOM/test_NAME.c; its program is BUILD/tests/test_NAME.
TESTS := $(patsubst %.c,$(BUILD)/tests/%,$(sort $(notdir $(wildcard tests/*/test_*.c))))
TEST_HELPERS := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tests/lib/*.c)))
BENCHES := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard bench/*.c)))
EXAMPLES := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard examples/*.c)))
LIBRARY := $(BUILD)/libtrident.a $(BUILD)/libtrident.so $(BUILD)/$(SONAME)

.PHONY: all announce demo test test-pages test-python test-packages check frozen soak ulfm parity bench lint \
  asan tsan check-tsan examples extending install clean
.SECONDARY:
.DEFAULT_GOAL := all
include src/device/cuda/cuda.mk fuzz/fuzz.mk tools/release.mk
all: announce $(BUILD)/trident $(LIBRARY) $(MPI_PLUGIN)

announce:
	@echo "trident $(VERSION): $(CC), MPI $(or $(MPI),not found: ranks on one machine only)," \
	  "CUDA $(if $(NVCC),$(NVCC): make cuda builds its plug-in,not found: no GPUs)," \
	  "compressed tables:$(or $(if $(ZLIB), gzip)$(if $(ZSTD), zstd)$(if $(LZ4), lz4), none)$(if \
	  $(and $(ZLIB),$(ZSTD),$(LZ4)),, (the rest needs: apt-get install zlib1g-dev libzstd-dev liblz4-dev)),$(if \
	  $(YAML),,no) YAML$(if $(YAML),, (apt-get install libyaml-dev))"

# A file that changes when these words do: the compiler's and its flags', and then all that it compiled is compiled
# again.
words_in_file = @mkdir -p $(@D); echo '$(subst ','\'',$(1))' | cmp -s - $@ || echo '$(subst ','\'',$(1))' > $@
$(BUILD)/flags: always
	$(call words_in_file,$(CC) $(ALL_CFLAGS) $(LDFLAGS))
.PHONY: always

# $(call compile,FLAGS,what to say of them)
compile = @mkdir -p $(@D); echo "  CC $<$(2)"; $(CC) $(ALL_CFLAGS) $(1) -c $< -o $@
# Rooms where time is spent; -O1 compiles the others in two thirds of the time of -O3, and -O0 under sanitizers.
HOT := base comm/link comm/ops comm/shm comm/world data/table data/text device exec layout numbers plan program sim \
  stack
COLD_O = $(if $(findstring -O3,$(CFLAGS)),-O1)
ROOM_O = $(if $(filter src/%,$<),$(if $(filter $(HOT:%=src/%/%),$<),,$(COLD_O)))
$(BUILD)/%.o: %.c $(BUILD)/flags
	$(call compile,$(ROOM_O) $(OWN_FLAGS))

# A serving protocol is a file: the list of them is made of the files that there are.
PROTOCOLS := $(sort $(basename $(notdir $(wildcard src/serve/server/protocols/*.c))))
$(BUILD)/protocols: always
	$(call words_in_file,$(PROTOCOLS))
$(BUILD)/src/serve/server/routes.o: OWN_FLAGS = '-DTRI_PROTOCOLS(X)=${PROTOCOLS:%=X(%)}'
$(BUILD)/src/serve/server/routes.o: $(BUILD)/protocols

# gcc reads the intrinsics of an instruction set once: their text takes half a second, as long as what uses them.
INTRINSICS := $(if $(findstring gcc,$(CC)),$(if $(ISAS_ALL:neon=),immintrin.h,arm_neon.h))
define FOR_ISA
$(BUILD)/intrinsics.$(1).h: $(BUILD)/flags
	@echo '#include <$(INTRINSICS)>' > $$@ && $(CC) $$(ALL_CFLAGS) $(FLAGS_$(1)) $(SIMD_FLAGS) -x c-header -o $$@.gch $$@
$(BUILD)/%.$(1).o: %.c $(BUILD)/flags $(INTRINSICS:%.h=$(BUILD)/intrinsics.$(1).h)
	$$(call compile,$(FLAGS_$(1)) $(SIMD_FLAGS) $(INTRINSICS:%.h=-include $(BUILD)/intrinsics.$(1).h) \
	  -DTRI_ISA=$(1) -DTRI_ISA_$(1) $$(if $$(filter %/rows.c,$$<),$$(FAMILIES)), ($(1)))
endef
$(foreach isa,$(ISAS),$(eval $(call FOR_ISA,$(isa))))
$(BUILD)/families: always
	$(call words_in_file,$(ISAS) $(FAMILIES))
# What chooses among them, and what tests or measures each.
CHOOSERS := $(patsubst %.c,$(BUILD)/%.o,src/device/cpu/fast/runtime/fast.c $(shell grep -l simd_sets.h bench/*.c) \
  $(addprefix tests/,$(notdir $(shell grep -l simd_sets.h tests/*/test_*.c))))
$(CHOOSERS): OWN_FLAGS = '-DTRI_ISAS(X)=${ISAS:%=X(%)}'
$(CHOOSERS) $(ISAS:%=$(BUILD)/src/device/cpu/fast/runtime/rows.%.o): $(BUILD)/families

# Pages that are served stand in objects as they are (.incbin).
$(BUILD)/src/web/pages.o: $(wildcard src/web/*.html src/web/*.css src/web/*.js src/web/*.json)
# So do the files of built-in hardware.
$(BUILD)/src/sim/hardware.o: $(wildcard src/sim/*.json)

$(BUILD)/libtrident.a: $(LIB_OBJECTS)
	@rm -f $@ && ar rcs $@ $^
$(BUILD)/libtrident.so: $(LIB_OBJECTS) libtrident.map
	@echo "  LINK $@"
	@$(LINK) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=libtrident.map -o $@ $(LIB_OBJECTS) $(LIBS)
$(BUILD)/$(SONAME): $(BUILD)/libtrident.so
	@ln -sf $(<F) $@
$(MPI_PLUGIN): src/comm/mpi/plugin.c src/comm/mpi/plugin.h src/comm/link/remote.h $(BUILD)/flags
	@echo "  MPICC $@"
	@$(or $(patsubst libtrident_mpi_%.so,mpicc.%,$(filter libtrident_mpi_%,$(@F))),$(MPI)) $(STRICT) -Isrc \
	  -fPIC -fvisibility=hidden $(CFLAGS) $(LDFLAGS) -shared -o $@ $<
$(BUILD)/trident: $(BUILD)/src/cli/main.o $(BUILD)/libtrident.a
	@echo "  LINK $@"
	@$(LINK) -o $@ $^ $(LIBS)
vpath test_%.c $(sort $(dir $(wildcard tests/*/test_*.c)))
# Half of what optimisation takes with -O3 is for tests: -Og will do, but for those that compute as much as kernels do.
TEST_O = $(if $(findstring -O3,$(CFLAGS)),$(if $(findstring kernel,$@)$(findstring product,$@),,-Og))
$(BUILD)/tests/test_%.o: test_%.c $(BUILD)/flags
	$(call compile,$(TEST_O) $(OWN_FLAGS))
# An archive: a test links the helpers that it calls, and what they need of the library.
$(BUILD)/tests/lib.a: $(TEST_HELPERS)
	@rm -f $@ && ar rcs $@ $^
$(BUILD)/tests/test_%: $(BUILD)/tests/test_%.o $(BUILD)/tests/lib.a $(BUILD)/libtrident.a
	@$(LINK) -o $@ $^ -lcmocka $(LIBS)
$(BUILD)/bench/%: $(BUILD)/bench/%.o $(BUILD)/libtrident.a
	@$(LINK) -o $@ $^ $(LIBS)
# An example is a user's program: the public headers and the shared library, nothing else.
$(BUILD)/examples/%: examples/%.c $(wildcard include/*.h) $(BUILD)/libtrident.so $(BUILD)/$(SONAME)
	@mkdir -p $(@D)
	@$(LINK) -std=gnu11 -Wall -Wextra -Werror -Iinclude -o $@ $< -L$(BUILD) -ltrident -Wl,-rpath,'$$ORIGIN/..' -lm

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

demo: announce $(BUILD)/trident
	$(BUILD)/trident demo
# ONLY='table json': the tests whose names contain these; no others are built.
CHECKED := $(if $(ONLY),$(sort $(foreach name,$(ONLY),$(foreach test,$(TESTS),\
  $(if $(findstring $(name),$(notdir $(test))),$(test))))),$(TESTS))
test: all examples $(CHECKED)
	@tools/lint $(BUILD)
	@tests/run $(BUILD) $(ONLY)
check: all examples $(CHECKED)
	@tests/run $(BUILD) $(ONLY)
# What must stay as it is while the sources change, against tests/frozen.d; PARTS='runs words': only those.
frozen: all
	@tests/frozen $(BUILD) $(PARTS)
# The pages of report and watch in Chromium; skipped with a reason where it or python3-selenium is missing.
test-pages: all
	@python=python3; $$python -c 'import selenium' 2>/dev/null || python=/usr/bin/python3; \
	  $$python tests/cli/pages.py $(BUILD) || [ $$? = 77 ]
# The packages: built, and used by a plain user in fresh roots. Needs root, and Debian's packages.
test-packages:
	@tests/packaging/run $(PARTS)
# The full counts: kill loops, crash cycles, random programs, mechanisms turned off (docs/internals/testing.md).
# PARTS='kills alarms': only those.
soak: all $(TESTS)
	@tests/soak/run $(BUILD) $(PARTS)
# One of each thing that docs/extending/ explains is added in a scratch copy of the tree, built and used.
extending:
	@CC='$(CC)' tests/extending/run
# The Python package on every Python that is here, with every package whose tables it takes; mypy; needs PyPI.
test-python: all
	@python/tests/matrix $(BUILD)
lint:
	@tools/lint $(BUILD)
examples: $(EXAMPLES)
bench: all $(BENCHES)
	@for program in $(BENCHES); do echo "$$program"; $$program || exit 1; done
	@python3 bench/comm.py $(BUILD)
	@python3 bench/pipeline.py $(BUILD)
	@python3 bench/restart.py $(BUILD)
	@tools/venv
	@.venv/bin/python bench/table.py $(BUILD)
	@.venv/bin/python bench/tokenizing.py $(BUILD)
	@.venv/bin/python bench/step.py $(BUILD)
	@.venv/bin/python bench/ddp.py $(BUILD)
# Ranks of an MPI job that go on without the dead, with an Open MPI that has ULFM (tools/ulfm installs one).
ulfm: all
	@tools/ulfm $(BUILD)/ulfm
	@tests/run $(BUILD) cli_ulfm.sh
# Against PyTorch and Hugging Face, in a virtual environment of their own (.venv; slow the first time).
parity:
	@tools/venv
	@$(MAKE) --no-print-directory all $(TESTS)
	@.venv/bin/python tools/parity.py $(BUILD)
# One build folder for each sanitizer. OpenMP's own synchronisation is unknown to TSan, so that build is serial inside
# a rank.
# Line tables alone (-g1): variables take a third of the time to compile, and reports do not name them. What ASan adds
# takes another third with -O1, against -Og, which does not inline all that xxHash says has to be.
TRACED := -g1 -fno-omit-frame-pointer
asan:
	@$(MAKE) --no-print-directory BUILD=build-asan COLD_O=-O0 \
	  CFLAGS='-Og $(TRACED) -DXXH_NO_INLINE_HINTS -fsanitize=address,undefined -fno-sanitize-recover=undefined' check
# It runs the tests that have threads: ranks, what they say to each other, the loader, and training on ranks.
TSAN_LONG := exchange far infer model partner shard reload session_meshes pipeline replicas crew choose compress \
  onebit local parallel tensor command
TSAN_TESTS := batcher collectives helper http http_requests join loader messages mismatch nccl_double \
  nccl_peers ranks relay segment server session_ranks $(TSAN_LONG)
tsan:
	@$(MAKE) --no-print-directory BUILD=build-tsan OPENMP=-lgomp COLD_O=-O0 \
	  CFLAGS='-O1 $(TRACED) -fsanitize=thread -Wno-unknown-pragmas -Wno-unused-parameter' check-tsan
check-tsan: all $(TSAN_TESTS:%=$(BUILD)/tests/test_%)
	@tests/run $(BUILD) $(TSAN_TESTS:%=test_%)
# DESTDIR, PREFIX, LIBDIR and PLUGINDIR may hold blanks.
INTO = $(DESTDIR)$(PREFIX)
LIBS_INTO = $(DESTDIR)$(LIBDIR)
install: all
	install -d '$(INTO)/bin' '$(INTO)/include' '$(LIBS_INTO)/pkgconfig' '$(DESTDIR)$(PLUGINDIR)' \
	  '$(INTO)/share/man/man1' '$(INTO)/share/bash-completion/completions' '$(INTO)/share/zsh/site-functions' \
	  '$(INTO)/share/fish/vendor_completions.d'
	install -m 755 $(BUILD)/trident '$(INTO)/bin/trident'
	install -m 644 $(wildcard include/*.h) '$(INTO)/include/'
	install -m 644 $(BUILD)/libtrident.a '$(LIBS_INTO)/libtrident.a'
	install -m 755 $(BUILD)/libtrident.so '$(LIBS_INTO)/libtrident.so.$(VERSION)'
	$(if $(MPI),install -m 755 $(MPI_PLUGIN) '$(DESTDIR)$(PLUGINDIR)/')
	if [ -e $(BUILD)/libtrident_cuda.so ]; then \
	  install -m 755 $(BUILD)/libtrident_cuda.so '$(DESTDIR)$(PLUGINDIR)/'; fi
	ln -sf libtrident.so.$(VERSION) '$(LIBS_INTO)/$(SONAME)'
	ln -sf $(SONAME) '$(LIBS_INTO)/libtrident.so'
	sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(subst $(PREFIX)/,$${prefix}/,$(LIBDIR))|' \
	  -e 's|@VERSION@|$(VERSION)|; s|@PKGS@|$(PKGS)|' \
	  -e 's|@OPENMP@|$(OPENMP)|; s|@PACKED@|$(ZLIB) $(ZSTD) $(LZ4) $(YAML)|' trident.pc.in \
	  > '$(LIBS_INTO)/pkgconfig/trident.pc'
	$(BUILD)/trident man > '$(INTO)/share/man/man1/trident.1'
	$(BUILD)/trident completion bash > '$(INTO)/share/bash-completion/completions/trident'
	$(BUILD)/trident completion zsh > '$(INTO)/share/zsh/site-functions/_trident'
	$(BUILD)/trident completion fish > '$(INTO)/share/fish/vendor_completions.d/trident.fish'
clean:
	rm -rf $(BUILD)
