// What Diagnosis knows of processes, communicators, members and hints (diagnosis.cc keeps it), and how faults
// are found in it (faults.cc). For these two files alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "collectives/collective_join.h"
#include "collectives/diagnosis.h"
#include "collectives/hang.h"
#include "collectives/lateness.h"
#include "collectives/slow_communication.h"

namespace gpulens::collectives {

inline constexpr int64_t kSecondNs = 1'000'000'000;
// Of lateness, once no collective is joined any more: the job ended or hangs.
inline constexpr int64_t kQuietNs = 30 * kSecondNs;
// A hint counts for so long.
inline constexpr int64_t kHintNs = 60 * kSecondNs;
inline constexpr size_t kLongest = 128;

struct CommunicatorKey {
  uint64_t hash = 0;
  int32_t ranks = 0;
  uint32_t job = 0;
  friend bool operator==(const CommunicatorKey&, const CommunicatorKey&) = default;
};
struct CommunicatorKeyHash {
  size_t operator()(const CommunicatorKey& key) const noexcept {
    return MixWords(
        key.hash ^ ProcessHashKey().a,
        (static_cast<uint64_t>(key.job) << 32 | static_cast<uint32_t>(key.ranks)) ^ ProcessHashKey().b);
  }
};

struct MemberPlace {
  uint32_t communicator = 0, member = 0;
  friend bool operator==(const MemberPlace&, const MemberPlace&) = default;
};

struct ProcessEntry {
  Process process;
  int64_t at_ns = 0;
  double loading = 0;  // share of the time in which it loads data
  std::vector<MemberPlace> places;
  bool used = false;
};

struct MemberEntry {
  int32_t rank = 0;
  uint32_t process = 0;
  bool closed = false;
};

struct CommunicatorEntry {
  CommunicatorEntry(int64_t grace_ns, const LatenessWindows::Options& windows)
      : join(grace_ns), lateness(windows) {}

  CommunicatorKey key;
  std::string name;
  std::vector<MemberEntry> members;
  std::unordered_map<int32_t, uint32_t> by_rank;
  CollectiveJoin join;
  LatenessWindows lateness;
  SlowCommunication slow;
  LinkDelays links;
  CommunicatorProgress progress;
  std::array<float, kLongest> longest{};
  size_t longest_count = 0;
  int64_t at_ns = 0, joined_ns = 0, ambiguous_until_ns = 0;
  double pending_s = 0;
  size_t missing = 0;
  bool hung = false;

  bool ambiguous(int64_t now_ns) const noexcept { return now_ns < ambiguous_until_ns; }
  // The second-longest of the last collectives: one that waited for a checkpoint does not count.
  double LongestNs() const {
    float first = 0, second = 0;
    for (size_t i = 0; i < std::min(longest_count, kLongest); ++i) {
      if (longest[i] > first) second = std::exchange(first, longest[i]);
      else second = std::max(second, longest[i]);
    }
    return second;
  }
  uint32_t Find(int32_t rank) const {
    const auto at = by_rank.find(rank);
    return at == by_rank.end() ? UINT32_MAX : at->second;
  }
};

// What makes two faults one.
using FaultIdentity = std::tuple<FaultKind, uint32_t, int, uint64_t>;

struct Candidate {
  FaultIdentity identity;
  Fault fault;
};

struct Diagnosis::State {
  explicit State(const Options& given) : options(given) {}

  const Options options;
  std::vector<ProcessEntry> processes;
  std::vector<uint32_t> free_processes;
  std::unordered_map<std::string, uint32_t> process_index;
  std::unordered_map<std::string, uint32_t> jobs;
  std::vector<std::unique_ptr<CommunicatorEntry>> communicators;  // null: free
  std::unordered_map<CommunicatorKey, uint32_t, CommunicatorKeyHash> communicator_index;
  size_t members = 0;
  struct HintEntry {
    Cause cause = Cause::kUnknown;
    bool lasts = false;
    int64_t at_ns = 0;
    std::string what;
  };
  using HintsOfOne = std::vector<HintEntry>;  // of each cause what happened last, and what lasts
  std::map<std::pair<std::string, std::string>, HintsOfOne> hints;  // by host and GPU; no GPU: of the host
  size_t hint_count = 0;
  DiagnosisCounts counts;
  std::vector<Fault> faults;
  std::vector<FaultIdentity> identities;  // of faults
  std::vector<FaultChange> changes;
  uint64_t next_id = 1;
  int64_t checked_ns = 0, swept_ns = 0;
  bool changed = false;

  uint32_t FindProcess(const Process& process, int64_t now_ns);
  uint32_t FindCommunicator(const Member& member, const Process& process, int64_t now_ns);
  uint32_t FindMember(uint32_t at, const Member& member, uint32_t process, int64_t now_ns);
  void AddMember(const Member& member, uint32_t process, int64_t now_ns);
  CollectiveJoin::Sink SinkOf(CommunicatorEntry& communicator, int64_t now_ns);
  void Sweep(int64_t now_ns);
  void Remove(uint32_t communicator);

  std::vector<Presence> PresenceOf(const CommunicatorEntry& communicator, int64_t now_ns) const;
  void FindSlowRanks(int64_t now_ns, std::vector<Candidate>& out) const;
  void FindSlowCommunication(int64_t now_ns, std::vector<Candidate>& out) const;
  void FindHangFaults(int64_t now_ns, std::vector<Candidate>& out);
  int64_t HangBound(const CommunicatorEntry& communicator) const;
  Candidate CandidateOf(const Hang& hang, const StuckCollective& root,
                        std::span<const StuckCollective> stuck) const;
  void Place(Fault& fault, const CommunicatorEntry& communicator) const;
  void AddCulprits(Fault& fault, const CommunicatorEntry& communicator, std::vector<uint32_t> members) const;
  void AddBlast(Fault& fault, const std::set<uint32_t>& of) const;
  struct FoundHint {
    Cause cause = Cause::kUnknown;
    const HintEntry* hint = nullptr;
    bool of_host = false;
  };
  FoundHint FindHint(const Fault& fault, const Process& process, int64_t begin_ns, int64_t now_ns) const;
  bool IsAloneOnHost(const Process& process) const;
  bool WaitsForData(const Fault& fault, const Process& process) const;
  void Explain(Fault& fault, uint32_t communicator, int64_t now_ns) const;
  double Coverage(const CommunicatorEntry& communicator) const noexcept {
    return std::min(
        1.0, static_cast<double>(communicator.members.size()) / std::max<double>(communicator.key.ranks, 1));
  }
  std::vector<uint32_t> MembersOnHost(const CommunicatorEntry& communicator, std::string_view host) const;
  bool IsWholeHost(const CommunicatorEntry& communicator, const std::vector<uint32_t>& members) const;
  void Reconcile(std::vector<Candidate> candidates, Instant now);
};

}  // namespace gpulens::collectives
