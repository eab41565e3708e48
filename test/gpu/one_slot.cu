// A ring of one slot: copies fill it, all threads read it, and it is filled again once it is released. Exits with 0.
#include <cstdint>

__device__ unsigned shared(const void* pointer) { return (unsigned)__cvta_generic_to_shared(pointer); }

__device__ void initialise(uint64_t* barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared(barrier)), "r"(arrivals) : "memory");
}

__device__ void arrive(uint64_t* barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared(barrier)) : "memory");
}

__device__ void wait(uint64_t* barrier, unsigned parity) {
  asm volatile(
      "{ .reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@!done bra again; }" ::"r"(shared(barrier)), "r"(parity) : "memory");
}

__global__ void one_slot(const float* in, float* out) {
  __shared__ float slot[128];
  __shared__ __align__(8) uint64_t full, empty;
  const int thread = threadIdx.x;
  if (thread == 0) {
    initialise(&full, 128);
#ifdef RELEASING_LANE
    initialise(&empty, 4);
#else
    initialise(&empty, 128);
#endif
  }
  __syncthreads();
  float sum = 0.0f;
  for (int step = 0; step < 4; ++step) {
    if (step > 0) wait(&empty, (step - 1) % 2);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared(&slot[thread])), "l"(in + step * 128 + thread)
                 : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared(&full)) : "memory");
    wait(&full, step % 2);
    sum += slot[127 - thread];
#ifdef RELEASING_LANE
    __syncwarp();
    if (thread % 32 == 0) arrive(&empty);
#else
    arrive(&empty);
#endif
  }
  out[thread] = sum;
}

int main() {
  float *in, *out;
  if (cudaMalloc(&in, 4 * 128 * sizeof(float)) || cudaMalloc(&out, 128 * sizeof(float))) return 1;
  if (cudaMemset(in, 0, 4 * 128 * sizeof(float))) return 1;
  one_slot<<<1, 128>>>(in, out);
  return cudaDeviceSynchronize() != cudaSuccess;
}
