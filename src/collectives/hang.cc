#include "collectives/hang.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "base/stable_sort.h"

namespace gpulens::collectives {
namespace {

// Their sequence numbers count what one rank did with one peer or another, and differ between ranks.
constexpr bool IsBetweenTwo(Function function) noexcept {
  return function == Function::kSend || function == Function::kReceive;
}

constexpr bool IsAway(Presence presence) noexcept {
  return presence == Presence::kSilent || presence == Presence::kGone;
}

class Components {
 public:
  explicit Components(size_t size) : parent_(size) { std::iota(parent_.begin(), parent_.end(), 0U); }
  uint32_t Root(uint32_t node) noexcept {
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }
  void Join(uint32_t a, uint32_t b) noexcept { parent_[Root(a)] = Root(b); }

 private:
  std::vector<uint32_t> parent_;
};

}  // namespace

void CommunicatorProgress::Set(size_t member, const Progress& progress, int64_t now_ns) {
  if (static_cast<size_t>(progress.function) >= kFunctions) return;
  std::unique_ptr<Track>& track = tracks_[static_cast<size_t>(progress.function)];
  if (!track) track = std::make_unique<Track>();
  if (track->states.size() < members_) track->states.resize(members_);
  State& state = track->states[member];
  const bool moved = !state.known || state.enqueued != progress.enqueued ||
                     state.started != progress.started || state.done != progress.done;
  if (moved) moved_ns_ = std::max(moved_ns_, now_ns - std::clamp<int64_t>(progress.idle_ns, 0, now_ns));
  state.enqueued = progress.enqueued;
  state.started = progress.started;
  state.done = progress.done;
  state.bytes = progress.bytes;
  state.peer = progress.peer;
  state.wait = progress.wait;
  state.known = true;
  track->starts_known = track->starts_known || state.started > state.done;
  any_done_ = any_done_ || state.done > 0;
}

void CommunicatorProgress::Forget(size_t member) {
  for (auto& track : tracks_) {
    if (track && member < track->states.size()) track->states[member] = {};
  }
}

int64_t CommunicatorProgress::PendingFor(int64_t now_ns, std::span<const Presence> presence) const {
  for (const auto& track : tracks_) {
    if (!track) continue;
    for (size_t i = 0; i < track->states.size(); ++i) {
      if (track->states[i].pending() && presence[i] != Presence::kClosed && presence[i] != Presence::kGone)
        return std::max<int64_t>(now_ns - moved_ns_, 0);
    }
  }
  return 0;
}

size_t CommunicatorProgress::Missing(std::span<const Presence> presence) const {
  size_t most = 0;
  for (size_t f = 0; f < kFunctions; ++f) {
    if (!tracks_[f] || IsBetweenTwo(static_cast<Function>(f))) continue;
    uint64_t first = std::numeric_limits<uint64_t>::max();
    size_t missing = 0;
    const auto& states = tracks_[f]->states;
    for (size_t i = 0; i < states.size(); ++i) {
      if (presence[i] != Presence::kClosed && states[i].pending()) first = std::min(first, states[i].done);
    }
    if (first == std::numeric_limits<uint64_t>::max()) continue;
    for (size_t i = 0; i < states.size(); ++i)
      missing += presence[i] != Presence::kClosed && states[i].enqueued <= first;
    most = std::max(most, missing);
  }
  return most;
}

std::vector<StuckCollective> CommunicatorProgress::FindStuck(int64_t age_ns, size_t ranks,
                                                             std::span<const Presence> presence) const {
  std::vector<StuckCollective> out;
  for (size_t f = 0; f < kFunctions; ++f) {
    if (!tracks_[f]) continue;
    const Track& track = *tracks_[f];
    const auto function = static_cast<Function>(f);
    if (IsBetweenTwo(function)) {
      FindStuckPeers(track, function, age_ns, out);
      continue;
    }
    const auto takes_part = [&](size_t i) { return presence[i] != Presence::kClosed; };
    uint64_t first = std::numeric_limits<uint64_t>::max();
    for (size_t i = 0; i < track.states.size(); ++i) {
      if (takes_part(i) && track.states[i].pending()) first = std::min(first, track.states[i].done);
    }
    if (first == std::numeric_limits<uint64_t>::max()) continue;
    StuckCollective stuck;
    stuck.function = function;
    stuck.sequence = first;
    stuck.age_ns = age_ns;
    std::vector<uint32_t> arrived, missing, away, started, queued;
    for (uint32_t i = 0; i < members_; ++i) {
      if (!takes_part(i)) continue;
      const State state = i < track.states.size() ? track.states[i] : State{};
      if (state.done > first) continue;
      if (IsAway(presence[i])) {
        away.push_back(i);
      } else if (state.enqueued <= first) {
        missing.push_back(i);
      } else {
        arrived.push_back(i);
        (state.started > first ? started : queued).push_back(i);
      }
    }
    if (arrived.empty()) continue;
    const size_t closed = static_cast<size_t>(std::ranges::count(presence, Presence::kClosed));
    const bool unreported = ranks > members_ && closed == 0;
    if (!away.empty()) {
      stuck.kind = HangKind::kProcess;
      stuck.targets = away;
      stuck.waiting = arrived;
    } else if (!missing.empty()) {
      const auto stops = [&](uint32_t i) { return presence[i] == Presence::kStopped; };
      stuck.kind = std::ranges::all_of(missing, stops) ? HangKind::kProcess : HangKind::kNotArrived;
      stuck.targets = missing;
      stuck.waiting = arrived;
    } else if (unreported) {
      stuck.kind = HangKind::kNotArrived;
      stuck.unreported = true;
      stuck.sure = false;
      stuck.waiting = arrived;
    } else if (track.starts_known && !queued.empty()) {
      stuck.kind = HangKind::kGpuQueue;
      stuck.targets = queued;
      stuck.waiting = started;
    } else {
      std::map<uint64_t, std::vector<uint32_t>> by_bytes;
      for (uint32_t i : arrived) by_bytes[track.states[i].bytes].push_back(i);
      const bool same_size = function == Function::kAllReduce || function == Function::kAllGather ||
                             function == Function::kReduceScatter || function == Function::kBroadcast;
      if (same_size && by_bytes.size() > 1 && !by_bytes.contains(0)) {
        stuck.kind = HangKind::kProgram;
        const auto fewest = std::ranges::min_element(
            by_bytes, [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
        stuck.targets = fewest->second;
        for (const auto& [bytes, members] : by_bytes) {
          if (bytes != fewest->first)
            stuck.waiting.insert(stuck.waiting.end(), members.begin(), members.end());
        }
      } else {
        stuck.kind = HangKind::kLink;
        stuck.sure = track.starts_known;
        stuck.waiting = arrived;
        // A send that does not end is where it stops; those who receive wait for it in a chain.
        for (uint32_t i : arrived) {
          const State& state = track.states[i];
          if (state.wait != ProxyWait::kSend || state.peer < 0) continue;
          stuck.targets = {i, static_cast<uint32_t>(state.peer)};
          break;
        }
      }
    }
    out.push_back(std::move(stuck));
  }
  return out;
}

void CommunicatorProgress::FindStuckPeers(const Track& track, Function function, int64_t age_ns,
                                          std::vector<StuckCollective>& out) const {
  for (uint32_t i = 0; i < track.states.size(); ++i) {
    const State& state = track.states[i];
    if (!state.pending()) continue;
    StuckCollective stuck;
    stuck.function = function;
    stuck.sequence = state.done;
    stuck.age_ns = age_ns;
    stuck.waiting = {i};
    if (state.peer < 0) {
      // It waits, but for whom is not known.
      stuck.kind = HangKind::kNotArrived;
      stuck.unreported = true;
      stuck.sure = false;
      out.push_back(std::move(stuck));
      continue;
    }
    const Function opposite = function == Function::kSend ? Function::kReceive : Function::kSend;
    const auto& other = tracks_[static_cast<size_t>(opposite)];
    const auto peer = static_cast<uint32_t>(state.peer);
    const bool meets = other && peer < other->states.size() && other->states[peer].pending() &&
                       other->states[peer].peer == static_cast<int32_t>(i);
    if (meets && function == Function::kReceive) continue;  // the sender reports it
    stuck.kind = meets ? HangKind::kLink : HangKind::kNotArrived;
    stuck.targets = {peer};
    if (meets) stuck.targets.insert(stuck.targets.begin(), i);
    out.push_back(std::move(stuck));
  }
}

size_t CommunicatorProgress::memory() const noexcept {
  size_t bytes = sizeof *this;
  for (const auto& track : tracks_) {
    if (track) bytes += sizeof *track + track->states.capacity() * sizeof(State);
  }
  return bytes;
}

namespace {

// Who holds up a component in which each process waits for another one: those in the smallest group that
// calls one collective of a communicator in which others call another one.
void BlameProgram(std::span<const StuckCollective> all, Hang& hang) {
  hang.kind = HangKind::kProgram;
  hang.culprits.clear();
  for (size_t a : hang.stuck) {
    for (size_t b : hang.stuck) {
      if (a == b || all[a].communicator != all[b].communicator) continue;
      const size_t fewer = all[a].waiting.size() <= all[b].waiting.size() ? a : b;
      if (all[fewer].waiting.empty()) continue;
      if (!hang.culprits.empty() && all[fewer].waiting.size() >= hang.culprits.size()) continue;
      hang.root = fewer;
      hang.culprits = all[fewer].waiting;
      hang.sure = all[a].waiting.size() != all[b].waiting.size();
    }
  }
  if (!hang.culprits.empty()) return;
  // Different communicators in a different order: all take part in it.
  hang.sure = false;
  hang.culprits = all[hang.root].waiting;
}

}  // namespace

std::vector<Hang> FindHangs(std::span<const StuckCollective> stuck, size_t processes,
                            const std::function<uint32_t(size_t, uint32_t)>& process_of) {
  Components components(processes);
  std::vector<uint8_t> waits(processes, 0);
  for (size_t i = 0; i < stuck.size(); ++i) {
    const StuckCollective& one = stuck[i];
    const bool all_wait = one.kind == HangKind::kLink || one.unreported;
    uint32_t previous = std::numeric_limits<uint32_t>::max();
    for (const auto* members : {&one.waiting, &one.targets}) {
      for (uint32_t member : *members) {
        const uint32_t process = process_of(i, member);
        if (previous < processes) components.Join(previous, process);
        previous = process;
        if (members == &one.waiting && (all_wait || !one.targets.empty())) waits[process] = 1;
      }
    }
  }
  std::map<uint32_t, std::vector<size_t>> by_component;
  for (size_t i = 0; i < stuck.size(); ++i) {
    const auto& members = stuck[i].waiting.empty() ? stuck[i].targets : stuck[i].waiting;
    if (!members.empty()) by_component[components.Root(process_of(i, members.front()))].push_back(i);
  }
  std::vector<Hang> hangs;
  for (auto& [component, list] : by_component) {
    // Members for which others wait, and who wait for no one, by the collective that waits.
    std::vector<Hang> roots;
    for (size_t i : list) {
      if (stuck[i].kind == HangKind::kLink || stuck[i].unreported) continue;
      std::vector<uint32_t> free;
      for (uint32_t member : stuck[i].targets) {
        if (waits[process_of(i, member)] == 0) free.push_back(member);
      }
      if (!free.empty()) roots.push_back({stuck[i].kind, i, std::move(free), stuck[i].sure, list});
    }
    if (!roots.empty()) {
      // One process may be waited for in several communicators; the one with most who wait shows it best.
      SortStably(roots, [&](const Hang& a, const Hang& b) {
        const bool a_gone = a.kind == HangKind::kProcess, b_gone = b.kind == HangKind::kProcess;
        if (a_gone != b_gone) return a_gone;
        return stuck[a.root].waiting.size() > stuck[b.root].waiting.size();
      });
      std::vector<uint8_t> named(processes, 0);
      for (Hang& root : roots) {
        std::erase_if(root.culprits, [&](uint32_t member) {
          return std::exchange(named[process_of(root.root, member)], 1) != 0;
        });
        if (!root.culprits.empty()) hangs.push_back(std::move(root));
      }
      continue;
    }
    Hang hang;
    hang.stuck = list;
    const auto link = std::ranges::find_if(list, [&](size_t i) { return stuck[i].kind == HangKind::kLink; });
    const auto unknown = std::ranges::find_if(list, [&](size_t i) { return stuck[i].unreported; });
    if (link != list.end() || unknown != list.end()) {
      hang.root = link != list.end() ? *link : *unknown;
      hang.kind = stuck[hang.root].kind;
      hang.sure = stuck[hang.root].sure;
      hang.culprits = stuck[hang.root].targets;
    } else {
      hang.root = list.front();
      BlameProgram(stuck, hang);
    }
    hangs.push_back(std::move(hang));
  }
  return hangs;
}

}  // namespace gpulens::collectives
