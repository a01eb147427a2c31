// The calls of the CUDA driver that the injection library hooks, with CUPTI's ids of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "job_page/job_page.h"

// X(function, CUPTI_DRIVER_TRACE_CBID_<function>, CallKind)
#define GPULENS_CUDA_CALLS(X)                                \
  X(cuLaunchKernel, 307, kKernel)                            \
  X(cuLaunchKernel_ptsz, 442, kKernel)                       \
  X(cuLaunchKernelEx, 652, kKernel)                          \
  X(cuLaunchKernelEx_ptsz, 653, kKernel)                     \
  X(cuLaunch, 115, kKernel)                                  \
  X(cuLaunchGrid, 116, kKernel)                              \
  X(cuLaunchGridAsync, 117, kKernel)                         \
  X(cuLaunchCooperativeKernel, 477, kCooperative)            \
  X(cuLaunchCooperativeKernel_ptsz, 478, kCooperative)       \
  X(cuLaunchCooperativeKernelMultiDevice, 480, kCooperative) \
  X(cuGraphLaunch, 514, kGraph)                              \
  X(cuGraphLaunch_ptsz, 515, kGraph)                         \
  X(cuStreamSynchronize, 126, kSync)                         \
  X(cuStreamSynchronize_ptsz, 440, kSync)                    \
  X(cuEventSynchronize, 121, kSync)                          \
  X(cuCtxSynchronize, 17, kSync)

namespace gpulens::inject {

enum class CallKind : uint8_t { kNone, kKernel, kCooperative, kGraph, kSync };
struct HookedCall {
  uint16_t id;
  CallKind kind;
};
inline constexpr HookedCall kHookedCalls[] = {
#define GPULENS_ROW(function, id, kind) {id, CallKind::kind},
    GPULENS_CUDA_CALLS(GPULENS_ROW)
#undef GPULENS_ROW
        {800, CallKind::kSync},  // cuCtxSynchronize_v2, since CUDA 13.0
};

inline constexpr size_t kCallIds = 1024;
struct CallTable {
  CallKind kinds[kCallIds] = {};
  constexpr CallTable() {
    for (const HookedCall& call : kHookedCalls) kinds[call.id] = call.kind;
  }
};
inline constexpr CallTable kCallTable;

constexpr job_page::Launch LaunchOf(CallKind kind) noexcept {
  return kind == CallKind::kGraph         ? job_page::Launch::kGraph
         : kind == CallKind::kCooperative ? job_page::Launch::kCooperative
                                          : job_page::Launch::kKernel;
}

}  // namespace gpulens::inject
