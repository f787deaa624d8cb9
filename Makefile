# make: builds build/trident and build/libtrident.so. No configure step; what is found is announced.
CC ?= gcc
BUILD ?= build
PREFIX ?= /usr/local
VERSION := 0.1.0
PKGS := jansson libutf8proc
# BLIS first (83-86 % of fp32 peak on arm64, OpenBLAS 72-75 %); BLAS=openblas selects the other.
BLAS ?= $(shell pkg-config --exists blis && echo blis || (pkg-config --exists openblas && echo openblas))
CFLAGS ?= -O3 -g
WARN := -std=gnu11 -Wall -Wextra -Werror -Wmissing-prototypes -Wstrict-prototypes -Wno-unknown-pragmas
ALL_CFLAGS = $(WARN) -D_GNU_SOURCE -DTRI_VERSION='"$(VERSION)"' -DTRI_BLAS_$(BLAS) -Iinclude -Isrc -fPIC -fvisibility=hidden \
  -ffp-contract=off -fopenmp -pthread $(shell pkg-config --cflags $(PKGS) $(BLAS)) $(CFLAGS)
LIBS = $(shell pkg-config --libs $(PKGS) $(BLAS)) -lm -ldl -fopenmp -pthread $(LDFLAGS)

SOURCES := $(sort $(shell find src -name '*.c'))
LIB_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out src/cli/main.c,$(SOURCES)))

.PHONY: all announce deps demo test parity bench lint asan soak install clean
all: announce $(BUILD)/trident $(BUILD)/libtrident.so.0

include tools/rules.mk
