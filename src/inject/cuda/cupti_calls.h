// Own declarations of the part of NVIDIA's CUPTI that the injection library uses, versions 12 to 13.5, and
// how it is found in a process. Names, numbers and layouts are NVIDIA's; cupti_layout_test.py compares them
// with its headers where those can be had. Nothing of CUPTI is linked.
#pragma once

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(hidden)
namespace gpulens::cupti {

using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kSubscriberExists = 39;  // another subscriber, or NVIDIA's own tools
using Subscriber = void*;
using Context = void*;  // CUcontext

inline constexpr int kDriverApi = 1;  // callback domain
inline constexpr int kEnter = 0, kExit = 1;

// What a callback of the driver's domain is given.
struct CallbackData {
  int32_t site;
  const char* function;
  const void* parameters;
  const void* result;  // in kExit: of a CUresult
  const char* symbol;
  Context context;
  uint32_t context_uid;
  uint64_t* correlation_data;  // of the subscriber: equal in enter and exit of one call
  uint32_t correlation;        // as in the record of the kernel
};
static_assert(sizeof(CallbackData) == 72 && offsetof(CallbackData, correlation) == 64);
using Callback = void (*)(void* user, int domain, uint32_t id, const void* data);

inline constexpr uint32_t kConcurrentKernel = 10, kGraphTrace = 51;  // kinds of records

// The first part of a record of a kernel, which is equal in CUpti_ActivityKernel9 (CUDA 12.0) to 13 (13.5).
struct KernelRecord {
  uint32_t kind;
  uint32_t reserved0[3];
  uint64_t start_ns, end_ns, completed_ns;  // 0: not known
  uint32_t device, context, stream;
  uint32_t reserved1[10];
  uint32_t correlation;
  int64_t grid;
  const char* name;
  void* reserved2;
  uint64_t queued_ns, submitted_ns;
  uint8_t launch_type, reserved3[7];
  uint64_t graph_node;  // 0: not of a graph
  uint32_t reserved4, graph;
};
static_assert(offsetof(KernelRecord, start_ns) == 16 && offsetof(KernelRecord, device) == 40 &&
              offsetof(KernelRecord, correlation) == 92 && offsetof(KernelRecord, name) == 104 &&
              offsetof(KernelRecord, graph_node) == 144 && offsetof(KernelRecord, graph) == 156);
inline constexpr size_t kSmallestKernelRecord = 208;

struct GraphRecord {  // CUpti_ActivityGraphTrace2
  uint32_t kind, correlation;
  uint64_t start_ns, end_ns;
  uint32_t device, graph, context, stream;
};

struct SubscriberParameters {
  size_t size;
  const char* name;
  char* old_name;  // who subscribed before
  size_t old_name_size;
  uint8_t several;  // others may subscribe, too; not read before version 13.2
  uint8_t padding[7];
};
static_assert(sizeof(SubscriberParameters) == 40);
inline constexpr size_t kSizeWithoutSeveral = offsetof(SubscriberParameters, several);
inline constexpr size_t kOldNameSize = 64;

using Requested = void (*)(uint8_t** buffer, size_t* size, size_t* records);
using Completed = void (*)(Context context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);
using RequestedV2 = void (*)(uint8_t** buffer, size_t* size, size_t* records, void* info);
using CompletedV2 = void (*)(uint8_t* buffer, size_t size, size_t valid, void* info);

// The functions of one libcupti; null: that version has none.
struct Calls {
  Result (*GetVersion)(uint32_t* version);
  Result (*Subscribe)(Subscriber* out, Callback callback, void* user);
  Result (*SubscribeV2)(Subscriber* out, Callback callback, void* user, SubscriberParameters* parameters);
  Result (*Unsubscribe)(Subscriber subscriber);
  Result (*EnableCallback)(uint32_t enable, Subscriber subscriber, int domain, uint32_t id);
  Result (*GetDeviceId)(Context context, uint32_t* device);
  Result (*FlushAll)(uint32_t forced);
  Result (*FlushPeriod)(uint32_t ms);
  Result (*EnableHardwareTrace)(uint8_t enable);
  // One subscriber. Never mixed with those of several in one process: CUPTI refuses it, or loses records.
  Result (*GetTimestamp)(uint64_t* ns);
  Result (*Enable)(uint32_t kind);
  Result (*Disable)(uint32_t kind);
  Result (*RegisterCallbacks)(Requested requested, Completed completed);
  Result (*GetNextRecord)(uint8_t* buffer, size_t valid, void** record);
  Result (*GetDropped)(Context context, uint32_t stream, size_t* dropped);  // and sets it back to 0
  // Several subscribers: since CUDA 13.2.
  Result (*GetTimestampV2)(Subscriber subscriber, uint64_t* ns);
  Result (*EnableV2)(Subscriber subscriber, uint32_t kind, void* config);
  Result (*DisableV2)(Subscriber subscriber, uint32_t kind, void* config);
  Result (*RegisterCallbacksV2)(Subscriber subscriber, RequestedV2 requested, CompletedV2 completed);
  Result (*GetNextRecordV2)(Subscriber subscriber, uint8_t* buffer, size_t valid, void** record);
  Result (*GetDroppedV2)(Subscriber subscriber, Context context, uint32_t stream, size_t* dropped);

  bool SeveralSubscribers() const noexcept {
    return SubscribeV2 && EnableV2 && DisableV2 && RegisterCallbacksV2 && GetNextRecordV2 && GetTimestampV2;
  }
};

// Finds the process's libcupti: the path in GPULENS_CUPTI; the one that is loaded; one next to the CUDA
// runtime that is loaded (in wheels and toolkits); the loader's usual search. Fills `out` and returns null,
// or why there is none. For the thread that initialises CUDA; calls dlopen.
const char* Load(Calls& out) noexcept;

// The name of a tool of NVIDIA's in this process that does not share CUPTI (nsys, ncu, cuda-gdb,
// compute-sanitizer); null: none.
const char* OtherTool() noexcept;

}  // namespace gpulens::cupti
#pragma GCC visibility pop
