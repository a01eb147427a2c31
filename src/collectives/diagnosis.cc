#include "collectives/diagnosis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "collectives/collective_join.h"
#include "collectives/hang.h"
#include "collectives/lateness.h"
#include "collectives/slow_communication.h"

namespace gpulens::collectives {
namespace {

constexpr int32_t kMostRanks = 1 << 20;
constexpr size_t kMostText = 128;
constexpr int64_t kSecondNs = 1'000'000'000;
// A rank whose process reported within this time is not another process's, too.
constexpr int64_t kHeldNs = 10 * kSecondNs;
constexpr int64_t kAmbiguousNs = 60 * kSecondNs;
constexpr int64_t kHintNs = 60 * kSecondNs;
constexpr size_t kMostHints = 65'536;
// A process that ended leaves no doubt: others are given this long to end, too.
constexpr int64_t kGoneNs = 10 * kSecondNs;
// Of lateness, once no collective is joined any more: the job ended or hangs.
constexpr int64_t kQuietNs = 30 * kSecondNs;
constexpr double kHangTimesLongest = 20, kHangTimesInterval = 10;
// A checkpoint keeps others waiting for minutes, and is no hang.
constexpr int64_t kCheckpointTimes = 10;
constexpr size_t kLongest = 128;
constexpr size_t kMostFaults = 4096;
constexpr double kMostOfAHost = 0.75;
// A rank that is late elsewhere only because it waits for another one loses about as much as that one costs.
constexpr double kFollows = 0.5;
constexpr double kLoading = 0.5, kLoadingStep = 0.1;

}  // namespace

// Types of Diagnosis::State, so not in the namespace without a name.
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

namespace {

// What makes two faults one.
using FaultIdentity = std::tuple<FaultKind, uint32_t, int, uint64_t>;

struct Candidate {
  FaultIdentity identity;
  Fault fault;
};

std::string Text(const char* format, auto... values) {
  std::array<char, 512> text{};
  const int length = std::snprintf(text.data(), text.size(), format, values...);
  return {text.data(), std::min(text.size() - 1, static_cast<size_t>(std::max(length, 0)))};
}

bool IsShort(const Process& process) noexcept {
  return process.host.size() <= kMostText && process.gpu.size() <= kMostText &&
         process.job.size() <= kMostText && process.pod.size() <= kMostText;
}

}  // namespace

std::string_view NameOf(FaultKind kind) noexcept {
  constexpr std::string_view kNames[] = {"slow_rank", "slow_communication", "hang"};
  return kNames[static_cast<size_t>(kind)];
}
std::string_view NameOf(HangKind kind) noexcept {
  constexpr std::string_view kNames[] = {"none", "not_arrived", "gpu_queue", "link", "process", "program"};
  return kNames[static_cast<size_t>(kind)];
}
std::string_view NameOf(FaultScope scope) noexcept {
  constexpr std::string_view kNames[] = {"rank", "host", "link", "communicator"};
  return kNames[static_cast<size_t>(scope)];
}
std::string_view NameOf(Cause cause) noexcept {
  constexpr std::string_view kNames[] = {"unknown", "gpu_clock", "gpu_ecc",  "nvlink",
                                         "nic",     "pcie",      "host_cpu", "data_wait"};
  return kNames[static_cast<size_t>(cause) % std::size(kNames)];
}
std::string_view NameOf(LatenessRule rule) noexcept {
  constexpr std::string_view kNames[] = {"fast", "steady", "intermittent"};
  return kNames[static_cast<size_t>(rule)];
}
std::string_view NameOf(Function function) noexcept {
  constexpr std::string_view kNames[] = {
      "other",  "all_reduce", "broadcast", "all_gather", "reduce_scatter", "reduce", "all_to_all",
      "gather", "scatter",    "send",      "receive",    "all_gather_v",   "barrier"};
  const auto at = static_cast<size_t>(function);
  return at < std::size(kNames) ? kNames[at] : kNames[0];
}

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
    int64_t at_ns = 0;
  };
  std::map<std::pair<std::string, std::string>, HintEntry> hints;
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
  Candidate CandidateOf(const Hang& hang, const StuckCollective& root, std::span<const StuckCollective> stuck,
                        int64_t now_ns) const;
  void Place(Fault& fault, const CommunicatorEntry& communicator) const;
  void AddCulprits(Fault& fault, const CommunicatorEntry& communicator, std::vector<uint32_t> members) const;
  void AddBlast(Fault& fault, const std::set<uint32_t>& of) const;
  Cause CauseOf(const Fault& fault, int64_t now_ns) const;
  double Coverage(const CommunicatorEntry& communicator) const noexcept {
    return std::min(
        1.0, static_cast<double>(communicator.members.size()) / std::max<double>(communicator.key.ranks, 1));
  }
  std::vector<uint32_t> MembersOnHost(const CommunicatorEntry& communicator, std::string_view host) const;
  bool IsWholeHost(const CommunicatorEntry& communicator, const std::vector<uint32_t>& members) const;
  void Reconcile(std::vector<Candidate> candidates, Instant now);
};

uint32_t Diagnosis::State::FindProcess(const Process& process, int64_t now_ns) {
  std::string key = process.host;
  key += '\0';
  key += std::to_string(process.pid);
  key += '\0';
  key += process.gpu;
  // Some processes wait to be forgotten.
  if (process_index.size() > 2 * options.members && !process_index.contains(key)) {
    ++counts.refused;
    return UINT32_MAX;
  }
  const auto [at, added] = process_index.try_emplace(std::move(key), 0);
  if (added) {
    if (free_processes.empty()) {
      at->second = static_cast<uint32_t>(processes.size());
      processes.emplace_back();
    } else {
      at->second = free_processes.back();
      free_processes.pop_back();
    }
  }
  ProcessEntry& entry = processes[at->second];
  if (added) entry = {};
  entry.used = true;
  entry.at_ns = now_ns;
  entry.process = process;
  entry.loading += kLoadingStep * ((process.phase == Phase::kDataLoading ? 1.0 : 0.0) - entry.loading);
  return at->second;
}

uint32_t Diagnosis::State::FindCommunicator(const Member& member, const Process& process, int64_t now_ns) {
  const auto [job, new_job] = jobs.try_emplace(process.job, static_cast<uint32_t>(jobs.size()));
  const CommunicatorKey key{member.hash, member.ranks, job->second};
  const auto found = communicator_index.find(key);
  if (found != communicator_index.end()) return found->second;
  if (communicator_index.size() >= options.communicators) return UINT32_MAX;
  auto entry = std::make_unique<CommunicatorEntry>(
      options.grace.count(), LatenessWindows::Options{static_cast<double>(options.short_window.count()),
                                                      static_cast<double>(options.long_window.count())});
  entry->key = key;
  entry->name = member.name.substr(0, kMostText);
  entry->at_ns = now_ns;
  const auto free = std::ranges::find_if(communicators, [](const auto& one) { return !one; });
  const auto at = static_cast<uint32_t>(free - communicators.begin());
  if (free == communicators.end()) communicators.push_back(std::move(entry));
  else *free = std::move(entry);
  communicator_index.emplace(key, at);
  return at;
}

uint32_t Diagnosis::State::FindMember(uint32_t at, const Member& member, uint32_t process, int64_t now_ns) {
  CommunicatorEntry& communicator = *communicators[at];
  uint32_t index = communicator.Find(member.rank);
  if (index == UINT32_MAX) {
    if (members >= options.members) return UINT32_MAX;
    ++members;
    index = static_cast<uint32_t>(communicator.members.size());
    communicator.members.push_back({member.rank, process, false});
    communicator.by_rank.emplace(member.rank, index);
    communicator.join.Resize(index + 1);
    communicator.lateness.Resize(index + 1);
    communicator.progress.Resize(index + 1);
    processes[process].places.push_back({at, index});
    return index;
  }
  MemberEntry& known = communicator.members[index];
  if (known.process == process) return index;
  ProcessEntry& other = processes[known.process];
  const Process& mine = processes[process].process;
  const bool same = other.process.host == mine.host && other.process.pid == mine.pid;
  const bool held =
      now_ns - other.at_ns < kHeldNs && other.process.state != ProcessState::kGone && !known.closed;
  if (held && !same) {
    communicator.ambiguous_until_ns = now_ns + kAmbiguousNs;
    ++counts.ambiguous;
    return UINT32_MAX;
  }
  std::erase(other.places, MemberPlace{at, index});
  known.process = process;
  known.closed = false;
  processes[process].places.push_back({at, index});
  communicator.join.Forget(index);
  communicator.progress.Forget(index);
  return index;
}

CollectiveJoin::Sink Diagnosis::State::SinkOf(CommunicatorEntry& communicator, int64_t now_ns) {
  return [this, &communicator, now_ns](const CompleteCollective& complete) {
    communicator.joined_ns = now_ns;
    communicator.longest[communicator.longest_count++ % kLongest] = complete.longest_ns;
    if (communicator.longest_count >= 2 * kLongest) communicator.longest_count = kLongest;
    changed = communicator.lateness.Add(complete.joined) || changed;
    // The shortest duration of a part of the ranks may have a wait for the others in it.
    if (Coverage(communicator) >= 0.9) changed = communicator.slow.Add(complete) || changed;
  };
}

void Diagnosis::State::AddMember(const Member& member, uint32_t process, int64_t now_ns) {
  if (member.ranks < 1 || member.ranks > kMostRanks || member.rank < 0 || member.rank >= member.ranks) {
    ++counts.invalid;
    return;
  }
  const uint32_t at = FindCommunicator(member, processes[process].process, now_ns);
  if (at == UINT32_MAX) {
    ++counts.refused;
    return;
  }
  const uint64_t ambiguous = counts.ambiguous;
  const uint32_t index = FindMember(at, member, process, now_ns);
  if (index == UINT32_MAX) {
    if (counts.ambiguous == ambiguous) ++counts.refused;
    return;
  }
  CommunicatorEntry& communicator = *communicators[at];
  communicator.at_ns = now_ns;
  communicator.members[index].closed = member.closed;
  for (Progress progress : member.progress) {
    const uint32_t peer = progress.peer < 0 ? UINT32_MAX : communicator.Find(progress.peer);
    progress.peer = peer == UINT32_MAX ? -1 : static_cast<int32_t>(peer);
    communicator.progress.Set(index, progress, now_ns);
  }
  for (const LinkDelay& delay : member.links) communicator.links.Add(member.rank, delay);
  if (communicator.ambiguous(now_ns)) return;
  const CollectiveJoin::Sink sink = SinkOf(communicator, now_ns);
  for (const Sample& sample : member.samples) communicator.join.Add(index, sample, now_ns, counts, sink);
}

void Diagnosis::State::Remove(uint32_t at) {
  std::unique_ptr<CommunicatorEntry> communicator = std::move(communicators[at]);
  communicator_index.erase(communicator->key);
  members -= communicator->members.size();
  for (uint32_t i = 0; i < communicator->members.size(); ++i)
    std::erase(processes[communicator->members[i].process].places, MemberPlace{at, i});
}

void Diagnosis::State::Sweep(int64_t now_ns) {
  for (uint32_t at = 0; at < communicators.size(); ++at) {
    if (!communicators[at]) continue;
    const CommunicatorEntry& communicator = *communicators[at];
    const bool over = std::ranges::all_of(communicator.members, [&](const MemberEntry& member) {
      return member.closed || processes[member.process].process.state == ProcessState::kGone;
    });
    const int64_t quiet = now_ns - communicator.at_ns;
    if (quiet > options.forget_after.count() || (over && quiet > kQuietNs)) Remove(at);
  }
  std::erase_if(process_index, [&](const auto& entry) {
    ProcessEntry& process = processes[entry.second];
    if (!process.places.empty() || now_ns - process.at_ns < kQuietNs) return false;
    process = {};
    free_processes.push_back(entry.second);
    return true;
  });
  std::erase_if(hints, [&](const auto& hint) { return now_ns - hint.second.at_ns > kHintNs; });
  if (communicator_index.empty()) jobs.clear();
}

std::vector<Presence> Diagnosis::State::PresenceOf(const CommunicatorEntry& communicator,
                                                   int64_t now_ns) const {
  std::vector<Presence> out;
  out.reserve(communicator.members.size());
  for (const MemberEntry& member : communicator.members) {
    const ProcessEntry& process = processes[member.process];
    if (member.closed) out.push_back(Presence::kClosed);
    else if (process.process.state == ProcessState::kGone) out.push_back(Presence::kGone);
    else if (now_ns - process.at_ns > options.silent_after.count()) out.push_back(Presence::kSilent);
    else if (process.process.state == ProcessState::kStopped) out.push_back(Presence::kStopped);
    else out.push_back(Presence::kReports);
  }
  return out;
}

void Diagnosis::State::Place(Fault& fault, const CommunicatorEntry& communicator) const {
  fault.communicator = communicator.key.hash;
  fault.communicator_name = communicator.name;
  fault.ranks = communicator.key.ranks;
}

void Diagnosis::State::AddCulprits(Fault& fault, const CommunicatorEntry& communicator,
                                   std::vector<uint32_t> list) const {
  if (fault.scope != FaultScope::kLink) {
    std::ranges::sort(list, {}, [&](uint32_t member) { return communicator.members[member].rank; });
  }
  fault.culprit_count = list.size();
  for (uint32_t member : list) {
    if (fault.culprits.size() == Fault::kCulprits) break;
    const MemberEntry& entry = communicator.members[member];
    fault.culprits.push_back({entry.rank, processes[entry.process].process});
  }
}

void Diagnosis::State::AddBlast(Fault& fault, const std::set<uint32_t>& of) const {
  std::set<std::string_view> names, pods;
  std::set<uint32_t> affected;
  uint32_t ranks = 0;
  for (uint32_t at : of) {
    ranks = std::max(ranks, static_cast<uint32_t>(communicators[at]->key.ranks));
    for (const MemberEntry& member : communicators[at]->members) {
      affected.insert(member.process);
      const Process& process = processes[member.process].process;
      if (!process.job.empty()) names.insert(process.job);
      if (!process.pod.empty()) pods.insert(process.pod);
    }
  }
  fault.jobs = std::max<uint32_t>(1, static_cast<uint32_t>(names.size()));
  fault.pods = static_cast<uint32_t>(pods.size());
  fault.affected_ranks = std::max(ranks, static_cast<uint32_t>(affected.size()));
  fault.communicators = static_cast<uint32_t>(of.size());
}

Cause Diagnosis::State::CauseOf(const Fault& fault, int64_t now_ns) const {
  std::optional<Cause> common;
  for (const Culprit& culprit : fault.culprits) {
    Cause cause = Cause::kUnknown;
    for (const std::string& gpu : {culprit.process.gpu, std::string()}) {
      const auto hint = hints.find({culprit.process.host, gpu});
      if (hint == hints.end() || now_ns - hint->second.at_ns > kHintNs) continue;
      cause = hint->second.cause;
      break;
    }
    if (cause == Cause::kUnknown && fault.kind != FaultKind::kSlowCommunication) {
      std::string key =
          culprit.process.host + '\0' + std::to_string(culprit.process.pid) + '\0' + culprit.process.gpu;
      const auto process = process_index.find(key);
      const bool loads = process != process_index.end() && processes[process->second].loading > kLoading;
      if (loads || (fault.kind == FaultKind::kHang && culprit.process.phase == Phase::kDataLoading))
        cause = Cause::kDataWait;
    }
    if (common && *common != cause) return Cause::kUnknown;
    common = cause;
  }
  return common.value_or(Cause::kUnknown);
}

std::vector<uint32_t> Diagnosis::State::MembersOnHost(const CommunicatorEntry& communicator,
                                                      std::string_view host) const {
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < communicator.members.size(); ++i) {
    if (processes[communicator.members[i].process].process.host == host) out.push_back(i);
  }
  return out;
}

bool Diagnosis::State::IsWholeHost(const CommunicatorEntry& communicator,
                                   const std::vector<uint32_t>& list) const {
  if (list.size() < 2) return false;
  const std::string& host = processes[communicator.members[list.front()].process].process.host;
  const std::vector<uint32_t> on_host = MembersOnHost(communicator, host);
  const bool all_there = std::ranges::all_of(list, [&](uint32_t member) {
    return processes[communicator.members[member].process].process.host == host;
  });
  return !host.empty() && all_there && on_host.size() < communicator.members.size() &&
         static_cast<double>(list.size()) >= kMostOfAHost * static_cast<double>(on_host.size());
}

void Diagnosis::State::FindSlowRanks(int64_t now_ns, std::vector<Candidate>& out) const {
  // By process: where it is late.
  std::map<uint32_t, std::vector<MemberPlace>> late;
  for (uint32_t at = 0; at < communicators.size(); ++at) {
    if (!communicators[at]) continue;
    const CommunicatorEntry& communicator = *communicators[at];
    const double interval = communicator.lateness.interval_ns();
    const auto quiet = std::max(kQuietNs, static_cast<int64_t>(20 * interval));
    if (communicator.ambiguous(now_ns) || communicator.joined_ns == 0 ||
        now_ns - communicator.joined_ns > quiet)
      continue;
    const auto states = communicator.lateness.members();
    for (uint32_t i = 0; i < states.size(); ++i) {
      if (states[i].slow()) late[communicator.members[i].process].push_back({at, i});
    }
  }
  if (late.empty()) return;
  const auto state_of = [&](const MemberPlace& place) -> const LatenessWindows::MemberState& {
    return communicators[place.communicator]->lateness.members()[place.member];
  };
  const auto share_of = [&](const std::vector<MemberPlace>& places) {
    double most = 0;
    for (const MemberPlace& place : places) most = std::max(most, state_of(place).worst_share());
    return most;
  };
  // A rank that is late in one communicator because it waits for a slow one in another.
  std::set<uint32_t> followers;
  std::map<uint32_t, std::set<uint32_t>> held_up;  // by slow process: communicators of its followers
  for (const auto& [process, places] : late) {
    const double share = share_of(places);
    for (const MemberPlace& place : processes[process].places) {
      const CommunicatorEntry& communicator = *communicators[place.communicator];
      if (communicator.ambiguous(now_ns) || state_of(place).slow()) continue;
      for (uint32_t i = 0; i < communicator.members.size(); ++i) {
        const uint32_t other = communicator.members[i].process;
        const auto& state = communicator.lateness.members()[i];
        if (other == process || !state.slow() || state.worst_share() < kFollows * share) continue;
        followers.insert(process);
        for (const MemberPlace& of : places) held_up[other].insert(of.communicator);
      }
    }
  }
  if (followers.size() == late.size()) followers.clear();
  // By communicator and host, to name a host as one.
  std::map<std::pair<uint32_t, std::string>, std::vector<uint32_t>> by_host;
  for (const auto& [process, places] : late) {
    if (followers.contains(process)) continue;
    // The smallest communicator shows it best: in larger ones, those who wait for it are late, too.
    const double share = share_of(places);
    const MemberPlace* best = nullptr;  // a share may be negative in the windows before a rule ceases to hold
    for (const MemberPlace& of : places) {
      if (state_of(of).worst_share() < kFollows * share) continue;
      if (!best || communicators[of.communicator]->key.ranks < communicators[best->communicator]->key.ranks)
        best = &of;
    }
    if (!best) best = &places.front();
    by_host[{best->communicator, processes[process].process.host}].push_back(best->member);
  }
  for (const auto& [place, all] : by_host) {
    const CommunicatorEntry& communicator = *communicators[place.first];
    // A host as one, as soon as most of its ranks are late and the first of them for long enough.
    const std::vector<uint32_t> on_host = MembersOnHost(communicator, place.second);
    const auto late_there = std::ranges::count_if(on_host, [&](uint32_t member) {
      const auto& state = communicator.lateness.members()[member];
      return (state.slow() || state.suspect) && !followers.contains(communicator.members[member].process);
    });
    const bool host = IsWholeHost(communicator, on_host) && late_there >= 2 &&
                      static_cast<double>(late_there) >= kMostOfAHost * static_cast<double>(on_host.size());
    std::vector<std::vector<uint32_t>> groups;
    if (host) groups.push_back(on_host);
    else
      for (uint32_t member : all) groups.push_back({member});
    for (const std::vector<uint32_t>& group : groups) {
      const auto states = communicator.lateness.members();
      const auto& worst = states[*std::ranges::max_element(
          group, {}, [&](uint32_t member) { return states[member].worst_share(); })];
      Candidate candidate;
      Fault& fault = candidate.fault;
      fault.kind = FaultKind::kSlowRank;
      fault.scope = host ? FaultScope::kHost : FaultScope::kRank;
      fault.rule = worst.rule();
      Place(fault, communicator);
      AddCulprits(fault, communicator, group);
      fault.lateness_s = worst.lateness_ns / 1e9;
      fault.lost_share = worst.worst_share();
      const bool pair = communicator.members.size() == 2;
      fault.confidence = pair ? 0.5 : 1 - 0.3 * std::exp(-(worst.deviations - 6) / 5.0);
      if (fault.rule == LatenessRule::kIntermittent) fault.confidence = std::min(fault.confidence, 0.8);
      fault.confidence = std::clamp(fault.confidence, 0.0, 1.0) * (0.5 + 0.5 * Coverage(communicator));
      std::set<uint32_t> affected;
      for (uint32_t member : group) {
        const uint32_t process = communicator.members[member].process;
        affected.insert(place.first);
        if (const auto places = late.find(process); places != late.end()) {
          for (const MemberPlace& of : places->second) affected.insert(of.communicator);
        }
        if (const auto more = held_up.find(process); more != held_up.end())
          affected.insert(more->second.begin(), more->second.end());
      }
      AddBlast(fault, affected);
      fault.cause = CauseOf(fault, now_ns);
      const std::string spread =
          pair ? "of a pair, either may be the cause"
               : Text("%.0f times as much as the others differ", static_cast<double>(worst.deviations));
      fault.evidence = Text(
          "arrives %.3g ms after the median of the ranks (rule %s), %s; the job loses %.3g %% of its time; "
          "%zu of "
          "%d ranks report",
          fault.lateness_s * 1e3, std::string(NameOf(fault.rule)).c_str(), spread.c_str(),
          fault.lost_share * 100, communicator.members.size(), fault.ranks);
      // A process stays one culprit, whichever of its communicators shows it best.
      if (host) candidate.identity = {fault.kind, place.first, 1, StableHash(place.second)};
      else candidate.identity = {fault.kind, 0, 0, communicator.members[group.front()].process};
      out.push_back(std::move(candidate));
    }
  }
}

void Diagnosis::State::FindSlowCommunication(int64_t now_ns, std::vector<Candidate>& out) const {
  for (uint32_t at = 0; at < communicators.size(); ++at) {
    if (!communicators[at]) continue;
    const CommunicatorEntry& communicator = *communicators[at];
    const auto slow = communicator.slow.slowest();
    if (!slow || communicator.ambiguous(now_ns) || now_ns - communicator.joined_ns > kQuietNs) continue;
    Candidate candidate;
    Fault& fault = candidate.fault;
    fault.kind = FaultKind::kSlowCommunication;
    fault.scope = FaultScope::kCommunicator;
    Place(fault, communicator);
    fault.function = slow->function;
    fault.lateness_s = (slow->latest_ns - slow->usual_ns) / 1e9;
    fault.lost_share = slow->share;
    fault.confidence = 0.6 * Coverage(communicator);
    fault.evidence =
        Text("%s takes %.3g ms, usually %.3g ms, from the arrival of the last rank to the end",
             std::string(NameOf(slow->function)).c_str(), slow->latest_ns / 1e6, slow->usual_ns / 1e6);
    if (const auto link = communicator.links.Find()) {
      const uint32_t from = communicator.Find(link->from), to = communicator.Find(link->to);
      fault.scope = link->to >= 0 ? FaultScope::kLink : FaultScope::kRank;
      std::vector<uint32_t> ends;
      if (from != UINT32_MAX) ends.push_back(from);
      if (link->to >= 0 && to != UINT32_MAX) ends.push_back(to);
      AddCulprits(fault, communicator, ends);
      fault.confidence = 0.9 * Coverage(communicator);
      fault.evidence +=
          Text("; steps from rank %d%s wait %.3g ms, the median pair %.3g ms", link->from,
               link->to >= 0 ? (" to rank " + std::to_string(link->to)).c_str() : " to all of its peers",
               link->delay_ns / 1e6, link->usual_ns / 1e6);
    }
    AddBlast(fault, {at});
    fault.cause = CauseOf(fault, now_ns);
    candidate.identity = {fault.kind, at, 0, 0};
    out.push_back(std::move(candidate));
  }
}

int64_t Diagnosis::State::HangBound(const CommunicatorEntry& communicator) const {
  if (!communicator.progress.any_done()) return options.first_hang_after.count();
  const double longest = std::max(kHangTimesLongest * communicator.LongestNs(),
                                  kHangTimesInterval * communicator.lateness.interval_ns());
  return std::max(options.hang_after.count(), static_cast<int64_t>(std::min(longest, 3.6e12)));
}

Candidate Diagnosis::State::CandidateOf(const Hang& hang, const StuckCollective& root,
                                        std::span<const StuckCollective> stuck, int64_t now_ns) const {
  const CommunicatorEntry& communicator = *communicators[root.communicator];
  Candidate candidate;
  Fault& fault = candidate.fault;
  fault.kind = FaultKind::kHang;
  fault.hang = hang.kind;
  Place(fault, communicator);
  fault.function = root.function;
  fault.sequence = root.sequence;
  fault.hung_s = static_cast<double>(root.age_ns) / 1e9;
  if (hang.culprits.empty()) fault.scope = FaultScope::kCommunicator;
  else if (hang.kind == HangKind::kLink) fault.scope = FaultScope::kLink;
  else if (IsWholeHost(communicator, hang.culprits)) fault.scope = FaultScope::kHost;
  AddCulprits(fault, communicator, hang.culprits);
  const auto unreported = static_cast<size_t>(fault.ranks) - communicator.members.size();
  if (hang.culprits.empty() && root.unreported) fault.culprit_count = unreported;
  const auto kind = static_cast<size_t>(hang.kind);
  constexpr std::array<double, kHangKinds> kSure = {0, 0.95, 0.85, 0.85, 0.95, 0.85};
  constexpr std::array<double, kHangKinds> kUnsure = {0, 0.4, 0.5, 0.4, 0.6, 0.5};
  fault.confidence = (hang.sure ? kSure[kind] : kUnsure[kind]) * Coverage(communicator);
  if (hang.kind == HangKind::kLink && hang.culprits.empty()) fault.confidence *= 0.6;
  std::set<uint32_t> affected;
  for (size_t i : hang.stuck) affected.insert(static_cast<uint32_t>(stuck[i].communicator));
  AddBlast(fault, affected);
  fault.cause = CauseOf(fault, now_ns);
  constexpr std::array<const char*, kHangKinds> kWhy = {"",
                                                        "have not called it",
                                                        "have called it, and their GPU has not started it",
                                                        "all have started it, and it does not end",
                                                        "their process or host is gone, stopped or silent",
                                                        "they call another one than the others"};
  fault.evidence = Text("%s %llu waits for %.0f s: %zu ranks wait for %zu: %s; %zu of %d ranks report",
                        std::string(NameOf(root.function)).c_str(),
                        static_cast<unsigned long long>(root.sequence), fault.hung_s, root.waiting.size(),
                        fault.culprit_count, kWhy[kind], communicator.members.size(), fault.ranks);
  const uint64_t which = MixBits(root.sequence * 16 + static_cast<uint64_t>(root.function));
  candidate.identity = {fault.kind, static_cast<uint32_t>(root.communicator), 0, which};
  return candidate;
}

void Diagnosis::State::FindHangFaults(int64_t now_ns, std::vector<Candidate>& out) {
  std::vector<StuckCollective> stuck;
  for (uint32_t at = 0; at < communicators.size(); ++at) {
    if (!communicators[at]) continue;
    CommunicatorEntry& communicator = *communicators[at];
    const std::vector<Presence> presence = PresenceOf(communicator, now_ns);
    const int64_t pending = communicator.progress.PendingFor(now_ns, presence);
    communicator.pending_s = static_cast<double>(pending) / 1e9;
    communicator.missing = pending > kSecondNs ? communicator.progress.Missing(presence) : 0;
    communicator.hung = false;
    if (communicator.ambiguous(now_ns)) continue;
    const bool gone = std::ranges::count(presence, Presence::kGone) > 0;
    if (pending < (gone ? kGoneNs : HangBound(communicator))) continue;
    auto found =
        communicator.progress.FindStuck(pending, static_cast<size_t>(communicator.key.ranks), presence);
    for (StuckCollective& one : found) {
      one.communicator = at;
      const bool saves = !one.targets.empty() && std::ranges::all_of(one.targets, [&](uint32_t member) {
        return processes[communicator.members[member].process].process.phase == Phase::kCheckpoint;
      });
      if (saves && pending < kCheckpointTimes * options.hang_after.count()) continue;
      stuck.push_back(std::move(one));
    }
  }
  if (stuck.empty()) return;
  const auto hangs = FindHangs(stuck, processes.size(), [&](size_t i, uint32_t member) {
    return communicators[stuck[i].communicator]->members[member].process;
  });
  for (const Hang& hang : hangs) {
    for (size_t i : hang.stuck) communicators[stuck[i].communicator]->hung = true;
    out.push_back(CandidateOf(hang, stuck[hang.root], stuck, now_ns));
  }
}

void Diagnosis::State::Reconcile(std::vector<Candidate> candidates, Instant now) {
  std::vector<Fault> kept;
  std::vector<FaultIdentity> kept_identities;
  std::vector<bool> found(faults.size(), false);
  std::vector<Candidate*> added;
  for (Candidate& candidate : candidates) {
    const auto at = std::ranges::find(identities, candidate.identity);
    if (at == identities.end()) {
      added.push_back(&candidate);
      continue;
    }
    const auto index = static_cast<size_t>(at - identities.begin());
    if (found[index]) continue;
    found[index] = true;
    Fault& fault = faults[index];
    candidate.fault.id = fault.id;
    candidate.fault.since = fault.since;
    const auto who = [](const Fault& of) {
      std::vector<int32_t> ranks;
      for (const Culprit& culprit : of.culprits) ranks.push_back(culprit.rank);
      return ranks;
    };
    const bool other = fault.hang != candidate.fault.hang || fault.scope != candidate.fault.scope ||
                       fault.culprit_count != candidate.fault.culprit_count ||
                       who(fault) != who(candidate.fault);
    fault = std::move(candidate.fault);
    if (other && changes.size() < kMostFaults) changes.push_back({FaultChange::Kind::kChanged, fault});
  }
  for (size_t i = 0; i < faults.size(); ++i) {
    if (found[i]) {
      kept.push_back(std::move(faults[i]));
      kept_identities.push_back(identities[i]);
    } else if (changes.size() < kMostFaults) {
      changes.push_back({FaultChange::Kind::kCleared, std::move(faults[i])});
    }
  }
  for (Candidate* candidate : added) {
    if (kept.size() >= kMostFaults ||
        std::ranges::find(kept_identities, candidate->identity) != kept_identities.end())
      continue;
    candidate->fault.id = next_id++;
    candidate->fault.since = now;
    if (changes.size() < kMostFaults) changes.push_back({FaultChange::Kind::kRaised, candidate->fault});
    kept.push_back(std::move(candidate->fault));
    kept_identities.push_back(candidate->identity);
  }
  faults = std::move(kept);
  identities = std::move(kept_identities);
}

Diagnosis::Diagnosis(const Options& options) : state_(std::make_unique<State>(options)) {}
Diagnosis::~Diagnosis() = default;

void Diagnosis::Add(const Batch& batch, Instant now) {
  State& state = *state_;
  std::vector<uint32_t> processes;
  processes.reserve(batch.processes.size());
  for (const Process& process : batch.processes) {
    if (!IsShort(process)) ++state.counts.invalid;
    processes.push_back(IsShort(process) ? state.FindProcess(process, now.boot_ns) : UINT32_MAX);
  }
  for (const Member& member : batch.members) {
    if (member.process >= processes.size() || processes[member.process] == UINT32_MAX) ++state.counts.invalid;
    else state.AddMember(member, processes[member.process], now.boot_ns);
  }
}

void Diagnosis::AddHint(std::string_view host, std::string_view gpu, Cause cause, Instant now) {
  if (state_->hints.size() >= kMostHints) return;
  state_->hints[{std::string(host), std::string(gpu)}] = {cause, now.boot_ns};
}

void Diagnosis::Advance(Instant now) {
  State& state = *state_;
  for (auto& communicator : state.communicators) {
    if (communicator)
      communicator->join.Advance(now.boot_ns, state.counts, state.SinkOf(*communicator, now.boot_ns));
  }
  if (!state.changed && now.boot_ns - state.checked_ns < kSecondNs) return;
  state.changed = false;
  state.checked_ns = now.boot_ns;
  if (now.boot_ns - state.swept_ns >= 10 * kSecondNs) {
    state.swept_ns = now.boot_ns;
    state.Sweep(now.boot_ns);
  }
  std::vector<Candidate> candidates;
  state.FindSlowRanks(now.boot_ns, candidates);
  state.FindSlowCommunication(now.boot_ns, candidates);
  state.FindHangFaults(now.boot_ns, candidates);
  state.Reconcile(std::move(candidates), now);
}

std::span<const Fault> Diagnosis::faults() const noexcept { return state_->faults; }

std::vector<FaultChange> Diagnosis::TakeChanges() { return std::exchange(state_->changes, {}); }

bool Diagnosis::wants_links(uint64_t communicator) const noexcept {
  return std::ranges::any_of(state_->communicators, [&](const auto& entry) {
    return entry && entry->key.hash == communicator && entry->slow.slowest().has_value();
  });
}

void Diagnosis::ForEachRank(const std::function<void(const RankState&)>& visit) const {
  // Those that are late because they wait for another one are not named.
  std::set<std::tuple<std::string_view, int64_t, std::string_view>> named;
  for (const Fault& fault : state_->faults) {
    if (fault.kind != FaultKind::kSlowRank) continue;
    for (const Culprit& culprit : fault.culprits)
      named.emplace(culprit.process.host, culprit.process.pid, culprit.process.gpu);
  }
  for (const auto& communicator : state_->communicators) {
    if (!communicator) continue;
    const auto states = communicator->lateness.members();
    for (size_t i = 0; i < communicator->members.size(); ++i) {
      RankState rank;
      rank.communicator = communicator->key.hash;
      rank.communicator_name = communicator->name;
      rank.ranks = communicator->key.ranks;
      rank.rank = communicator->members[i].rank;
      rank.process = &state_->processes[communicator->members[i].process].process;
      constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
      rank.lateness_s = states[i].measured ? states[i].lateness_ns / 1e9 : kUnknown;
      rank.lost_time_s = communicator->joined_ns != 0 ? states[i].lost_ns / 1e9 : kUnknown;
      rank.slow =
          states[i].slow() && named.contains({rank.process->host, rank.process->pid, rank.process->gpu});
      visit(rank);
    }
  }
}

void Diagnosis::ForEachCommunicator(const std::function<void(const CommunicatorState&)>& visit) const {
  for (const auto& communicator : state_->communicators) {
    if (!communicator) continue;
    CommunicatorState out;
    out.communicator = communicator->key.hash;
    out.name = communicator->name;
    if (!communicator->members.empty())
      out.job = state_->processes[communicator->members.front().process].process.job;
    out.ranks = communicator->key.ranks;
    out.reported = static_cast<int32_t>(communicator->members.size());
    out.missing = static_cast<int32_t>(communicator->missing);
    out.pending_s = communicator->pending_s;
    out.hung = communicator->hung;
    visit(out);
  }
}

const DiagnosisCounts& Diagnosis::counts() const noexcept { return state_->counts; }

size_t Diagnosis::memory() const noexcept {
  size_t bytes = sizeof *state_;
  for (const ProcessEntry& process : state_->processes) {
    bytes += sizeof process + process.places.capacity() * sizeof(MemberPlace) +
             process.process.host.capacity() + process.process.gpu.capacity() +
             process.process.job.capacity() + process.process.pod.capacity() + 160;
  }
  for (const auto& communicator : state_->communicators) {
    if (!communicator) continue;
    bytes += sizeof *communicator + communicator->members.capacity() * (sizeof(MemberEntry) + 48) +
             communicator->join.memory() + communicator->lateness.memory() + communicator->slow.memory() +
             communicator->progress.memory() + communicator->links.size() * 12 + 128;
  }
  return bytes;
}

}  // namespace gpulens::collectives
