// What this host knows of the collectives of its ranks, as batches for the diagnosis of slow and hung ranks,
// and the diagnosis as series and events.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "collectives/batch.h"
#include "collectives/diagnosis.h"
#include "collectives/sampler.h"
#include "core/frame_writer.h"
#include "plugins/event_queue.h"
#include "sources/job_pages/job_pages.h"
#include "sources/nccl_files/inspector_line.h"

namespace gpulens {

// Not thread-safe.
class DiagnosisFeed {
 public:
  // `sender` differs between agents and their restarts.
  explicit DiagnosisFeed(uint64_t sender) : sender_(sender) {}

  // Takes a page of a process. A page that ended is forgotten after the next batch.
  void TakePage(const JobPageView& view, const collectives::Process& process, Instant now);
  // Takes an operation of a file, timed on its GPU or on the host from kernel to kernel; others are ignored.
  void TakeRecord(const nccl_files::InspectorRecord& record, Instant now);
  // Takes what another source knows of a rank, until the next batch.
  void TakeMember(collectives::Member member, const collectives::Process& process);

  // What came since the last call.
  collectives::Batch Make(Instant now);

 private:
  struct Rank {
    explicit Rank(uint64_t communicator) : sampler(communicator) {}
    collectives::Sampler sampler;
    collectives::Member member;
    collectives::Process process;
    uint64_t page = 0;  // id; 0: of files
    Instant seen;
    bool ended = false;
    uint64_t sequence = 0;
    struct Sent {
      uint64_t steps = 0, ns = 0;
    };
    std::map<int32_t, Sent> sent;  // by peer, until now
  };
  using Key = std::pair<uint64_t, int32_t>;
  Rank& RankOf(uint64_t communicator, int32_t rank);
  void TakeLinks(const JobPageView& view);

  const uint64_t sender_;
  uint64_t number_ = 0;
  std::map<Key, std::unique_ptr<Rank>> ranks_;
  std::vector<std::pair<collectives::Member, collectives::Process>> others_;
};

// Series of a diagnosis. Not thread-safe.
class DiagnosisSeries {
 public:
  void Write(const collectives::Diagnosis& diagnosis, FrameWriter& out);
  // Reports what was raised, changed or cleared. `queue` may be null.
  void Report(const std::vector<collectives::FaultChange>& changes, Instant now, EventQueue* queue) const;
  // Series and events of the communicator are of a demo from now on.
  void MarkSimulated(uint64_t communicator) {
    if (simulated_.size() < kMostPlaces) simulated_.insert(communicator);
  }

 private:
  struct Place {
    EntityRef entity;
    Series lateness, lost, straggler, pending, hung, missing, ranks;
    uint64_t seen = 0;
  };
  Place& PlaceOf(uint64_t communicator, int32_t rank, std::string_view name,
                 const collectives::Process* process);

  static constexpr size_t kMostPlaces = 8192;
  std::map<std::pair<uint64_t, int32_t>, Place> places_;
  std::set<uint64_t> simulated_;  // communicators
  uint64_t run_ = 0;
};

}  // namespace gpulens
