# What a release consists of: included by the Makefile. docs/internals/releasing.md has the order.
#   make dist | wheel [WHEEL_ARCH=aarch64] | wheel-cuda | sbom | abi | abi-record
WHEEL_INTO ?= dist
WHEEL_ARCH ?= $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))

.PHONY: dist wheel wheel-cuda sbom abi abi-record
dist:
	@tools/dist
sbom:
	@tools/sbom --machine
wheel:
	@tools/wheel --arch $(WHEEL_ARCH) --into $(WHEEL_INTO)
wheel-cuda:
	@tools/wheel --cuda --arch $(WHEEL_ARCH) --into $(WHEEL_INTO) $(if $(NVCC),--nvcc $(NVCC))

# Library and program of a wheel: all of the program is in the library but the call of tri_main, so that nothing is there
# twice.
WHEEL_OBJECTS := $(filter-out $(SIMD_OBJECTS),$(LIB_OBJECTS)) $(BUILD)/wheel/simd.o
# A function of several instruction sets lies beside itself, and compresses: a tenth of the wheel. Each has a section of
# its own for that (SIMD_FLAGS of tools/wheel), and sections of one name become one.
$(BUILD)/wheel/simd.o: $(SIMD_OBJECTS)
	@mkdir -p $(@D) && $(CC) -r -nostdlib -o $@ $^
$(BUILD)/wheel/$(SONAME): $(WHEEL_OBJECTS) libtrident.map
	@echo "  LINK $@"
	@$(LINK) -shared -Wl,-soname,$(SONAME),--version-script=libtrident.map -o $@ $(WHEEL_OBJECTS) $(LIBS)
$(BUILD)/wheel/trident: $(BUILD)/src/cli/main.o $(BUILD)/wheel/$(SONAME)
	@echo "  LINK $@"
	@$(LINK) -o $@ $^

# The GPU plug-in of a wheel, which takes cuBLASLt of CUDA 12 or 13 by name.
$(BUILD)/tools/wheel_cublaslt.o: OWN_FLAGS = -isystem $(CUDA_HOME)/include
$(BUILD)/wheel/libtrident_cuda.so: $(CUDA_OBJECTS) $(CUDA_SHARES) $(BUILD)/tools/wheel_cublaslt.o
	@mkdir -p $(@D) && echo "  LINK $@"
	@echo '{ global: tri_cuda_plugin_table; local: *; };' > $(@D)/plugin.map
	@$(LINK) -shared -Wl,-soname,$(@F),--version-script=$(@D)/plugin.map,--no-undefined -o $@ $^ $(LIBS)

# The library's interface, compared with that of the last release, which abi/ holds as text. abidw reads types from
# debugging information, which does not depend on optimisation.
ABI_BUILD := build-abi
ABI_RECORD := abi/$(SONAME).abi
$(ABI_BUILD)/library.abi: always
	@command -v abidw >/dev/null || { echo "make abi: abidw is missing: apt-get install abigail-tools"; exit 71; }
	@$(MAKE) --no-print-directory BUILD=$(ABI_BUILD) CFLAGS='-O0 -g' ISAS= $(ABI_BUILD)/libtrident.so
	@abidw --headers-dir include --drop-private-types --no-corpus-path --no-comp-dir-path --no-show-locs \
	  --no-elf-needed --drop-undefined-syms --out-file $@.all $(ABI_BUILD)/libtrident.so
	@sed "1s/ architecture='[^']*'//" $@.all > $@ # the same for all with 64 bits
abi: $(ABI_BUILD)/library.abi
	@abidiff --no-added-syms $(ABI_RECORD) $< && echo "abi: all of $(ABI_RECORD) is as it was" || { \
	  echo "abi: programs that were built with the last release may break: take the change back, or raise SONAME"; \
	  exit 1; }
abi-record: $(ABI_BUILD)/library.abi
	@mkdir -p $(dir $(ABI_RECORD)) && cp $< $(ABI_RECORD) && wc -c $(ABI_RECORD)
