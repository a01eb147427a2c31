#include "sources/nvml/simulated/fault_watch.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/files.h"

namespace gpulens::nvml {
namespace {

constexpr int64_t kFaultPollNs = 20'000'000;
// Return codes of the library, and event types.
constexpr int kInsufficientPowerCode = 8, kLostCode = 15, kResetCode = 16;
constexpr uint64_t kEccCorrectedEvent = 0x1, kEccUncorrectedEvent = 0x2, kXidEvent = 0x8;

// Of 100, the same for the same call of the same seed (splitmix64).
unsigned Draw(const LiveFault& fault, const FaultCall& call) noexcept {
  uint64_t x = fault.seed * 0x9E3779B97F4A7C15 + call.number + static_cast<uint64_t>(call.gpu + 1) * 1000003;
  for (char c : call.name) x = x * 31 + static_cast<unsigned char>(c);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return static_cast<unsigned>((x ^ (x >> 31)) % 100);
}

// The code by which a whole GPU is away; 0 when it is not.
int AwayCode(FaultMode mode) noexcept {
  switch (mode) {
    case FaultMode::kLost:
    case FaultMode::kFallenOffBus:
    case FaultMode::kVanish:
    case FaultMode::kReset: return kLostCode;
    case FaultMode::kResetRequired: return kResetCode;
    case FaultMode::kInsufficientPower: return kInsufficientPowerCode;
    default: return 0;
  }
}

}  // namespace

FaultWatch::FaultWatch() {
  if (const char* path = std::getenv(kFaultFileVariable)) path_ = path;
}

void FaultWatch::Use(std::vector<LiveFault> faults) {
  path_.clear();
  script_ = std::make_shared<const std::vector<LiveFault>>(std::move(faults));
}

void FaultWatch::Look(int64_t now_ns) {
  if (path_.empty() || (last_look_ns_ != 0 && now_ns - last_look_ns_ < kFaultPollNs)) return;
  last_look_ns_ = now_ns;
  FileMark seen = MarkOf(path_);
  if (!seen.there() || seen == seen_) return;
  seen_ = seen;
  std::string text;
  if (!ReadFile(path_.c_str(), text, kMaxFaultScript)) return;
  // Empty: nobody has asked for a fault yet.
  Result<std::vector<LiveFault>> faults = text.empty() ? std::vector<LiveFault>{} : ParseFaultScript(text);
  if (faults) {
    script_ = std::make_shared<const std::vector<LiveFault>>(*std::move(faults));
  } else {
    std::fprintf(stderr, "simulated NVML: %s: %s\n", path_.c_str(), faults.error().detail.c_str());
  }
}

FaultGate GateOf(const std::vector<LiveFault>& faults, const FaultCall& call) {
  FaultGate out;
  for (const LiveFault& fault : faults) {
    if (!fault.Holds(call.gpu, call.now_ns)) continue;
    int away = call.gpu >= 0 ? AwayCode(fault.mode) : 0;
    if (away != 0) {
      if (out.kind == FaultGate::kPass) out = {FaultGate::kFail, away, out.delay_ns};
      continue;
    }
    if (!fault.Means(call.name, call.gpu)) continue;
    switch (fault.mode) {
      case FaultMode::kHang: out.kind = FaultGate::kWait; break;
      case FaultMode::kSlow: out.delay_ns += fault.delay_ns; break;
      case FaultMode::kCrash:
        // A process that was started since is spared: it happens once.
        if (call.opened_ns < fault.from_ns) return {FaultGate::kDie, 0, 0, fault.how};
        break;
      case FaultMode::kCrashLoop: return {FaultGate::kDie, 0, 0, fault.how};
      case FaultMode::kFlaky:
        if (Draw(fault, call) >= fault.percent) break;
        [[fallthrough]];
      case FaultMode::kError:
        if (out.kind == FaultGate::kPass) out = {FaultGate::kFail, fault.code, out.delay_ns};
        break;
      default: break;
    }
  }
  return out;
}

bool IsVanished(const std::vector<LiveFault>& faults, int gpu, int64_t now_ns) noexcept {
  return std::any_of(faults.begin(), faults.end(), [&](const LiveFault& fault) {
    return fault.mode == FaultMode::kVanish && fault.Holds(gpu, now_ns);
  });
}

int64_t LastReset(const std::vector<LiveFault>& faults, int gpu, int64_t now_ns) noexcept {
  int64_t last = 0;
  for (const LiveFault& fault : faults) {
    bool meant = fault.mode == FaultMode::kReset && (fault.gpu < 0 || fault.gpu == gpu);
    if (meant && fault.to_ns <= now_ns) last = std::max(last, fault.to_ns);
  }
  return last;
}

unsigned CountOf(const std::vector<LiveFault>& faults, FakeFault::Counter counter, int gpu,
                 int64_t now_ns) noexcept {
  using C = FakeFault::Counter;
  unsigned sum = 0;
  for (const LiveFault& fault : faults) {
    bool counts = fault.mode == FaultMode::kCounter && fault.counter == counter;
    counts = counts || (fault.mode == FaultMode::kEccUncorrectable && counter == C::kEccUncorrected);
    counts = counts || (fault.mode == FaultMode::kEccCorrectable && counter == C::kEccCorrected);
    if (!counts || (fault.gpu >= 0 && fault.gpu != gpu) || now_ns < fault.from_ns) continue;
    bool stays = FaultLeavesCount(fault);
    if (stays ? fault.from_ns >= LastReset(faults, gpu, now_ns) : now_ns < fault.to_ns) sum += fault.amount;
  }
  return sum;
}

FaultEvent EventOf(const LiveFault& fault) noexcept {
  switch (fault.mode) {
    case FaultMode::kXid: return {kXidEvent, static_cast<uint64_t>(fault.code)};
    case FaultMode::kFallenOffBus: return {kXidEvent, 79};
    case FaultMode::kInsufficientPower: return {kXidEvent, 54};
    case FaultMode::kEccUncorrectable: return {kEccUncorrectedEvent, 0};
    case FaultMode::kEccCorrectable: return {kEccCorrectedEvent, 0};
    default: return {};
  }
}

}  // namespace gpulens::nvml
