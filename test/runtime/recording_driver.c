/* A CUDA driver that starts nothing: it writes the calls that it gets, a line each, to the file $CALLS.

   An image is text: the first line is its name, each further one that of a kernel, with a letter for each parameter, `p`
   for a pointer and `m` for a tensor map. */
#include <cuda.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void record(const char *format, ...) {
  FILE *file = fopen(getenv("CALLS"), "a");
  va_list values;
  va_start(values, format);
  vfprintf(file, format, values);
  va_end(values);
  fclose(file);
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  *text = error == CUDA_ERROR_NO_BINARY_FOR_GPU ? "no kernel image" : "another error";
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  record("load %.*s\n", (int)strcspn(image, "\n"), (const char *)image);
  if (strncmp(image, "wrong", 5) == 0) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  *module = (CUmodule)strcpy(malloc(strlen(image) + 1), image);
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  record("unload\n");
  free(module);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  char line[200];
  snprintf(line, sizeof(line), "\n%s ", name);
  *function = (CUfunction)strstr((const char *)module, line);
  return *function == NULL ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

/* The name of a kernel, and the letters of its parameters. */
static void read_kernel(CUfunction function, char name[200], char kinds[200]) {
  if (sscanf((const char *)function, "%199s %199s", name, kinds) != 2) abort();
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  char name[200], kinds[200];
  read_kernel(function, name, kinds);
  record("attribute %s %d %d\n", name, attribute, value);
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *memory, size_t bytes) {
  *memory = 1ull << 40;
  record("allocate %zu\n", bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr memory) {
  record("free %llu\n", memory);
  return CUDA_SUCCESS;
}

CUresult cuMemsetD8(CUdeviceptr memory, unsigned char value, size_t bytes) {
  record("fill %llu %d %zu\n", memory, value, bytes);
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
  record("wait %zu\n", (size_t)stream);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  record("copy %llu %llu %zu %zu\n", to, from, bytes, (size_t)stream);
  return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *shape, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  char *text = (char *)map;
  memset(map, 0, sizeof(*map));
  if ((size_t)map % 64 != 0) return CUDA_ERROR_INVALID_VALUE;
  text += sprintf(text, "%d,%u,%zu", type, rank, (size_t)address);
  for (cuuint32_t number = 0; number < rank; ++number) text += sprintf(text, ",%zu", (size_t)shape[number]);
  for (cuuint32_t number = 0; number + 1 < rank; ++number) text += sprintf(text, ",%zu", (size_t)strides[number]);
  for (cuuint32_t number = 0; number < rank; ++number) text += sprintf(text, ",%u,%u", box[number], steps[number]);
  sprintf(text, ",%d,%d,%d,%d", interleave, swizzle, promotion, fill);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **values, void **extra) {
  char name[200], kinds[200];
  read_kernel(function, name, kinds);
  const unsigned others = config->gridDimY * config->gridDimZ * config->blockDimY * config->blockDimZ;
  if (others != 1 || extra != NULL) return CUDA_ERROR_INVALID_VALUE;
  record("launch %s %u %u %u %zu", name, config->gridDimX, config->blockDimX, config->sharedMemBytes,
         (size_t)config->hStream);
  for (unsigned number = 0; number < config->numAttrs; ++number) {
    const CUlaunchAttribute *attribute = &config->attrs[number];
    if (attribute->id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) return CUDA_ERROR_INVALID_VALUE;
    record(" early=%d", attribute->value.programmaticStreamSerializationAllowed);
  }
  for (int number = 0; kinds[number] != 0; ++number)
    if (kinds[number] == 'p')
      record(" %llu", *(CUdeviceptr *)values[number]);
    else
      record(" %s", (const char *)values[number]);
  record("\n");
  return CUDA_SUCCESS;
}
