// Compiled alone by test_cupti_layout.py, with NVIDIA's headers: our declarations of CUPTI are theirs.
#include <cuda.h>
#include <cupti.h>

#include <type_traits>

#include "inject/cuda/cupti_calls.h"
#include "inject/cuda/hooked_calls.h"

using namespace gpulens;

#define SAME(theirs, their_field, ours, our_field)                            \
  static_assert(offsetof(theirs, their_field) == offsetof(ours, our_field) && \
                sizeof(static_cast<theirs*>(nullptr)->their_field) ==         \
                    sizeof(static_cast<ours*>(nullptr)->our_field))

#define KERNEL(theirs)                                           \
  static_assert(sizeof(theirs) >= cupti::kSmallestKernelRecord); \
  SAME(theirs, kind, cupti::KernelRecord, kind);                 \
  SAME(theirs, start, cupti::KernelRecord, start_ns);            \
  SAME(theirs, end, cupti::KernelRecord, end_ns);                \
  SAME(theirs, completed, cupti::KernelRecord, completed_ns);    \
  SAME(theirs, deviceId, cupti::KernelRecord, device);           \
  SAME(theirs, contextId, cupti::KernelRecord, context);         \
  SAME(theirs, streamId, cupti::KernelRecord, stream);           \
  SAME(theirs, correlationId, cupti::KernelRecord, correlation); \
  SAME(theirs, name, cupti::KernelRecord, name);                 \
  SAME(theirs, queued, cupti::KernelRecord, queued_ns);          \
  SAME(theirs, launchType, cupti::KernelRecord, launch_type);    \
  SAME(theirs, graphNodeId, cupti::KernelRecord, graph_node);    \
  SAME(theirs, graphId, cupti::KernelRecord, graph);

KERNEL(CUpti_ActivityKernel9)
#if CUPTI_API_VERSION >= 130000
KERNEL(CUpti_ActivityKernel10)
#endif
#if CUPTI_API_VERSION >= 130500
KERNEL(CUpti_ActivityKernel13)
#endif

SAME(CUpti_ActivityGraphTrace2, kind, cupti::GraphRecord, kind);
SAME(CUpti_ActivityGraphTrace2, correlationId, cupti::GraphRecord, correlation);
SAME(CUpti_ActivityGraphTrace2, start, cupti::GraphRecord, start_ns);
SAME(CUpti_ActivityGraphTrace2, end, cupti::GraphRecord, end_ns);
SAME(CUpti_ActivityGraphTrace2, deviceId, cupti::GraphRecord, device);
SAME(CUpti_ActivityGraphTrace2, graphId, cupti::GraphRecord, graph);

static_assert(sizeof(CUpti_CallbackData) == sizeof(cupti::CallbackData));
SAME(CUpti_CallbackData, callbackSite, cupti::CallbackData, site);
SAME(CUpti_CallbackData, functionReturnValue, cupti::CallbackData, result);
SAME(CUpti_CallbackData, context, cupti::CallbackData, context);
SAME(CUpti_CallbackData, contextUid, cupti::CallbackData, context_uid);
SAME(CUpti_CallbackData, correlationData, cupti::CallbackData, correlation_data);
SAME(CUpti_CallbackData, correlationId, cupti::CallbackData, correlation);

static_assert(CUPTI_SUCCESS == cupti::kSuccess &&
              CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED == cupti::kSubscriberExists);
static_assert(CUPTI_CB_DOMAIN_DRIVER_API == cupti::kDriverApi);
static_assert(CUPTI_API_ENTER == cupti::kEnter && CUPTI_API_EXIT == cupti::kExit);
static_assert(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL == cupti::kConcurrentKernel);
static_assert(CUPTI_ACTIVITY_KIND_GRAPH_TRACE == cupti::kGraphTrace);

#define ID(function, id, kind) static_assert(CUPTI_DRIVER_TRACE_CBID_##function == id);
GPULENS_CUDA_CALLS(ID)
static_assert(CUPTI_DRIVER_TRACE_CBID_SIZE <= inject::kCallIds);

#if CUPTI_API_VERSION >= 130000
static_assert(CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize_v2 == 800);
SAME(CUpti_SubscriberParams, structSize, cupti::SubscriberParameters, size);
SAME(CUpti_SubscriberParams, subscriberName, cupti::SubscriberParameters, name);
SAME(CUpti_SubscriberParams, oldSubscriberName, cupti::SubscriberParameters, old_name);
SAME(CUpti_SubscriberParams, oldSubscriberSize, cupti::SubscriberParameters, old_name_size);
#if CUPTI_API_VERSION < 130200
static_assert(CUpti_SubscriberParams_STRUCT_SIZE == cupti::kSizeWithoutSeveral);
#else
SAME(CUpti_SubscriberParams, allowMultipleSubscribers, cupti::SubscriberParameters, several);
static_assert(CUpti_SubscriberParams_STRUCT_SIZE == sizeof(cupti::SubscriberParameters));
static_assert(CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN == cupti::kOldNameSize);
#endif
#endif

// The functions: as many parameters, each of the same size, and the same result.
template <typename Theirs, typename Ours>
struct Alike : std::false_type {};
template <typename... Theirs, typename... Ours>
struct Alike<CUptiResult(Theirs...), cupti::Result (*)(Ours...)> {
  static constexpr bool Compare() {
    if constexpr (sizeof...(Theirs) != sizeof...(Ours)) return false;
    else
      return ((sizeof(Theirs) == sizeof(Ours) && std::is_pointer_v<Theirs> == std::is_pointer_v<Ours>) &&
              ...);
  }
  static constexpr bool value = Compare();
};
#define FUNCTION(theirs, ours) static_assert(Alike<decltype(theirs), decltype(cupti::Calls::ours)>::value);
FUNCTION(cuptiGetVersion, GetVersion)
FUNCTION(cuptiSubscribe, Subscribe)
FUNCTION(cuptiUnsubscribe, Unsubscribe)
FUNCTION(cuptiEnableCallback, EnableCallback)
FUNCTION(cuptiGetTimestamp, GetTimestamp)
FUNCTION(cuptiGetDeviceId, GetDeviceId)
FUNCTION(cuptiActivityFlushAll, FlushAll)
FUNCTION(cuptiActivityFlushPeriod, FlushPeriod)
FUNCTION(cuptiActivityEnableHWTrace, EnableHardwareTrace)
FUNCTION(cuptiActivityEnable, Enable)
FUNCTION(cuptiActivityDisable, Disable)
FUNCTION(cuptiActivityRegisterCallbacks, RegisterCallbacks)
FUNCTION(cuptiActivityGetNextRecord, GetNextRecord)
FUNCTION(cuptiActivityGetNumDroppedRecords, GetDropped)
#if CUPTI_API_VERSION >= 130000
FUNCTION(cuptiSubscribe_v2, SubscribeV2)
#endif
#if CUPTI_API_VERSION >= 130500
FUNCTION(cuptiGetTimestamp_v2, GetTimestampV2)
FUNCTION(cuptiActivityEnable_v2, EnableV2)
FUNCTION(cuptiActivityDisable_v2, DisableV2)
FUNCTION(cuptiActivityRegisterCallbacks_v2, RegisterCallbacksV2)
FUNCTION(cuptiActivityGetNextRecord_v2, GetNextRecordV2)
FUNCTION(cuptiActivityGetNumDroppedRecords_v2, GetDroppedV2)
#endif
