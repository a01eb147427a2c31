#include "collectives/diagnosis.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "collectives/diagnosis_state.h"

namespace gpulens::collectives {
namespace {

constexpr int32_t kMostRanks = 1 << 20;
constexpr size_t kMostText = 128;
// A rank whose process reported within this time is not another process's, too.
constexpr int64_t kHeldNs = 10 * kSecondNs;
constexpr int64_t kAmbiguousNs = 60 * kSecondNs;
// The longest bound of a hang is an hour: what happened before it began is not forgotten.
constexpr int64_t kForgetHintNs = 2 * 3600 * kSecondNs;
constexpr size_t kMostHints = 65'536;
constexpr double kLoadingStep = 0.1;

bool IsShort(const Process& process) noexcept {
  return process.host.size() <= kMostText && process.gpu.size() <= kMostText &&
         process.job.size() <= kMostText && process.pod.size() <= kMostText;
}

}  // namespace

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
  hint_count = 0;
  for (auto at = hints.begin(); at != hints.end();) {
    std::erase_if(at->second, [&](const HintEntry& hint) {
      return now_ns - hint.at_ns > (hint.lasts ? kHintNs : kForgetHintNs);
    });
    hint_count += at->second.size();
    at = at->second.empty() ? hints.erase(at) : std::next(at);
  }
  if (communicator_index.empty()) jobs.clear();
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
  for (const Hint& hint : batch.hints) AddHint(hint, now);
}

void Diagnosis::AddHint(const Hint& hint, Instant now) {
  const bool short_texts =
      hint.host.size() <= kMostText && hint.gpu.size() <= kMostText && hint.what.size() <= kMostText;
  if (!short_texts || hint.age_ns < 0 || state_->hint_count >= kMostHints) return;
  State::HintsOfOne& all = state_->hints[{hint.host, hint.gpu}];
  auto known = std::ranges::find_if(all, [&](const State::HintEntry& entry) {
    return entry.cause == hint.cause && entry.lasts == hint.lasts;
  });
  const State::HintEntry entry{hint.cause, hint.lasts, now.boot_ns - hint.age_ns, hint.what};
  if (known == all.end()) {
    all.push_back(entry);
    ++state_->hint_count;
  } else if (entry.at_ns >= known->at_ns) {
    *known = entry;
  }
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
  constexpr size_t kOfHint = 320;
  size_t bytes = sizeof *state_ + state_->hint_count * kOfHint;
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
