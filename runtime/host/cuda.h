// What the text of a kernel may use, compiled before it: the keywords of CUDA C++ as macros over the host's machine.
#pragma once

#include "engine.h"
#include "memory.h"
#include "ptx.h"
#include "types.h"

#define __device__
#define __align__(bytes) alignas(bytes)
#define __forceinline__ inline
#define __restrict__
#define __grid_constant__
#define __syncthreads() host::sync_threads(__LINE__)
#define __syncthreads_or(predicate) host::sync_threads_or(__LINE__, predicate)
#define __syncwarp() host::sync_warp(__LINE__)
#define __shfl_xor_sync(threads, value, mask) host::shuffle(__LINE__, threads, value, host::lane_xor(mask))
#define __shfl_up_sync(threads, value, delta) host::shuffle(__LINE__, threads, value, host::lane_up(delta))
#define __shfl_sync(threads, value, lane, width) host::shuffle(__LINE__, threads, value, host::lane_of(lane, width))
#define __threadfence() host::fence()
#define __cvta_generic_to_shared(address) host::shared_address(address)
#define atomicInc(counter, last) host::atomic_inc(counter, last)
#define fmaxf(a, b) host::maximum_number<float>(a, b)
#define fminf(a, b) host::minimum_number<float>(a, b)
#define fmax(a, b) host::maximum_number<double>(a, b)
#define fmin(a, b) host::minimum_number<double>(a, b)
#define reinterpret_cast host::cast
