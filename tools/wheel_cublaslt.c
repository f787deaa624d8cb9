/* wheel_cublaslt.c - cuBLASLt of CUDA 13 or 12 for the plug-in of a wheel, found by name when the first function is
 * called: whichever the process has loaded already (PyTorch's), else one on the search path. Descriptors are passed
 * with their size, so that both versions take them. Without the library calls fail with CUBLAS_STATUS_NOT_SUPPORTED.
 * Linked into wheels alone (tools/wheel). */
#include <cublasLt.h>

#include <dlfcn.h>
#include <pthread.h>

#define FUNCTIONS(X) \
    X(cublasLtCreate, (cublasLtHandle_t * handle), (handle)) \
    X(cublasLtDestroy, (cublasLtHandle_t handle), (handle)) \
    X(cublasLtMatmulDescInit_internal, \
      (cublasLtMatmulDesc_t desc, size_t size, cublasComputeType_t compute, cudaDataType_t scale), \
      (desc, size, compute, scale)) \
    X(cublasLtMatmulDescSetAttribute, \
      (cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t which, const void *value, size_t size), \
      (desc, which, value, size)) \
    X(cublasLtMatrixLayoutInit_internal, \
      (cublasLtMatrixLayout_t layout, size_t size, cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld), \
      (layout, size, type, rows, columns, ld)) \
    X(cublasLtMatrixLayoutSetAttribute, \
      (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t which, const void *value, size_t size), \
      (layout, which, value, size)) \
    X(cublasLtMatmulPreferenceInit_internal, (cublasLtMatmulPreference_t preference, size_t size), (preference, size)) \
    X(cublasLtMatmulPreferenceSetAttribute, \
      (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t which, const void *value, \
       size_t size), \
      (preference, which, value, size)) \
    X(cublasLtMatmulAlgoGetHeuristic, \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, \
       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int wanted, \
       cublasLtMatmulHeuristicResult_t *results, int *n), \
      (handle, desc, a, b, c, d, preference, wanted, results, n)) \
    X(cublasLtMatmulAlgoCheck, \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, \
       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo, \
       cublasLtMatmulHeuristicResult_t *result), \
      (handle, desc, a, b, c, d, algo, result)) \
    X(cublasLtMatmul, \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a, \
       cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta, \
       const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout, \
       const cublasLtMatmulAlgo_t *algo, void *work, size_t work_size, cudaStream_t stream), \
      (handle, desc, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algo, work, work_size, stream))

static struct {
#define X(name, parameters, arguments) cublasStatus_t(*name) parameters;
    FUNCTIONS(X)
#undef X
    size_t (*cublasLtGetVersion)(void);
    int whole;
} lt;

static void load(void) {
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
    void *library = NULL;
    for (int i = 0; i < 2 && !library; i++) library = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
    for (int i = 0; i < 2 && !library; i++) library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    lt.whole = 1;
#define X(name, parameters, arguments) lt.whole &= (*(void **)&lt.name = dlsym(library, #name)) != NULL;
    FUNCTIONS(X)
    X(cublasLtGetVersion, , )
#undef X
}

static int loaded(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return lt.whole;
}

#define X(name, parameters, arguments) \
    cublasStatus_t name parameters { return loaded() ? lt.name arguments : CUBLAS_STATUS_NOT_SUPPORTED; }
FUNCTIONS(X)
#undef X

size_t cublasLtGetVersion(void) { return loaded() ? lt.cublasLtGetVersion() : 0; }
