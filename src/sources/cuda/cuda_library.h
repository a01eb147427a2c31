// The CUDA driver's library as a table of the few functions that a resident kernel needs, found by dlopen.
// The declarations are ours, after the driver API's documentation; no header of CUDA is used.
#pragma once

#include <cstddef>

#include <gpulens/status.h>

namespace gpulens::cuda {

using Device = int;
using DevicePointer = unsigned long long;
using Handle = struct Opaque*;  // a context, module, function or stream

inline constexpr int kSuccess = 0, kNotReady = 600;
inline constexpr unsigned kHostPortable = 1, kHostMapped = 2, kStreamNonBlocking = 1;

// X(member, symbol, parameters)
#define GPULENS_CUDA_CALLS(X)                                                                               \
  X(Init, "cuInit", (unsigned))                                                                             \
  X(DeviceCount, "cuDeviceGetCount", (int*))                                                                \
  X(DeviceGet, "cuDeviceGet", (Device*, int))                                                               \
  X(ContextRetain, "cuDevicePrimaryCtxRetain", (Handle*, Device))                                           \
  X(ContextRelease, "cuDevicePrimaryCtxRelease_v2", (Device))                                               \
  X(ContextPush, "cuCtxPushCurrent_v2", (Handle))                                                           \
  X(ContextPop, "cuCtxPopCurrent_v2", (Handle*))                                                            \
  X(ModuleLoad, "cuModuleLoadData", (Handle*, const void*))                                                 \
  X(ModuleFunction, "cuModuleGetFunction", (Handle*, Handle, const char*))                                  \
  X(ModuleUnload, "cuModuleUnload", (Handle))                                                               \
  X(HostAlloc, "cuMemHostAlloc", (void**, size_t, unsigned))                                                \
  X(HostDevicePointer, "cuMemHostGetDevicePointer_v2", (DevicePointer*, void*, unsigned))                   \
  X(HostFree, "cuMemFreeHost", (void*))                                                                     \
  X(StreamCreate, "cuStreamCreate", (Handle*, unsigned))                                                    \
  X(StreamQuery, "cuStreamQuery", (Handle))                                                                 \
  X(StreamDestroy, "cuStreamDestroy_v2", (Handle))                                                          \
  X(Launch, "cuLaunchKernel",                                                                               \
    (Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**, void**)) \
  X(ErrorName, "cuGetErrorName", (int, const char**))

struct CudaSymbols {
#define GPULENS_CUDA_MEMBER(member, symbol, parameters) int(*member) parameters = nullptr;
  GPULENS_CUDA_CALLS(GPULENS_CUDA_MEMBER)
#undef GPULENS_CUDA_MEMBER
};

// Finds a function by its symbol; null when there is none.
using SymbolLookup = void* (*)(const char* name);

// kUnavailable when there is no libcuda.so.1 (with the loader's message) or it lacks a function (which is
// named). The library stays open. Thread-safe.
Result<CudaSymbols> Open();
Result<CudaSymbols> FromLookup(SymbolLookup lookup);

// Ok, or kIo: "cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED (719)".
Status StatusOf(const CudaSymbols& cuda, int code, const char* call);

}  // namespace gpulens::cuda
