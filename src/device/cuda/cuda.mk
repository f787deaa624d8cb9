# The CUDA plug-in: included by the Makefile. `make cuda` builds it, `make test-cuda` and `make sanitize-cuda` test it.
# It is a library of its own: host side in C, kernels in CUDA C. Code for Ampere and Hopper, PTX for what comes later.
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
CUDA_ARCH ?= -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90a,code=sm_90a \
  -gencode arch=compute_90,code=compute_90
CUDA_OPT ?= -O3 -lineinfo
CUDA_SOURCES := $(sort $(shell find src/device/cuda -name '*.c' -o -name '*.cu'))
CUDA_OBJECTS := $(CUDA_SOURCES:%=$(BUILD)/%.o)
CUDA_FAMILIES = -D'TRI_CUDA_FAMILIES(X)=$(call families,TRI_CUDA_FAMILY,$(CUDA_SOURCES))'
CUDA_SHARES := $(patsubst %.c,$(BUILD)/%.o,src/base/status.c src/base/clock.c src/layout/dtype.c src/layout/shard.c \
  src/numbers/coded.c src/device/wisdom.c src/program/op.c src/program/variant.c)

.PHONY: cuda test-cuda sanitize-cuda nccl-double
$(BUILD)/src/device/cuda/%.c.o: src/device/cuda/%.c $(BUILD)/flags
	$(call compile,-isystem $(CUDA_HOME)/include $(if $(filter %/device.c,$<),$(CUDA_FAMILIES)))
$(BUILD)/cuda.families: always
	$(call words_in_file,$(CUDA_FAMILIES))
$(BUILD)/src/device/cuda/runtime/device.c.o: $(BUILD)/cuda.families
$(BUILD)/cuda.flags: always
	$(call words_in_file,$(NVCC) $(CUDA_OPT) $(CUDA_ARCH))
$(BUILD)/src/device/cuda/%.cu.o: src/device/cuda/%.cu $(BUILD)/flags $(BUILD)/cuda.flags
	@mkdir -p $(@D)
	@echo "  NVCC $<"
	@$(NVCC) -std=c++17 $(CUDA_OPT) -ccbin $(CC) $(CUDA_ARCH) -D_GNU_SOURCE -Iinclude -Isrc -Werror all-warnings \
	  -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra,-Werror -MMD -MP -MF $(@:.o=.d) -MT $@ -c $< -o $@
$(BUILD)/libtrident_cuda.so: $(CUDA_OBJECTS) $(CUDA_SHARES)
	@echo "  LINK $@"
	@$(NVCC) -shared -ccbin $(CC) $(CUDA_ARCH) $(OPENMP:%=-Xcompiler %) -o $@ $^ -L$(CUDA_HOME)/lib64 -lcublasLt \
	  -Xlinker -rpath,$(CUDA_HOME)/lib64 -Xlinker --no-undefined
cuda: all
	@[ -n '$(NVCC)' ] || { echo 'make cuda: nvcc is not found; install the CUDA toolkit, or say where it is:' \
	  'make cuda NVCC=/path/to/nvcc'; exit 1; }
	@$(MAKE) --no-print-directory $(BUILD)/libtrident_cuda.so
# A double of NCCL (tests/lib/nccl_double.h), for ranks that share a GPU: with this folder in LD_LIBRARY_PATH it is
# loaded in place of libnccl. An ordinary C compiler makes it.
NCCL_DOUBLE := $(BUILD)/tests/nccl/libnccl.so.2
$(BUILD)/tests/cuda/nccl_gpu.o: tests/cuda/nccl_gpu.c $(BUILD)/flags
	@[ -n '$(CUDA_HOME)' ] || { echo "make nccl-double: CUDA's headers are not found; install the CUDA toolkit, or say" \
	  'where nvcc is: NVCC=/path/to/nvcc'; exit 1; }
	$(call compile,-isystem $(CUDA_HOME)/include)
$(NCCL_DOUBLE): $(BUILD)/tests/lib/nccl_double.o $(BUILD)/tests/lib/nccl_meet.o $(BUILD)/tests/cuda/nccl_gpu.o \
  $(BUILD)/libtrident.a
	@mkdir -p $(@D)
	@echo "  LINK $@"
	@$(LINK) -shared -Wl,-soname,$(@F),--exclude-libs,ALL,--no-undefined -o $@ $^ -L$(CUDA_HOME)/lib64 -lcudart_static \
	  $(LIBS) -ldl -lrt
nccl-double: $(NCCL_DOUBLE)
# On a GPU machine; each test skips with a reason where there is no GPU or no plug-in. Side by side: what has the GPU to
# itself, most of whose time are reference rows on the CPU's cores, and then one script of ranks; and, a script at a
# time, the others that have ranks that share the GPU, which take turns at each transfer and would only keep more of
# them waiting. Then what measures times.
CUDA_ALONE := cli_cuda_calibrate
CUDA_AFTER := cli_cuda_fp8
CUDA_RANKS := cli_cuda_ranks cli_cuda_coded cli_cuda_elastic cli_cuda_double
CUDA_TESTS := $(basename $(notdir $(sort $(wildcard tests/cuda/test_cuda_*.c))))
CUDA_PLAIN := $(CUDA_TESTS) $(filter-out $(CUDA_ALONE) $(CUDA_AFTER) $(CUDA_RANKS),\
  $(basename $(notdir $(wildcard tests/cli/cli_cuda_*.sh))))
test-cuda: cuda $(NCCL_DOUBLE) $(CUDA_TESTS:%=$(BUILD)/tests/%)
	@export TRI_LOGS=$(BUILD)/logs; code=0; \
	  { TRI_JOBS=$(words $(CUDA_PLAIN)) tests/run $(BUILD) $(CUDA_PLAIN); plain=$$?; \
	    TRI_JOBS=1 tests/run $(BUILD) $(CUDA_AFTER) && exit $$plain; } & \
	  TRI_JOBS=1 tests/run $(BUILD) $(CUDA_RANKS) || code=1; \
	  wait $$! || code=1; \
	  TRI_JOBS=1 tests/run $(BUILD) $(CUDA_ALONE) || code=1; exit $$code
# The kernels under compute-sanitizer: accesses outside memory, then shared memory that threads race for. A tenth of
# their cases. Then meshes of ranks over the double of NCCL.
sanitize-cuda: cuda $(NCCL_DOUBLE) $(BUILD)/tests/test_cuda_kernels
	@[ -x $(CUDA_HOME)/bin/compute-sanitizer ] || { echo 'make sanitize-cuda:' \
	  '$(CUDA_HOME)/bin/compute-sanitizer is not there; it comes with the CUDA toolkit'; exit 1; }
	@for tool in memcheck:few racecheck:own; do echo "compute-sanitizer $${tool%:*}"; \
	  $(CUDA_HOME)/bin/compute-sanitizer --tool $${tool%:*} --error-exitcode 9 \
	    $(BUILD)/tests/test_cuda_kernels --$${tool#*:} || exit 1; \
	  TRI_BUILD=$(abspath $(BUILD)) TRI_DOUBLE_UNDER="$(CUDA_HOME)/bin/compute-sanitizer --tool $${tool%:*} \
	    --target-processes all --error-exitcode 9" bash tests/cli/cli_cuda_double.sh || exit 1; done
