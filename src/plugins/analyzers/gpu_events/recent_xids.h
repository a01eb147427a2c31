// The XIDs of each GPU that still matter: those of the last hours that neither a reset of the GPU, a boot of
// the machine, nor an operator has dealt with, counted by what they ask for.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame_writer.h"
#include "plugins/analyzers/gpu_events/gpu_event_table.h"

namespace gpulens {

// Not thread-safe. Write does not allocate while GPUs and actions stay.
class RecentXids {
 public:
  // Of one GPU; of more, the oldest are forgotten.
  static constexpr size_t kMaxPerGpu = 256;

  explicit RecentXids(Duration window) : window_ns_(window.count()) {}

  // `gpu`: its place in the book. `action`: as in gpu.xid.action; empty or another word counts as "unknown".
  void Add(size_t gpu, int64_t at_boot_ns, std::string_view action);
  // Forgets what happened before `before_boot_ns`. `gpu` may be GpuEventTable::kNone: of every GPU.
  void Clear(size_t gpu, int64_t before_boot_ns);
  // The same for what a reset of the GPU has settled.
  void ClearByReset(size_t gpu, int64_t before_boot_ns);

  // XIDs and what ended them, from before this process; given to each GPU when it is first seen.
  struct Past {
    enum Kind : uint8_t { kXid, kReset, kClear } kind = kXid;
    std::string gpu_uuid;  // empty: every GPU
    int64_t boot_ns = 0;   // on the clock of this boot
    std::string action;    // of an XID
  };
  void Remember(std::vector<Past> past);

  void Write(const GpuEventTable& table, bool watched, Instant now, FrameWriter& out);

 private:
  static constexpr size_t kActions = 8;
  struct Happened {
    int64_t at_ns = 0;
    uint8_t action = 0;
  };
  struct PerGpu {
    EntityRef entity;  // on which the series are; null: none
    std::vector<Happened> xids;
    std::array<Series, kActions> series;
    bool recalled = false;  // what Remember had of it was added
  };

  PerGpu& Of(size_t gpu);
  void Recall(size_t gpu, const std::string& uuid);
  void WriteGpu(PerGpu& gpu, Instant now, FrameWriter& out) const;

  const int64_t window_ns_;
  std::vector<PerGpu> gpus_;  // by place in the book
  std::vector<Past> past_;    // in order of time
};

}  // namespace gpulens
