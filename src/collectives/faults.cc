// How faults are found in what Diagnosis knows: slow ranks, slow communication and hangs, what they hold up,
// and their causes.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "base/hash.h"
#include "collectives/diagnosis_state.h"

namespace gpulens::collectives {
namespace {

// A process that ended leaves no doubt: others are given this long to end, too.
constexpr int64_t kGoneNs = 10 * kSecondNs;
constexpr double kHangTimesLongest = 20, kHangTimesInterval = 10;
// A checkpoint keeps others waiting for minutes, and is no hang.
constexpr int64_t kCheckpointTimes = 10;
constexpr size_t kMostFaults = 4096;
constexpr double kMostOfAHost = 0.75;
// A rank that is late elsewhere only because it waits for another one loses about as much as that one costs.
constexpr double kFollows = 0.5;
constexpr double kLoading = 0.5;

std::string Text(const char* format, auto... values) {
  std::array<char, 512> text{};
  const int length = std::snprintf(text.data(), text.size(), format, values...);
  return {text.data(), std::min(text.size() - 1, static_cast<size_t>(std::max(length, 0)))};
}

// Causes that explain a kind of fault, the likeliest first. What is slow does not explain a hang, and a
// slow GPU comes late, so that the collective itself is not longer.
std::span<const Cause> CausesOf(FaultKind kind) noexcept {
  using enum Cause;
  static constexpr Cause kSlow[] = {kGpuClock, kGpuEcc, kGpuError, kPcie, kNvlink, kHostCpu, kNic};
  static constexpr Cause kCommunication[] = {kNvlink, kNic, kPcie, kGpuError};
  static constexpr Cause kHangs[] = {kPcie, kGpuError, kGpuEcc, kNvlink, kHostMemory, kNic};
  if (kind == FaultKind::kHang) return kHangs;
  return kind == FaultKind::kSlowRank ? std::span<const Cause>(kSlow) : kCommunication;
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
  constexpr std::string_view kNames[] = {"unknown", "gpu_clock", "gpu_ecc",   "nvlink",    "nic",
                                         "pcie",    "host_cpu",  "data_wait", "gpu_error", "host_memory"};
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

// The likeliest cause of which there is a hint, of the process's GPU or else of its host.
Diagnosis::State::FoundHint Diagnosis::State::FindHint(const Fault& fault, const Process& process,
                                                       int64_t begin_ns, int64_t now_ns) const {
  if (process.host.empty()) return {};
  for (const bool of_host : {process.gpu.empty(), true}) {
    const auto found = hints.find({process.host, of_host ? std::string() : process.gpu});
    if (found == hints.end()) continue;
    for (const Cause cause : CausesOf(fault.kind)) {
      // Busy processors would slow the other ranks of the host, too.
      if (cause == Cause::kHostCpu && fault.scope != FaultScope::kHost && !IsAloneOnHost(process)) continue;
      if (cause == Cause::kHostMemory && fault.hang != HangKind::kProcess) continue;
      for (const bool lasts : {false, true}) {
        // A state in which the job worked does not stop it.
        if (lasts && fault.kind == FaultKind::kHang) continue;
        const auto hint = std::ranges::find_if(found->second, [&](const HintEntry& entry) {
          return entry.cause == cause && entry.lasts == lasts;
        });
        const int64_t reference = lasts ? now_ns : begin_ns;
        if (hint != found->second.end() && reference - hint->at_ns <= kHintNs)
          return {cause, &*hint, of_host};
      }
    }
  }
  return {};
}

bool Diagnosis::State::IsAloneOnHost(const Process& process) const {
  return std::ranges::none_of(processes, [&](const ProcessEntry& other) {
    return other.used && other.process.host == process.host && other.process.job == process.job &&
           other.process.pid != process.pid;
  });
}

bool Diagnosis::State::WaitsForData(const Fault& fault, const Process& process) const {
  if (fault.kind == FaultKind::kSlowCommunication) return false;
  if (fault.kind == FaultKind::kHang && process.phase == Phase::kDataLoading) return true;
  std::string key = process.host + '\0' + std::to_string(process.pid) + '\0' + process.gpu;
  const auto found = process_index.find(key);
  return found != process_index.end() && processes[found->second].loading > kLoading;
}

// Finds the cause, and adds the hint that shows it to the evidence. All culprits must have the same one; of a
// link one end is enough, and of a communicator without culprits one of its ranks.
void Diagnosis::State::Explain(Fault& fault, uint32_t communicator, int64_t now_ns) const {
  const int64_t begin_ns = fault.kind == FaultKind::kHang ? now_ns - static_cast<int64_t>(fault.hung_s * 1e9)
                                                          : fault.since.boot_ns;
  std::vector<Culprit> of = fault.culprits;
  const bool one_is_enough = fault.scope == FaultScope::kLink || fault.scope == FaultScope::kCommunicator;
  // Where those that do not report are meant, the others are not to blame.
  if (of.empty() && fault.culprit_count == 0 && !hints.empty()) {
    for (const MemberEntry& member : communicators[communicator]->members)
      of.push_back({member.rank, processes[member.process].process});
  }
  FoundHint shown;
  const Culprit* whose = nullptr;
  std::optional<Cause> common;
  for (const Culprit& culprit : of) {
    FoundHint found = FindHint(fault, culprit.process, begin_ns, now_ns);
    if (found.cause == Cause::kUnknown && WaitsForData(fault, culprit.process))
      found.cause = Cause::kDataWait;
    if (one_is_enough && found.cause == Cause::kUnknown) continue;
    if (common && *common != found.cause) return;
    if (!whose) shown = found, whose = &culprit;
    common = found.cause;
  }
  fault.cause = common.value_or(Cause::kUnknown);
  if (!shown.hint) return;
  const std::string device = shown.of_host ? "host" : "GPU";
  fault.evidence +=
      of.size() == 1 ? "; its " + device : "; the " + device + " of rank " + std::to_string(whose->rank);
  if (shown.hint->lasts) {
    fault.evidence += ": " + shown.hint->what;
    return;
  }
  const auto seconds =
      static_cast<int64_t>(std::llround(static_cast<double>(begin_ns - shown.hint->at_ns) / 1e9));
  fault.evidence += " reported " + shown.hint->what + ", " + std::to_string(std::abs(seconds)) + " s " +
                    (seconds >= 0 ? "before" : "after");
  fault.evidence += fault.kind == FaultKind::kHang ? " the wait began" : " this was found";
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
      fault.lost_share = worst.worst_lost_share();
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
          Text("; steps from rank %d%s take %.3g ms, the median pair %.3g ms", link->from,
               link->to >= 0 ? (" to rank " + std::to_string(link->to)).c_str() : " to all of its peers",
               link->delay_ns / 1e6, link->usual_ns / 1e6);
    }
    AddBlast(fault, {at});
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
                                        std::span<const StuckCollective> stuck) const {
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
  constexpr std::array<const char*, kHangKinds> kWhy = {"",
                                                        "have not called it",
                                                        "have called it, and their GPU has not started it",
                                                        "all have started it, and it does not end",
                                                        "their process or host is gone, stopped or silent",
                                                        "they call another one than the others"};
  fault.evidence =
      Text("%s %llu waits for %.0f s: %zu %s for %zu: %s; %zu of %d ranks report",
           std::string(NameOf(root.function)).c_str(), static_cast<unsigned long long>(root.sequence),
           fault.hung_s, root.waiting.size(), root.waiting.size() == 1 ? "rank waits" : "ranks wait",
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
    out.push_back(CandidateOf(hang, stuck[hang.root], stuck));
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
    Explain(candidate.fault, std::get<1>(candidate.identity), now.boot_ns);
    const auto who = [](const Fault& of) {
      std::vector<int32_t> ranks;
      for (const Culprit& culprit : of.culprits) ranks.push_back(culprit.rank);
      return ranks;
    };
    const bool other = fault.hang != candidate.fault.hang || fault.scope != candidate.fault.scope ||
                       fault.culprit_count != candidate.fault.culprit_count ||
                       who(fault) != who(candidate.fault) ||
                       (candidate.fault.cause != Cause::kUnknown && candidate.fault.cause != fault.cause);
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
    Explain(candidate->fault, std::get<1>(candidate->identity), now.boot_ns);
    if (changes.size() < kMostFaults) changes.push_back({FaultChange::Kind::kRaised, candidate->fault});
    kept.push_back(std::move(candidate->fault));
    kept_identities.push_back(candidate->identity);
  }
  faults = std::move(kept);
  identities = std::move(kept_identities);
}

}  // namespace gpulens::collectives
