/* A libcuda.so.1 without a GPU, for tests of what measures CUDA from inside and from outside. C, since
   programs of tests in C and C++ use it.

   One simulated device runs kernels one after the other. A launch takes `launch_ns` of the calling thread,
   the kernel starts `delay_ns` after the call began or when the one before it ended, and takes `kernel_ns`.
   The numbers come from the environment when the library is loaded, or from FakeCudaSet: FAKE_CUDA_LAUNCH_NS,
   FAKE_CUDA_DELAY_NS, FAKE_CUDA_KERNEL_NS   default 0, 5000, 1000 FAKE_CUDA_GRAPH_NODES kernels of a graph,
   default 10 cuInit loads $CUDA_INJECTION64_PATH and calls its InitializeInjection, as the driver does.

   Each entry point is a few bytes of a chosen style (see fake_cuda_entries.S) that jump to FakeCuda_<name>.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef int CUresult;
enum {
  FAKE_CUDA_SUCCESS = 0,
  FAKE_CUDA_INVALID_VALUE = 1,
  FAKE_CUDA_NOT_INITIALIZED = 3,
  FAKE_CUDA_NOT_FOUND = 500
};
typedef struct FakeCudaContext* CUcontext;
typedef struct FakeCudaStream* CUstream;
typedef struct FakeCudaEvent* CUevent;
typedef struct FakeCudaFunction* CUfunction;
typedef struct FakeCudaGraphExec* CUgraphExec;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  CUstream stream;
  void* attributes;
  unsigned attribute_count;
} FakeCudaLaunchConfig; /* CUlaunchConfig */

CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int* version);
CUresult cuDeviceGetCount(int* count);
CUresult cuDeviceGet(CUdevice* device, int ordinal);
CUresult cuDeviceGetPCIBusId(char* text, int size, CUdevice device);
CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device);
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetCurrent(CUcontext* context);
CUresult cuStreamCreate(CUstream* stream, unsigned flags);
CUresult cuMemAlloc_v2(CUdeviceptr* pointer, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr pointer);
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void** parameters, void** extra);
CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                             CUstream stream, void** parameters, void** extra);
CUresult cuLaunchKernelEx(const FakeCudaLaunchConfig* config, CUfunction function, void** parameters,
                          void** extra);
CUresult cuLaunchKernelEx_ptsz(const FakeCudaLaunchConfig* config, CUfunction function, void** parameters,
                               void** extra);
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z,
                                   unsigned shared_bytes, CUstream stream, void** parameters);
CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned grid_x, unsigned grid_y,
                                        unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                                        unsigned shared_bytes, CUstream stream, void** parameters);
CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream);
CUresult cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamSynchronize_ptsz(CUstream stream);
CUresult cuEventSynchronize(CUevent event);
CUresult cuCtxSynchronize(void);
CUresult cuCtxSynchronize_v2(CUcontext context);
CUresult cuGetProcAddress(const char* symbol, void** address, int version, uint64_t flags);
CUresult cuGetProcAddress_v2(const char* symbol, void** address, int version, uint64_t flags, int* status);

/* Of tests alone. A function is a name; a graph's nodes have its name. */
CUfunction FakeCudaFunctionOf(const char* name);
void FakeCudaSet(uint64_t launch_ns, uint64_t delay_ns, uint64_t kernel_ns);
void FakeCudaSetDevice(int device); /* of this thread's launches; default 0 */

/* What the fake CUPTI gets to know. Callback ids are those of cupti_driver_cbid.h. */
struct FakeCudaTracer {
  /* Both return at once when nothing is enabled. `scratch` is equal in enter and exit. Returns the
   * correlation. */
  uint32_t (*enter)(int callback, CUcontext context, uint64_t* scratch);
  void (*exit)(int callback, uint32_t correlation, CUcontext context, uint64_t* scratch, CUresult result);
  /* A kernel of a launch call, or of a graph (graph != 0), with times of CLOCK_REALTIME, which may be in the
   * future. */
  void (*kernel)(uint32_t correlation, const char* name, int device, uint64_t start_ns, uint64_t end_ns,
                 uint32_t graph, uint64_t node);
  /* Whole graph. Returns 1 when its kernels are not reported one by one. */
  int (*graph)(uint32_t correlation, int device, uint64_t start_ns, uint64_t end_ns, uint32_t graph);
};
void FakeCudaTrace(const struct FakeCudaTracer* tracer); /* null: none */
uint32_t FakeCudaContextUid(CUcontext context);
int FakeCudaContextDevice(CUcontext context);

#ifdef __cplusplus
}
#endif
