#include "plugins/collectors/probes/bpf_backend.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "plugins/collectors/probes/probe_host.h"
#include "sources/bpf/elf_file.h"
#include "sources/bpf/governor.h"
#include "sources/bpf/probe_session.h"
#include "sources/bpf/targets.h"

namespace gpulens::probes {
namespace {

using bpf::CudaFunction;
using job_page::HistogramCopy;

constexpr Duration kFollowPeriod = std::chrono::seconds(5);
constexpr std::string_view kMachine = "data_waits";  // ProbeSession's name of the programs of waits

std::string LibraryName(uint64_t device, uint64_t inode) {
  return std::to_string(device) + ":" + std::to_string(inode);
}

// The last part of a path.
std::string BaseName(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

// "single_step: the kernel would …" as its word and its sentence.
std::pair<std::string, std::string> SplitRefusal(const Status& status) {
  std::string_view text = status.detail;
  const size_t colon = text.find(": ");
  const auto is_word = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  if (colon != std::string_view::npos && colon > 0 && std::ranges::all_of(text.substr(0, colon), is_word))
    return {std::string(text.substr(0, colon)), std::string(text.substr(colon + 2))};
  return {"kernel_refused", std::string(text)};
}

// Where the row of the list of refusals that has this word is known from.
std::string RowOf(std::string_view word) {
  for (const bpf::DenyRow& row : bpf::DenyRows()) {
    if (bpf::RefusalName(row.refusal) == word) return std::string(row.source);
  }
  return {};
}

std::string FunctionOf(std::string_view function, bool per_thread) {
  return std::string(function) + (per_thread ? "_ptsz" : "");
}

void AddPoints(const bpf::ProcessFacts& facts, const std::string& proc, const bpf::LoadedLibrary& library,
               const bpf::Capabilities& machine, ListedTarget& out) {
  Result<UniqueFd> file = bpf::OpenMapped(proc, facts.pid, library.file);
  if (!file) {
    std::tie(out.reason, out.sentence) = SplitRefusal(file.error());
    if (out.reason == "kernel_refused") out.reason = bpf::RefusalName(bpf::Refusal::kNotReadable);
    return;
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < bpf::kCudaFunctions; ++i) {
    for (const bool per_thread : {false, true})
      names.push_back(FunctionOf(bpf::CudaFunctionName(static_cast<CudaFunction>(i)), per_thread));
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  Result<bpf::ElfFunctions> found = bpf::FindElfFunctions(file->get(), views);
  if (!found) {
    out.reason = bpf::RefusalName(bpf::Refusal::kNotReadable);
    out.sentence = found.error().detail;
    return;
  }
  out.build_id = found->build_id.substr(0, kMostWordBytes);
  for (const bpf::ElfFunction& function : found->functions) {
    const bpf::ProbePlace place =
        bpf::ClassifyFirstInstruction(found->architecture, machine.kernel, function.code);
    bpf::DenyFacts deny;
    deny.architecture = found->architecture;
    deny.kernel = machine.kernel;
    deny.gpu = machine.machine.gpus;
    deny.instruction = place.instruction;
    deny.emulated = place.emulated;
    deny.seccomp = facts.seccomp;
    deny.shadow_stack = facts.shadow_stack;
    deny.traced = facts.tracer != 0;
    deny.tool = !facts.tool.empty();
    ProbePoint& point = out.points.emplace_back();
    point.function = function.name;
    if (const bpf::DenyRow* row = bpf::FindDenyRow(deny)) {
      point.reason = bpf::RefusalName(row->refusal);
      point.sentence = row->sentence;
      point.row = row->source;
    }
    if (out.points.size() == kMostPoints) break;
  }
  if (out.points.empty()) {
    out.reason = bpf::RefusalName(bpf::Refusal::kNoSymbol);
    out.sentence = "the library has none of the functions of CUDA that launch or wait";
  }
}

bpf::Capabilities Machine(const std::string& proc) {
  bpf::Capabilities out;
  out.machine = bpf::ReadMachineNames(proc);
  out.kernel = bpf::ParseKernelVersion(out.machine.kernel);
  return out;
}

uint64_t AsPpm(double share) {
  return static_cast<uint64_t>(std::llround(std::clamp(share, 0.0, 1000.0) * 1e6));
}

// When a process started, in ticks; none: it is not there, or ended and was not waited for.
std::optional<uint64_t> StartOf(const std::string& proc, int64_t pid) {
  const Result<std::string> text = ReadFile(proc + "/" + std::to_string(pid) + "/stat", 4096);
  if (!text) return std::nullopt;
  // "17 (name) S 1 …": the name may have blanks and brackets.
  const size_t name_end = text->rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text->size()) return std::nullopt;
  std::string_view rest = std::string_view(*text).substr(name_end + 2);
  const std::string_view state = TakeUntil(rest, ' ');
  if (state == "Z" || state == "X") return std::nullopt;
  for (int field = 4; field < 22; ++field) TakeUntil(rest, ' ');
  return ParseInt<uint64_t>(TakeUntil(rest, ' '));
}

// Scales the estimates of a process that is measured in windows, and keeps counts from falling.
struct Estimate {
  std::array<uint64_t, kLaunchTypes> calls{};     // that were counted, as of the last round
  std::array<double, kLaunchTypes> estimated{};   // calls outside of windows, on top of those
  std::array<uint64_t, kLaunchTypes> reported{};  // never falls
  bool exact = true, all_timed = true;
  bpf::ProbeState state = bpf::ProbeState::kTimed;  // as of the last round
  int64_t at_ns = 0;                                // of the last round
  double uncounted_ns = 0;                          // between windows, since the last one
};

class BpfBackend final : public ProbeBackend {
 public:
  explicit BpfBackend(BpfBackendOptions options) : options_(std::move(options)) {}

  Ability Open(const Limits& limits) override {
    session_.reset();
    ForgetAll();
    limits_ = limits;
    governor_options_.thread_budget = static_cast<double>(limits.thread_budget_ppm) * 1e-6;
    governor_options_.host_budget = static_cast<double>(limits.host_budget_ppm) * 1e-6;
    governor_.emplace(governor_options_);
    found_ = bpf::FindCapabilities(options_.capabilities, limits.deny);
    Ability ability = AbilityOf(found_);
    if (!ability.reason.empty()) return ability;
    bpf::ProbeSession::Options session;
    session.capabilities = found_;
    session.allow_seccomp = limits.allow_seccomp;
    session.proc = options_.proc;
    Result<std::unique_ptr<bpf::ProbeSession>> opened = bpf::ProbeSession::Open(session);
    if (!opened) {
      ability.mechanism.clear();
      ability.reason = opened.error().code == Code::kPermissionDenied ? "no_rights" : "refused";
      ability.sentence = opened.error().detail;
      return ability;
    }
    session_ = *std::move(opened);
    ability.mechanism = bpf::MechanismName(session_->mechanism());
    ability.entry_cost_ns = session_->costs().count_ns;
    ability.pair_cost_ns = session_->costs().timed_ns;
    return ability;
  }

  Result<std::vector<ListedTarget>> List(int64_t pid) override {
    ASSIGN_OR_RETURN(std::vector<ListedTarget> listed, ListProbeTargets(options_.proc, pid));
    if (session_) {
      for (ListedTarget& target : listed) {
        for (ProbePoint& point : target.points) {
          if (point.reason.empty()) point.cost_ns = session_->costs().count_ns;
        }
      }
    }
    return listed;
  }

  std::optional<uint32_t> UserOf(int64_t pid) const override {
    // Of a process that may not be looked into the folder belongs to root: then it is root's for us, too.
    struct stat facts{};
    if (::stat((options_.proc + "/" + std::to_string(pid)).c_str(), &facts) != 0) return std::nullopt;
    return facts.st_uid;
  }
  std::string CgroupOf(int64_t pid) const override {
    const Result<std::string> text =
        ReadFile(options_.proc + "/" + std::to_string(pid) + "/cgroup", 64 << 10);
    std::string_view rest = text ? std::string_view(*text) : std::string_view();
    while (!rest.empty()) {
      const std::string_view line = TakeUntil(rest, '\n');
      if (line.starts_with("0::")) return std::string(line.substr(3));
    }
    return {};
  }
  std::string ProgramOf(int64_t pid) const override {
    std::array<char, 4096> room;
    const ssize_t size =
        ::readlink((options_.proc + "/" + std::to_string(pid) + "/exe").c_str(), room.data(), room.size());
    if (size > 0) return BaseName({room.data(), static_cast<size_t>(size)});
    const Result<std::string> text = ReadFile(options_.proc + "/" + std::to_string(pid) + "/comm", 64);
    return text ? std::string(Trim(*text)) : std::string();
  }

  Outcome Attach(const Order& order, Instant now) override {
    Outcome out;
    if (!session_) {
      out.refusal = "refused";
      out.sentence = "there is no BPF here";
      return out;
    }
    const bool cuda = (order.probes & kCudaProbe) != 0, data = (order.probes & kDataloadProbe) != 0;
    const Result<bpf::AttachOutcome> outcome = session_->Attach(
        static_cast<int32_t>(order.pid), {.launches = cuda, .synchronizes = cuda, .data_waits = data});
    if (!outcome) {
      std::tie(out.refusal, out.sentence) = SplitRefusal(outcome.error());
      out.row = RowOf(out.refusal);
      return out;
    }
    std::string refused;
    bool any = false;
    for (const bpf::LibraryOutcome& library : outcome->libraries) {
      for (const bpf::FunctionOutcome& function : library.functions) {
        if (function.refusal == bpf::Refusal::kNone) {
          any = true;
          continue;
        }
        if (out.refusal.empty()) {
          out.refusal = bpf::RefusalName(function.refusal);
          out.sentence = function.sentence;
        }
        refused += (refused.empty() ? "" : ", ") + function.symbol;
      }
    }
    const bool waits = data && outcome->data_waits;
    // Nothing that was requested can be had: that is a refusal, not an attached target without a probe.
    if (!waits && !any && !out.refusal.empty()) {
      session_->Detach(static_cast<int32_t>(order.pid));
      out.row = RowOf(out.refusal);
      return out;
    }
    out.trouble = outcome->trouble;
    if (!refused.empty())
      out.trouble += (out.trouble.empty() ? "" : "; ") + ("not probed (" + out.refusal + "): " + refused);
    out.refusal.clear();
    out.sentence.clear();
    out.probes = static_cast<uint8_t>((cuda ? kCudaProbe : 0) | (waits ? kDataloadProbe : 0));
    targets_[order.pid] = order;
    starts_[order.pid] = StartOf(options_.proc, order.pid);
    follow_at_ns_ = now.boot_ns + kFollowPeriod.count();
    return out;
  }

  void Detach(int64_t pid) override {
    targets_.erase(pid);
    starts_.erase(pid);
    std::erase_if(estimates_, [&](const auto& item) { return item.second.first == pid; });
    if (session_) session_->Detach(static_cast<int32_t>(pid));
    if (targets_.empty()) ForgetAll();
  }
  void DetachAll() override {
    if (session_) session_->DetachAll();
    ForgetAll();
  }
  size_t links() const override { return session_ ? session_->links() : 0; }
  Duration wait() const override { return wait_; }

  void Tick(Instant now, Round& out) override {
    out.events = WordsOf(cuda_events_, data_events_);
    out.cost_ns = WordsOf(static_cast<uint64_t>(cuda_cost_ns_), static_cast<uint64_t>(data_cost_ns_));
    if (!session_ || targets_.empty()) return;
    if (now.boot_ns >= follow_at_ns_) {
      follow_at_ns_ = now.boot_ns + kFollowPeriod.count();
      static_cast<void>(session_->Follow());
    }
    const Result<bpf::ProbeStats> stats = session_->Read();
    if (!stats) return;
    Govern(now, *stats, out);
    for (const auto& [pid, order] : targets_) out.targets.push_back(ReadingOf(pid, *stats));
    for (const bpf::ProcessStats& process : stats->processes) {
      if (!process.ended && targets_.contains(process.root))
        out.processes.push_back(CountsOf(process, *stats, now));
      else estimates_.erase(process.key);
    }
    out.events = WordsOf(cuda_events_, data_events_);
    out.cost_ns = WordsOf(static_cast<uint64_t>(cuda_cost_ns_), static_cast<uint64_t>(data_cost_ns_));
    const auto lose = [&](const char* reason, uint64_t count) {
      out.lost.push_back({.probe = "cuda", .reason = reason, .count = count});
    };
    out.lost.clear();
    lose("series_full", stats->lost.series_full);
    lose("processes_full", stats->lost.processes_full);
    lose("recursion", stats->lost.recursion);
  }

 private:
  struct Before {
    uint64_t calls = 0, timed = 0;
  };

  static std::vector<WordCount> WordsOf(uint64_t cuda, uint64_t data) {
    return {{.probe = "cuda", .reason = {}, .count = cuda},
            {.probe = "dataload", .reason = {}, .count = data}};
  }

  void ForgetAll() {
    targets_.clear();
    starts_.clear();
    estimates_.clear();
    before_.clear();
    states_.clear();
    wait_ = ProbeHost::kTick;
    if (governor_) governor_.emplace(governor_options_);
  }

  // The lowest budget of the targets on a library, as a share of the configured one.
  double StrictnessOf(const std::vector<int32_t>& roots) const {
    uint64_t least = limits_.thread_budget_ppm;
    for (const int32_t root : roots) {
      const auto at = targets_.find(root);
      if (at != targets_.end() && at->second.thread_budget_ppm != 0)
        least = std::min(least, at->second.thread_budget_ppm);
    }
    return static_cast<double>(limits_.thread_budget_ppm) / static_cast<double>(std::max<uint64_t>(least, 1));
  }

  void Govern(Instant now, const bpf::ProbeStats& stats, Round& out) {
    std::vector<bpf::TargetLoad> loads = session_->Loads(stats);
    for (bpf::TargetLoad& load : loads) {
      CountCost(load);
      // A budget that was lowered for a target makes its calls dearer.
      if (const bpf::LibraryStats* library = LibraryOf(load.target, stats)) {
        const double strictness = StrictnessOf(library->roots);
        load.count_ns *= strictness;
        load.timed_ns *= strictness;
      }
    }
    for (const bpf::Decision& decision : governor_->Step(now, loads)) Carry(decision, stats, out);
    wait_ = governor_->Wait(now);
  }

  static const bpf::LibraryStats* LibraryOf(std::string_view target, const bpf::ProbeStats& stats) {
    const auto library = std::ranges::find_if(stats.libraries, [&](const bpf::LibraryStats& one) {
      return LibraryName(one.device, one.inode) == target;
    });
    return library == stats.libraries.end() ? nullptr : &*library;
  }

  void CountCost(const bpf::TargetLoad& load) {
    const bool waits = load.target == kMachine;
    Before& before = before_[load.target];
    if (load.events >= before.calls && load.timed_events >= before.timed) {
      const uint64_t calls = load.events - before.calls;
      const uint64_t timed = std::min(load.timed_events - before.timed, calls);
      (waits ? data_events_ : cuda_events_) += calls;
      (waits ? data_cost_ns_ : cuda_cost_ns_) +=
          static_cast<double>(calls - timed) * load.count_ns + static_cast<double>(timed) * load.timed_ns;
    }
    before = {load.events, load.timed_events};
  }

  void Carry(const bpf::Decision& decision, const bpf::ProbeStats& stats, Round& out) {
    using bpf::ProbeState;
    const Status applied = session_->Apply(decision);
    const bool window = decision.state == ProbeState::kWindow || decision.state == ProbeState::kPaused;
    const ProbeState before =
        states_.contains(decision.target) ? states_[decision.target] : ProbeState::kTimed;
    const bool was_window = before == ProbeState::kWindow || before == ProbeState::kPaused;
    states_[decision.target] = decision.state;
    if (applied.ok() && window && was_window) return;  // an event at each window is too many
    std::vector<int64_t> pids;
    if (const bpf::LibraryStats* library = LibraryOf(decision.target, stats)) {
      for (const int32_t root : library->roots) {
        if (targets_.contains(root)) pids.push_back(root);
      }
    } else if (decision.target == kMachine) {
      for (const auto& [pid, order] : targets_) {
        if ((order.probes & kDataloadProbe) != 0) pids.push_back(pid);
      }
    }
    const bool removed = !applied.ok() || (!decision.attached && !window);
    const char* change = removed ? "detached" : "limited";
    if (!removed && decision.state == ProbeState::kTimed && decision.sampling <= 1) change = "attached";
    const std::string sentence = applied.ok() ? decision.reason : applied.detail;
    for (const int64_t pid : pids)
      out.changes.push_back({.pid = pid, .change = change, .sentence = sentence});
  }

  // The decision on the library of a target that measures least.
  const bpf::Decision* DecisionOf(int64_t pid, const bpf::ProbeStats& stats) const {
    const bpf::Decision* out = nullptr;
    const auto consider = [&](const bpf::Decision* one) {
      if (one &&
          (!out || one->state > out->state || (one->state == out->state && one->sampling > out->sampling)))
        out = one;
    };
    for (const bpf::LibraryStats& library : stats.libraries) {
      if (std::ranges::find(library.roots, pid) != library.roots.end())
        consider(governor_->Of(LibraryName(library.device, library.inode)));
    }
    const auto at = targets_.find(pid);
    if (at != targets_.end() && at->second.probes == kDataloadProbe) consider(governor_->Of(kMachine));
    return out;
  }

  Reading ReadingOf(int64_t pid, const bpf::ProbeStats& stats) {
    Reading out;
    out.pid = pid;
    if (const bpf::Decision* decision = DecisionOf(pid, stats)) {
      switch (decision->state) {
        case bpf::ProbeState::kTimed:
          out.measuring = decision->sampling > 1 ? Measuring::kSampled : Measuring::kExact;
          out.timed_one_in = decision->sampling;
          break;
        case bpf::ProbeState::kCounted:
          out.measuring = Measuring::kCountOnly;
          out.timed_one_in = 0;
          break;
        case bpf::ProbeState::kWindow:
        case bpf::ProbeState::kPaused: out.measuring = Measuring::kWindows; break;
        case bpf::ProbeState::kDetached: out.measuring = Measuring::kPaused; break;
        case bpf::ProbeState::kGivenUp: out.measuring = Measuring::kGivenUp; break;
      }
    }
    out.share_ppm = AsPpm(governor_->thread_overhead());
    // It is over with the last process that it started.
    const auto started = starts_.find(pid);
    const bool there = started != starts_.end() && StartOf(options_.proc, pid) == started->second;
    out.ended = !there && std::ranges::none_of(stats.processes, [&](const bpf::ProcessStats& process) {
      return process.root == pid && !process.ended;
    });
    return out;
  }

  ProcessCounts CountsOf(const bpf::ProcessStats& process, const bpf::ProbeStats& stats, Instant now) {
    const auto of = [&](CudaFunction function) -> const bpf::FunctionStats& {
      return process.functions[static_cast<size_t>(function)];
    };
    ProcessCounts out;
    out.pid = process.key.pid;
    out.start_boot_ns = process.key.start_boot_ns;
    out.root = process.root;
    const auto target = targets_.find(process.root);
    out.has_cuda = target != targets_.end() && (target->second.probes & kCudaProbe) != 0;
    const bpf::FunctionStats &plain = of(CudaFunction::kLaunchKernel),
                             &extended = of(CudaFunction::kLaunchKernelEx);
    // A call of the one inside of the other is one launch. Where some calls are timed alone, their part is
    // taken.
    const auto nested_of = [](const bpf::FunctionStats& function) {
      if (function.duration.count == 0) return uint64_t{0};
      const double part = static_cast<double>(function.nested) / static_cast<double>(function.duration.count);
      return static_cast<uint64_t>(std::llround(std::min(part, 1.0) * static_cast<double>(function.calls)));
    };
    const uint64_t nested = nested_of(plain) + nested_of(extended);
    std::array<uint64_t, kLaunchTypes> calls{};
    calls[0] = plain.calls + extended.calls;
    calls[0] -= std::min(nested, calls[0]);
    calls[1] = of(CudaFunction::kLaunchCooperative).calls;
    calls[2] = of(CudaFunction::kGraphLaunch).calls;
    auto& [root, estimate] = estimates_[process.key];
    root = process.root;
    const bpf::Decision* decision = DecisionOf(process.root, stats);
    // What is read now was counted under the decision of the round before.
    const bool windows = estimate.state == bpf::ProbeState::kWindow;
    const double round_ns = static_cast<double>(std::max<int64_t>(now.boot_ns - estimate.at_ns, 1));
    if (estimate.state == bpf::ProbeState::kPaused) estimate.uncounted_ns += round_ns;
    estimate.at_ns = now.boot_ns;
    estimate.state = decision ? decision->state : bpf::ProbeState::kTimed;
    if (decision && !decision->exact) estimate.exact = false;
    uint64_t all = 0, timed = 0;
    for (size_t i = 0; i < bpf::kCudaFunctions; ++i) {
      all += process.functions[i].calls;
      timed += process.functions[i].duration.count;
    }
    // Calls that are in progress are counted, and not timed yet.
    if (decision && (decision->state != bpf::ProbeState::kTimed || decision->sampling != 1))
      estimate.all_timed = false;
    if (process.timing_refused || timed + 64 < all) estimate.all_timed = false;
    // The rate in a window is taken for the time since the one before.
    const double scale = windows ? std::exchange(estimate.uncounted_ns, 0) / round_ns : 0;
    for (size_t i = 0; i < kLaunchTypes; ++i) {
      const uint64_t more = calls[i] > estimate.calls[i] ? calls[i] - estimate.calls[i] : 0;
      estimate.calls[i] = std::max(estimate.calls[i], calls[i]);
      estimate.estimated[i] += static_cast<double>(more) * scale;
      estimate.reported[i] =
          std::max(estimate.reported[i], estimate.calls[i] + static_cast<uint64_t>(estimate.estimated[i]));
      out.launches[i] = estimate.reported[i];
    }
    out.exact = estimate.exact;
    out.all_timed = estimate.all_timed;
    out.enqueue[0] = plain.duration;
    out.enqueue[0].count += extended.duration.count;
    out.enqueue[0].sum_ns += extended.duration.sum_ns;
    for (size_t i = 0; i < job_page::kBuckets; ++i) out.enqueue[0].buckets[i] += extended.duration.buckets[i];
    out.enqueue[1] = of(CudaFunction::kLaunchCooperative).duration;
    out.enqueue[2] = of(CudaFunction::kGraphLaunch).duration;
    out.sync_wait[0] = of(CudaFunction::kStreamSynchronize).duration;
    out.sync_wait[1] = of(CudaFunction::kEventSynchronize).duration;
    out.sync_wait[2] = of(CudaFunction::kContextSynchronize).duration;
    out.has_data = process.data.has_value();
    if (process.data) out.data_wait = process.data->wait;
    return out;
  }

  const BpfBackendOptions options_;
  Limits limits_;
  bpf::Capabilities found_;
  std::unique_ptr<bpf::ProbeSession> session_;
  bpf::GovernorOptions governor_options_;
  std::optional<bpf::Governor> governor_;
  std::map<int64_t, Order> targets_;
  std::map<bpf::ProcessKey, std::pair<int64_t, Estimate>> estimates_;  // with the root
  std::map<int64_t, std::optional<uint64_t>> starts_;  // of targets: another one is another process
  std::map<std::string, Before> before_;
  std::map<std::string, bpf::ProbeState> states_;
  uint64_t cuda_events_ = 0, data_events_ = 0;
  Duration wait_ = ProbeHost::kTick;
  double cuda_cost_ns_ = 0, data_cost_ns_ = 0;
  int64_t follow_at_ns_ = 0;
};

}  // namespace

std::unique_ptr<ProbeBackend> MakeBpfBackend(BpfBackendOptions options) {
  return std::make_unique<BpfBackend>(std::move(options));
}

Ability AbilityOf(const bpf::Capabilities& found) {
  Ability out;
  if (found.launches() || found.data_waits) {
    out.mechanism = found.launches() ? bpf::MechanismName(found.mechanism) : "tracepoints";
    return out;
  }
  out.sentence = found.trouble();
  for (const bpf::Capability& row : found.rows) {
    if (row.works) continue;
    if (row.name == "machine") out.reason = "denied";
    else if (row.name == "btf") out.reason = "no_btf";
    else if (row.name == "uprobes" || row.name == "tracepoints") out.reason = "no_uprobes";
    else if (row.sentence.find("locked down") != std::string::npos) out.reason = "lockdown";
    else if (row.sentence.find("right") != std::string::npos) out.reason = "no_rights";
    break;
  }
  if (out.reason.empty()) out.reason = "refused";
  return out;
}

Result<std::vector<ListedTarget>> ListProbeTargets(const std::string& proc, int64_t pid) {
  std::vector<bpf::ProcessFacts> found;
  if (pid != 0) {
    ASSIGN_OR_RETURN(bpf::ProcessFacts one, bpf::ReadProcess(proc, static_cast<int32_t>(pid)));
    found.push_back(std::move(one));
  } else {
    found = bpf::FindProcesses(proc, kMostListed);
  }
  const bpf::Capabilities machine = Machine(proc);
  std::vector<ListedTarget> out;
  for (const bpf::ProcessFacts& facts : found) {
    ListedTarget& target = out.emplace_back();
    target.pid = facts.pid;
    target.user = facts.user;
    const Result<std::string> name = ReadFile(proc + "/" + std::to_string(facts.pid) + "/comm", 64);
    if (name) target.name = Trim(*name);
    const auto library =
        std::ranges::find(facts.libraries, bpf::LibraryKind::kCuda, &bpf::LoadedLibrary::kind);
    if (library == facts.libraries.end()) {
      target.reason = bpf::RefusalName(bpf::Refusal::kNoLibrary);
      target.sentence = "it has not loaded libcuda";
      if (!facts.libraries.empty()) target.library = BaseName(facts.libraries.front().file.path);
      continue;
    }
    target.library = BaseName(library->file.path);
    AddPoints(facts, proc, *library, machine, target);
  }
  return out;
}

}  // namespace gpulens::probes
