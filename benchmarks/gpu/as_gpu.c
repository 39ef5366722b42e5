/* What ONNX Runtime's providers for NVIDIA call, for a machine without a GPU; compiled and described by as_gpu.py.

   Memory of the device is memory of the process, filled with zeros; copies and host functions happen at once; kernels
   are counted and compute nothing. AS_GPU_BYTES bounds the memory, so that running out of it can be seen. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
enum { OUT_OF_MEMORY = 2, DEVICE = 2, CUDA_VERSION = 13000 };

static const size_t MEGABYTE = 1 << 20;

static size_t total_bytes(void) {
  const char *given = getenv("AS_GPU_BYTES");
  return given ? strtoull(given, NULL, 10) : 16384 * MEGABYTE;
}

/* ---- memory: before each block of whole 256 bytes lie its size and what was allocated ---- */

static size_t used_bytes;

static int take(void **out, size_t bytes) {
  *out = NULL;
  if (__atomic_load_n(&used_bytes, __ATOMIC_RELAXED) + bytes > total_bytes()) return OUT_OF_MEMORY;
  char *whole = calloc(1, bytes + 768); /* pages that nobody writes take no memory */
  if (!whole) return OUT_OF_MEMORY;
  char *block = (char *)(((uintptr_t)whole + 512) & ~(uintptr_t)255);
  ((size_t *)block)[-1] = bytes;
  ((char **)block)[-2] = whole;
  __atomic_fetch_add(&used_bytes, bytes, __ATOMIC_RELAXED);
  *out = block;
  return 0;
}

static int give(void *block) {
  if (!block) return 0;
  __atomic_fetch_sub(&used_bytes, ((size_t *)block)[-1], __ATOMIC_RELAXED);
  free(((char **)block)[-2]);
  return 0;
}

EXPORT int cudaMalloc(void **out, size_t bytes) { return take(out, bytes); }
EXPORT int cudaMallocFromPoolAsync(void **out, size_t bytes, void *pool, void *stream) { return take(out, bytes); }
EXPORT int cudaFree(void *pointer) { return give(pointer); }
EXPORT int cudaFreeAsync(void *pointer, void *stream) { return give(pointer); }
EXPORT int cudaMallocHost(void **out, size_t bytes) { return (*out = calloc(1, bytes + 64)) ? 0 : OUT_OF_MEMORY; }
EXPORT int cudaHostAlloc(void **out, size_t bytes, unsigned flags) { return cudaMallocHost(out, bytes); }
EXPORT int cudaFreeHost(void *pointer) { free(pointer); return 0; }
EXPORT int cudaMemGetInfo(size_t *free_bytes, size_t *total) {
  *total = total_bytes();
  *free_bytes = *total - used_bytes;
  return 0;
}
EXPORT int cudaMemcpy(void *to, const void *from, size_t bytes, int kind) { memmove(to, from, bytes); return 0; }
EXPORT int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
  return cudaMemcpy(to, from, bytes, kind);
}
EXPORT int cudaMemcpy2DAsync(
    void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind, void *stream
) {
  for (size_t row = 0; row < height; row++)
    memmove((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
  return 0;
}
EXPORT int cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset, int kind) {
  memset(to, 0, bytes);
  return 0;
}
EXPORT int cudaMemset(void *to, int value, size_t bytes) { memset(to, value, bytes); return 0; }
EXPORT int cudaMemsetAsync(void *to, int value, size_t bytes, void *stream) { return cudaMemset(to, value, bytes); }
EXPORT int cudaMemPoolGetAttribute(void *pool, int attribute, void *value) { *(uint64_t *)value = 0; return 0; }
EXPORT int cudaPointerGetAttributes(void *out, const void *pointer) {
  struct { int type, device; void *on_device, *on_host; } found = {DEVICE, 0, (void *)pointer, NULL};
  memcpy(out, &found, sizeof found);
  return 0;
}

/* ---- the device: the first fields of cudaDeviceProp of CUDA 13 ---- */

struct properties {
  char name[256], uuid[16], luid[8];
  unsigned luid_mask;
  size_t total, shared_per_block;
  int registers_per_block, warp;
  size_t pitch;
  int threads_per_block, threads[3], grid[3];
  size_t constants;
  int major, minor;
  size_t texture[2];
  int multiprocessors;
};

enum { SHARED = 49152, SHARED_OPTIN = 101376, THREADS = 1024, MULTIPROCESSORS = 132, MAJOR = 8, MINOR = 9 };

EXPORT int cudaGetDeviceProperties(struct properties *out, int device) {
  memset(out, 0, 1008); /* sizeof(cudaDeviceProp) of CUDA 13 */
  snprintf(out->name, sizeof out->name, "pretended GPU");
  out->total = total_bytes();
  out->shared_per_block = SHARED;
  out->registers_per_block = 65536;
  out->warp = 32;
  out->pitch = 2147483647;
  out->threads_per_block = out->threads[0] = out->threads[1] = THREADS;
  out->threads[2] = 64;
  out->grid[0] = 2147483647;
  out->grid[1] = out->grid[2] = 65535;
  out->constants = 65536;
  out->major = MAJOR;
  out->minor = MINOR;
  out->texture[0] = 512;
  out->texture[1] = 32;
  out->multiprocessors = MULTIPROCESSORS;
  return 0;
}

EXPORT int cudaDeviceGetAttribute(int *value, int attribute, int device) {
  switch (attribute) {
    case 1: *value = THREADS; break;
    case 8: *value = SHARED; break;
    case 10: *value = 32; break;
    case 16: *value = MULTIPROCESSORS; break;
    case 39: *value = 2048; break;
    case 75: *value = MAJOR; break;
    case 76: *value = MINOR; break;
    case 81: *value = SHARED_OPTIN + 1024; break;
    case 82: *value = 65536; break;
    case 97: *value = SHARED_OPTIN; break;
    case 106: *value = 32; break;
    default: *value = 1;
  }
  return 0;
}
EXPORT int cudaGetDeviceCount(int *count) { *count = 1; return 0; }
EXPORT int cudaGetDevice(int *device) { *device = 0; return 0; }
EXPORT int cudaDriverGetVersion(int *version) { *version = CUDA_VERSION; return 0; }
EXPORT int cudaRuntimeGetVersion(int *version) { *version = CUDA_VERSION; return 0; }
EXPORT const char *cudaGetErrorString(int error) { return error == OUT_OF_MEMORY ? "out of memory" : "no error"; }
EXPORT const char *cudaGetErrorName(int error) {
  return error == OUT_OF_MEMORY ? "cudaErrorMemoryAllocation" : "cudaSuccess";
}

/* ---- streams, events, graphs, kernels ---- */

static int capturing;
static long launches, replays;

static int handle(void **out) { return (*out = calloc(1, 64)) ? 0 : OUT_OF_MEMORY; }

EXPORT int cudaStreamCreate(void **out) { return handle(out); }
EXPORT int cudaStreamCreateWithFlags(void **out, unsigned flags) { return handle(out); }
EXPORT int cudaStreamDestroy(void *stream) { free(stream); return 0; }
EXPORT int cudaEventCreate(void **out) { return handle(out); }
EXPORT int cudaEventCreateWithFlags(void **out, unsigned flags) { return handle(out); }
EXPORT int cudaEventDestroy(void *event) { free(event); return 0; }
EXPORT int cudaEventRecord(double *event, void *stream) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  *event = now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
  return 0;
}
EXPORT int cudaEventRecordWithFlags(double *event, void *stream, unsigned flags) {
  return cudaEventRecord(event, stream);
}
EXPORT int cudaEventElapsedTime(float *ms, const double *begin, const double *end) {
  *ms = (float)(*end - *begin);
  return 0;
}
EXPORT int cudaStreamBeginCapture(void *stream, int mode) { capturing = 1; return 0; }
EXPORT int cudaStreamEndCapture(void *stream, void **graph) { capturing = 0; return handle(graph); }
EXPORT int cudaStreamIsCapturing(void *stream, int *status) { *status = capturing; return 0; }
EXPORT int cudaGraphInstantiate(void **out, void *graph, unsigned long long flags) { return handle(out); }
EXPORT int cudaGraphLaunch(void *graph, void *stream) { replays++; return 0; }
EXPORT int cudaLaunchHostFunc(void *stream, void (*call)(void *), void *data) { call(data); return 0; }
EXPORT int cudaMemPoolCreate(void **out, const void *wanted) { return handle(out); }
EXPORT int cudaLibraryLoadData(void **out) { return handle(out); }
EXPORT int cudaLibraryGetKernel(void **out) { return handle(out); }
EXPORT int cudaFuncGetAttributes(void *out, const void *kernel) {
  struct { size_t shared, constants, local; int threads, registers, ptx, binary, cache, dynamic; } found =
      {0, 0, 0, THREADS, 64, MAJOR * 10, MAJOR * 10, 0, SHARED};
  memcpy(out, &found, sizeof found);
  return 0;
}
EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *kernel, int threads, size_t shared, unsigned flags
) {
  *blocks = 2;
  return 0;
}
EXPORT int cudaLaunchKernel(const void *kernel) { launches++; return 0; }
EXPORT int __cudaLaunchKernel(const void *kernel) { launches++; return 0; }
EXPORT int cudaLaunchCooperativeKernel(const void *kernel) { launches++; return 0; }
EXPORT int cudaLaunchKernelExC(const void *shape, const void *kernel, void **given) { launches++; return 0; }
EXPORT void **__cudaRegisterFatBinary(void *binary) {
  static void *known;
  return &known;
}
EXPORT int cuTensorMapEncodeTiled(void *map) { return 0; }
EXPORT int cudaGetDriverEntryPointByVersion(
    const char *name, void **out, unsigned version, unsigned long long flags, int *status
) {
  *out = (void *)cuTensorMapEncodeTiled;
  if (status) *status = 0;
  return 0;
}

__attribute__((destructor)) static void tell(void) {
  const char *path = getenv("AS_GPU_COUNTS");
  FILE *file = path && (launches || replays) ? fopen(path, "a") : NULL;
  if (!file) return;
  fprintf(file, "{\"launches\": %ld, \"replays\": %ld}\n", launches, replays);
  fclose(file);
}

/* ---- cuBLAS and cuDNN: what is asked of them besides computing ---- */

EXPORT int cublasCreate_v2(void **out) { return handle(out); }
EXPORT int cublasGetMathMode(void *of, int *mode) { *mode = 0; return 0; }
EXPORT const char *cublasGetStatusName(int status) { return "pretended"; }
EXPORT const char *cublasGetStatusString(int status) { return "pretended"; }
EXPORT int cublasLtMatmulAlgoGetHeuristic(
    void *of, void *what, void *a, void *b, void *c, void *d, void *preference, int wanted, void *results, int *found
) {
  memset(results, 0, 96); /* sizeof(cublasLtMatmulHeuristicResult_t) */
  *found = 1;
  return 0;
}
EXPORT size_t cudnnGetVersion(void) { return 91400; }
EXPORT const char *cudnnGetErrorString(int status) { return "pretended"; }
EXPORT int cudnnBackendGetAttribute(void *of, int what, int type, int64_t wanted, int64_t *found, void *values) {
  enum { INT64 = 3, DESCRIPTOR = 15 };
  if (found) *found = type == DESCRIPTOR;
  if (values && type == INT64) {
    *(int64_t *)values = 0;
    if (found) *found = 1;
  }
  return 0;
}
EXPORT int cudnnBackendCreateDescriptor(int kind, void **out) { return handle(out); }

/* ---- NVML ---- */

EXPORT int nvmlInit_v2(void) { return 0; }
EXPORT int nvmlShutdown(void) { return 0; }
EXPORT int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return 0; }
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) { return handle(out); }
EXPORT int nvmlDeviceGetMemoryInfo(void *of, unsigned long long *total_free_used) {
  total_free_used[0] = total_bytes();
  total_free_used[2] = used_bytes;
  total_free_used[1] = total_bytes() - used_bytes;
  return 0;
}
EXPORT int nvmlDeviceGetCudaComputeCapability(void *of, int *major, int *minor) {
  *major = MAJOR;
  *minor = MINOR;
  return 0;
}
EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = CUDA_VERSION; return 0; }
EXPORT int nvmlDeviceGetName(void *of, char *name, unsigned bytes) { snprintf(name, bytes, "pretended GPU"); return 0; }
EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned bytes) { snprintf(text, bytes, "0.0"); return 0; }
