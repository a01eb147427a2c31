/* See fake_cuda.h. */
#define _GNU_SOURCE
#include "fake_cuda.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HIDDEN __attribute__((visibility("hidden")))
#define SHOWN __attribute__((visibility("default")))

enum { kDevices = 4, kContexts = 64 };
struct FakeCudaContext {
  uint32_t uid;
  int device;
};

static struct FakeCudaContext contexts[kContexts];
static atomic_uint context_count;
static atomic_uint_fast64_t launch_ns, delay_ns = 5000, kernel_ns = 1000, graph_nodes = 10;
static atomic_uint_fast64_t device_end[kDevices]; /* when the last kernel ends, CLOCK_REALTIME */
static atomic_uintptr_t tracer_address;
static atomic_int initialized;
static __thread int thread_device;
static __thread CUcontext thread_context;

static uint64_t Now(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void FromEnvironment(const char* name, atomic_uint_fast64_t* number) {
  const char* text = getenv(name);
  if (text) atomic_store(number, strtoull(text, NULL, 10));
}

__attribute__((constructor)) static void Start(void) {
  FromEnvironment("FAKE_CUDA_LAUNCH_NS", &launch_ns);
  FromEnvironment("FAKE_CUDA_DELAY_NS", &delay_ns);
  FromEnvironment("FAKE_CUDA_KERNEL_NS", &kernel_ns);
  FromEnvironment("FAKE_CUDA_GRAPH_NODES", &graph_nodes);
}

static CUcontext ContextOf(int device) {
  for (unsigned i = 0; i < atomic_load(&context_count); ++i)
    if (contexts[i].device == device) return &contexts[i];
  const unsigned at = atomic_fetch_add(&context_count, 1);
  if (at >= kContexts) abort();
  contexts[at].uid = at + 1;
  contexts[at].device = device;
  return &contexts[at];
}

static CUcontext Current(void) {
  if (!thread_context || thread_context->device != thread_device) thread_context = ContextOf(thread_device);
  return thread_context;
}

SHOWN CUfunction FakeCudaFunctionOf(const char* name) { return (CUfunction)name; }
SHOWN void FakeCudaSet(uint64_t launch, uint64_t delay, uint64_t kernel) {
  atomic_store(&launch_ns, launch);
  atomic_store(&delay_ns, delay);
  atomic_store(&kernel_ns, kernel);
}
SHOWN void FakeCudaSetDevice(int device) { thread_device = device % kDevices; }
SHOWN void FakeCudaTrace(const struct FakeCudaTracer* tracer) { atomic_store(&tracer_address, (uintptr_t)tracer); }
SHOWN uint32_t FakeCudaContextUid(CUcontext context) { return context ? context->uid : 0; }
SHOWN int FakeCudaContextDevice(CUcontext context) { return context ? context->device : -1; }

static const struct FakeCudaTracer* Tracer(void) {
  return (const struct FakeCudaTracer*)atomic_load_explicit(&tracer_address, memory_order_acquire);
}

/* Reserves `duration` on the device from `earliest` on; returns the start. */
static uint64_t Reserve(int device, uint64_t earliest, uint64_t duration) {
  uint_fast64_t end = atomic_load(&device_end[device]);
  uint64_t start;
  do {
    start = end > earliest ? end : earliest;
  } while (!atomic_compare_exchange_weak(&device_end[device], &end, start + duration));
  return start;
}

static CUresult Launch(int callback, const char* name, int is_graph) {
  if (!atomic_load_explicit(&initialized, memory_order_relaxed)) return FAKE_CUDA_NOT_INITIALIZED;
  const uint64_t wait = atomic_load_explicit(&launch_ns, memory_order_relaxed);
  const struct FakeCudaTracer* tracer = Tracer();
  const int device = thread_device;
  const CUcontext context = Current();
  uint64_t scratch = 0;
  uint32_t correlation = 0;
  if (tracer) correlation = tracer->enter(callback, context, &scratch);
  if (tracer || wait) {
    const uint64_t begin = Now();
    if (tracer) {
      const uint64_t earliest = begin + atomic_load_explicit(&delay_ns, memory_order_relaxed);
      const uint64_t duration = atomic_load_explicit(&kernel_ns, memory_order_relaxed);
      if (is_graph) {
        const uint64_t nodes = atomic_load_explicit(&graph_nodes, memory_order_relaxed);
        const uint64_t start = Reserve(device, earliest, nodes * duration);
        if (!tracer->graph(correlation, device, start, start + nodes * duration, 7))
          for (uint64_t i = 0; i < nodes; ++i)
            tracer->kernel(correlation, name, device, start + i * duration, start + (i + 1) * duration, 7, i + 1);
      } else {
        const uint64_t start = Reserve(device, earliest, duration);
        tracer->kernel(correlation, name, device, start, start + duration, 0, 0);
      }
    }
    while (wait && Now() - begin < wait) {
    }
  }
  if (tracer) tracer->exit(callback, correlation, context, &scratch, FAKE_CUDA_SUCCESS);
  return FAKE_CUDA_SUCCESS;
}

/* Waits until the device is done. */
static CUresult Synchronize(int callback) {
  if (!atomic_load(&initialized)) return FAKE_CUDA_NOT_INITIALIZED;
  const struct FakeCudaTracer* tracer = Tracer();
  const CUcontext context = Current();
  uint64_t scratch = 0;
  uint32_t correlation = 0;
  if (tracer) correlation = tracer->enter(callback, context, &scratch);
  const uint64_t end = atomic_load(&device_end[thread_device]);
  for (uint64_t now = Now(); now < end; now = Now()) {
    const struct timespec rest = {0, end - now > 50000000 ? 50000000 : (long)(end - now)};
    nanosleep(&rest, NULL);
  }
  if (tracer) tracer->exit(callback, correlation, context, &scratch, FAKE_CUDA_SUCCESS);
  return FAKE_CUDA_SUCCESS;
}

HIDDEN CUresult FakeCuda_cuInit(unsigned flags) {
  (void)flags;
  if (atomic_exchange(&initialized, 1)) return FAKE_CUDA_SUCCESS;
  const char* path = getenv("CUDA_INJECTION64_PATH");
  if (!path || !*path) return FAKE_CUDA_SUCCESS;
  void* library = dlopen(path, RTLD_NOW);
  if (!library) {
    fprintf(stderr, "fake_cuda: %s\n", dlerror());
    return FAKE_CUDA_SUCCESS;
  }
  int (*start)(void) = (int (*)(void))dlsym(library, "InitializeInjection");
  if (start) start();
  return FAKE_CUDA_SUCCESS;
}
HIDDEN CUresult FakeCuda_cuDriverGetVersion(int* version) { return *version = 13000, FAKE_CUDA_SUCCESS; }
HIDDEN CUresult FakeCuda_cuDeviceGetCount(int* count) { return *count = kDevices, FAKE_CUDA_SUCCESS; }
HIDDEN CUresult FakeCuda_cuDeviceGet(CUdevice* device, int ordinal) { return *device = ordinal, FAKE_CUDA_SUCCESS; }
HIDDEN CUresult FakeCuda_cuDeviceGetPCIBusId(char* text, int size, CUdevice device) {
  if (device < 0 || device >= kDevices) return FAKE_CUDA_INVALID_VALUE;
  snprintf(text, (size_t)size, "0000:%02X:00.0", 0x1A + device);
  return FAKE_CUDA_SUCCESS;
}
HIDDEN CUresult FakeCuda_cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
  (void)flags;
  thread_device = device % kDevices;
  *context = thread_context = ContextOf(thread_device);
  return FAKE_CUDA_SUCCESS;
}
HIDDEN CUresult FakeCuda_cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return *context = ContextOf(device % kDevices), FAKE_CUDA_SUCCESS;
}
HIDDEN CUresult FakeCuda_cuCtxSetCurrent(CUcontext context) {
  thread_context = context;
  if (context) thread_device = context->device;
  return FAKE_CUDA_SUCCESS;
}
HIDDEN CUresult FakeCuda_cuCtxGetCurrent(CUcontext* context) { return *context = Current(), FAKE_CUDA_SUCCESS; }
HIDDEN CUresult FakeCuda_cuStreamCreate(CUstream* stream, unsigned flags) {
  (void)flags;
  return *stream = NULL, FAKE_CUDA_SUCCESS;
}
HIDDEN CUresult FakeCuda_cuMemAlloc_v2(CUdeviceptr* pointer, size_t bytes) {
  return *pointer = (CUdeviceptr)(uintptr_t)malloc(bytes), FAKE_CUDA_SUCCESS;
}
HIDDEN CUresult FakeCuda_cuMemFree_v2(CUdeviceptr pointer) { return free((void*)(uintptr_t)pointer), FAKE_CUDA_SUCCESS; }

#define LAUNCH(name, callback)                                                                                   \
  HIDDEN CUresult FakeCuda_##name(CUfunction function, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, \
                                  unsigned f, unsigned g, CUstream stream, void** parameters, void** extra) {      \
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)stream, (void)parameters, (void)extra;    \
    return Launch(callback, (const char*)function, 0);                                                             \
  }
LAUNCH(cuLaunchKernel, 307)
LAUNCH(cuLaunchKernel_ptsz, 442)
#define LAUNCH_EX(name, callback)                                                                               \
  HIDDEN CUresult FakeCuda_##name(const FakeCudaLaunchConfig* config, CUfunction function, void** parameters, \
                                  void** extra) {                                                             \
    (void)config, (void)parameters, (void)extra;                                                              \
    return Launch(callback, (const char*)function, 0);                                                        \
  }
LAUNCH_EX(cuLaunchKernelEx, 652)
LAUNCH_EX(cuLaunchKernelEx_ptsz, 653)
#define LAUNCH_COOPERATIVE(name, callback)                                                                         \
  HIDDEN CUresult FakeCuda_##name(CUfunction function, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, \
                                  unsigned f, unsigned g, CUstream stream, void** parameters) {                    \
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)stream, (void)parameters;                 \
    return Launch(callback, (const char*)function, 0);                                                             \
  }
LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel, 477)
LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel_ptsz, 478)
#define LAUNCH_GRAPH(name, callback)                                     \
  HIDDEN CUresult FakeCuda_##name(CUgraphExec graph, CUstream stream) {  \
    (void)stream;                                                        \
    return Launch(callback, graph ? (const char*)graph : "graph_node", 1); \
  }
LAUNCH_GRAPH(cuGraphLaunch, 514)
LAUNCH_GRAPH(cuGraphLaunch_ptsz, 515)
HIDDEN CUresult FakeCuda_cuStreamSynchronize(CUstream stream) { return (void)stream, Synchronize(126); }
HIDDEN CUresult FakeCuda_cuStreamSynchronize_ptsz(CUstream stream) { return (void)stream, Synchronize(440); }
HIDDEN CUresult FakeCuda_cuEventSynchronize(CUevent event) { return (void)event, Synchronize(121); }
HIDDEN CUresult FakeCuda_cuCtxSynchronize(void) { return Synchronize(17); }
HIDDEN CUresult FakeCuda_cuCtxSynchronize_v2(CUcontext context) { return (void)context, Synchronize(800); }

/* Flag 2: functions of the per-thread default stream. */
HIDDEN CUresult FakeCuda_cuGetProcAddress_v2(const char* symbol, void** address, int version, uint64_t flags,
                                             int* status) {
  (void)version;
  char name[128];
  void* found = NULL;
  if (flags & 2) {
    snprintf(name, sizeof name, "%s_ptsz", symbol);
    found = dlsym(RTLD_DEFAULT, name);
  }
  for (const char* const* suffix = (const char* const[]){"_v2", "", NULL}; !found && *suffix; ++suffix) {
    snprintf(name, sizeof name, "%s%s", symbol, *suffix);
    Dl_info own, other;
    found = dlsym(RTLD_DEFAULT, name);
    if (found && (!dladdr(found, &other) || !dladdr((void*)&Launch, &own) || own.dli_fbase != other.dli_fbase))
      found = NULL;
  }
  *address = found;
  if (status) *status = found ? 0 : 1;
  return found ? FAKE_CUDA_SUCCESS : FAKE_CUDA_NOT_FOUND;
}
HIDDEN CUresult FakeCuda_cuGetProcAddress(const char* symbol, void** address, int version, uint64_t flags) {
  return FakeCuda_cuGetProcAddress_v2(symbol, address, version, flags, NULL);
}
