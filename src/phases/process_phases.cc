#include "phases/process_phases.h"

#include <algorithm>

#include "base/stable_sort.h"

namespace gpulens::phases {
namespace {

constexpr int64_t kConfidenceWindow = 60'000'000'000;
// Shares are joined until they have this length, so that a minute has a bounded number of them.
constexpr int64_t kShareLength = 500'000'000;
// A page has at most so many edges between two reads; more than that is no page's.
constexpr size_t kEdgesMax = 65'536;

constexpr size_t Index(Evidence evidence) noexcept { return static_cast<size_t>(evidence); }
constexpr size_t Index(Phase phase) noexcept { return static_cast<size_t>(phase); }

// Of evidence that is given in intervals.
constexpr Phase PhaseOf(Evidence evidence) noexcept {
  switch (evidence) {
    case Evidence::kDataWait:
    case Evidence::kDataWaitOutside: return Phase::kDataLoading;
    case Evidence::kExposed:
    case Evidence::kCollective: return Phase::kNcclCollective;
    case Evidence::kDevice: return Phase::kGpuCompute;
    default: return Phase::kUnknown;
  }
}

}  // namespace

std::string_view PhaseName(Phase phase) noexcept {
  switch (phase) {
    case Phase::kDataLoading: return "data_loading";
    case Phase::kGpuCompute: return "gpu_compute";
    case Phase::kNcclCollective: return "nccl_collective";
    case Phase::kOptimizerStep: return "optimizer_step";
    case Phase::kCheckpoint: return "checkpoint";
    case Phase::kPrefill: return "prefill";
    case Phase::kDecode: return "decode";
    case Phase::kQueued: return "queued";
    case Phase::kIdle: return "idle";
    case Phase::kUnknown:
    case Phase::kCount: break;
  }
  return "unknown";
}

std::string_view EvidenceName(Evidence evidence) noexcept {
  switch (evidence) {
    case Evidence::kMark: return "mark";
    case Evidence::kEngine: return "engine";
    case Evidence::kDataWait: return "data_wait";
    case Evidence::kDataWaitOutside: return "waker";
    case Evidence::kExposed:
    case Evidence::kCollective: return "collective";
    case Evidence::kDevice: return "device";
    case Evidence::kUtilization: return "utilization";
    case Evidence::kNone:
    case Evidence::kCount: break;
  }
  return "none";
}

double ConfidenceOf(Evidence evidence) noexcept {
  switch (evidence) {
    case Evidence::kMark:
    case Evidence::kDataWait: return 1;
    case Evidence::kDataWaitOutside: return 0.95;
    case Evidence::kExposed: return 0.9;
    case Evidence::kDevice: return 0.8;
    case Evidence::kEngine: return 0.7;
    case Evidence::kCollective: return 0.6;
    case Evidence::kUtilization: return 0.4;
    case Evidence::kNone:
    case Evidence::kCount: break;
  }
  return 0;
}

int64_t ProcessPhases::time_ns(Phase phase) const noexcept {
  int64_t sum = 0;
  for (const auto& by_phase : times_) sum += by_phase[Index(phase)];
  return sum;
}

void ProcessPhases::Set(Evidence evidence, Phase phase, int64_t at_ns) {
  if (edges_.size() < kEdgesMax) edges_.push_back({std::max(at_ns, now_ns_), evidence, phase, 0});
}

void ProcessPhases::Mark(Phase phase, int64_t at_ns) { Set(Evidence::kMark, phase, at_ns); }

void ProcessPhases::Interval(Evidence evidence, int64_t from_ns, int64_t to_ns) {
  const Phase phase = PhaseOf(evidence);
  from_ns = std::max(from_ns, now_ns_);
  if (phase == Phase::kUnknown || to_ns <= from_ns || edges_.size() + 2 > kEdgesMax) return;
  edges_.push_back({from_ns, evidence, phase, +1});
  edges_.push_back({to_ns, evidence, phase, -1});
}

void ProcessPhases::Amount(Evidence evidence, Phase phase, int64_t ns) {
  if (ns > 0) portions_.push_back({evidence, phase, ns});
}

void ProcessPhases::Sample(Evidence evidence, Phase phase, int64_t at_ns) {
  Sampled& sampled = samples_[Index(evidence)];
  if (sampled.last == phase) Set(evidence, phase, at_ns);
  sampled.last = phase;
}

void ProcessPhases::EndSamples(Evidence evidence, int64_t at_ns) {
  Sampled& sampled = samples_[Index(evidence)];
  if (sampled.last == Phase::kCount) return;
  sampled.last = Phase::kCount;
  Set(evidence, Phase::kUnknown, at_ns);
}

void ProcessPhases::Apply(const Edge& edge) noexcept {
  if (edge.change == 0) state_.set[Index(edge.evidence)] = edge.phase;
  else state_.open[Index(edge.evidence)] += edge.change;
}

void ProcessPhases::Decide(Evidence& evidence, Phase& phase) const noexcept {
  for (size_t i = 0; i < Index(Evidence::kNone); ++i) {
    evidence = static_cast<Evidence>(i);
    phase = state_.open[i] > 0 ? PhaseOf(evidence) : state_.set[i];
    if (phase != Phase::kUnknown) return;
  }
  evidence = Evidence::kNone;
  phase = Phase::kUnknown;
}

// Adds the time up to `until_ns` by evidence and phase, and counts the changes on the way.
void ProcessPhases::Sweep(int64_t until_ns, Times& stretch) {
  SortStably(edges_, [](const Edge& a, const Edge& b) { return a.at_ns < b.at_ns; });
  int64_t at = now_ns_;
  auto add_until = [&](int64_t to) {
    if (to <= at) return;
    Evidence evidence = Evidence::kNone;
    Phase phase = Phase::kUnknown;
    Decide(evidence, phase);
    ++decisions_;
    stretch[Index(evidence)][Index(phase)] += to - at;
    if (phase != phase_) ++transitions_;
    phase_ = phase;
    evidence_ = evidence;
    at = to;
  };
  size_t used = 0;
  for (; used < edges_.size() && edges_[used].at_ns <= until_ns; ++used) {
    add_until(edges_[used].at_ns);
    Apply(edges_[used]);
  }
  add_until(until_ns);
  edges_.erase(edges_.begin(), edges_.begin() + static_cast<std::ptrdiff_t>(used));
}

void ProcessPhases::Take(const Portion& portion, Times& stretch) {
  int64_t needed = portion.ns;
  for (size_t from = Index(Evidence::kNone) + 1; from-- > Index(portion.evidence) + 1 && needed > 0;) {
    for (int64_t& there : stretch[from]) {
      const int64_t taken = std::min(there, needed);
      there -= taken;
      needed -= taken;
      stretch[Index(portion.evidence)][Index(portion.phase)] += taken;
    }
  }
}

void ProcessPhases::AddConfidence(const Times& stretch) {
  Share share{now_ns_, 0, 0};
  for (size_t evidence = 0; evidence < kEvidenceCount; ++evidence) {
    for (int64_t ns : stretch[evidence]) {
      share.ns += ns;
      share.weighted_ns += static_cast<double>(ns) * ConfidenceOf(static_cast<Evidence>(evidence));
    }
  }
  if (!shares_.empty() && shares_.back().ns < kShareLength) {
    share.ns += shares_.back().ns;
    share.weighted_ns += shares_.back().weighted_ns;
    shares_.back() = share;
  } else {
    shares_.push_back(share);
  }
  while (shares_.size() > 1 && now_ns_ - shares_.front().end_ns >= kConfidenceWindow) shares_.pop_front();
}

void ProcessPhases::Advance(int64_t now_ns) {
  if (now_ns <= now_ns_) return;
  Times stretch{};
  Sweep(now_ns, stretch);
  now_ns_ = now_ns;
  if (!portions_.empty()) {
    SortStably(portions_, [](const Portion& a, const Portion& b) { return a.evidence < b.evidence; });
    for (const Portion& portion : portions_) Take(portion, stretch);
    portions_.clear();
    // Where nothing with known times is better, the phase is the one that had most of the stretch.
    Evidence best = Evidence::kNone;
    Phase phase = Phase::kUnknown;
    int64_t most = 0;
    for (size_t evidence = 0; evidence < kEvidenceCount; ++evidence) {
      for (size_t i = 0; i < kPhaseCount; ++i) {
        if (stretch[evidence][i] <= most) continue;
        most = stretch[evidence][i];
        best = static_cast<Evidence>(evidence);
        phase = static_cast<Phase>(i);
      }
    }
    if (evidence_ > best || stretch[Index(evidence_)][Index(phase_)] == 0) {
      if (phase != phase_) ++transitions_;
      phase_ = phase;
      evidence_ = best;
    }
  }
  for (size_t evidence = 0; evidence < kEvidenceCount; ++evidence) {
    for (size_t i = 0; i < kPhaseCount; ++i) times_[evidence][i] += stretch[evidence][i];
  }
  AddConfidence(stretch);
}

double ProcessPhases::confidence() const noexcept {
  double weighted = 0, ns = 0;
  for (const Share& share : shares_) {
    weighted += share.weighted_ns;
    ns += static_cast<double>(share.ns);
  }
  return ns > 0 ? weighted / ns : 0;
}

}  // namespace gpulens::phases
