#include "sources/nvml/simulated/fault_watch.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "sources/nvml/simulated/fault_list.h"

namespace gpulens::nvml {
namespace {

std::string Seconds(int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", static_cast<double>(ns) * 1e-9);
  return text;
}

// The keys of its mode that a fault was given, or has by default.
std::string OwnWords(const LiveFault& fault) {
  std::string out;
  auto add = [&](std::string_view key, const std::string& value) {
    if (HasKey(RowOf(fault.mode), key)) out += " " + std::string(key) + "=" + value;
  };
  add("call", fault.call);
  add("code", std::to_string(fault.code));
  char bits[24];
  std::snprintf(bits, sizeof bits, "0x%llx", static_cast<unsigned long long>(fault.value));
  add("value", bits);
  add("reading", std::string(kReadings[static_cast<size_t>(fault.reading)]));
  add("counter", std::string(RowOf(fault.counter).name));
  add("amount", std::to_string(fault.amount));
  add("delay", std::to_string(fault.delay_ns) + "ns");
  add("percent", std::to_string(fault.percent));
  add("seed", std::to_string(fault.seed));
  add("index", std::to_string(fault.index));
  add("how", std::string(kEnds[static_cast<size_t>(fault.how)]));
  return out;
}

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

std::string_view FaultModeName(FaultMode mode) noexcept { return RowOf(mode).name; }

bool FaultLeavesCount(const LiveFault& fault) noexcept {
  switch (fault.mode) {
    case FaultMode::kEccUncorrectable:
    case FaultMode::kEccCorrectable: return true;
    case FaultMode::kCounter: return RowOf(fault.counter).stays;
    default: return fault.mode == FaultMode::kReset;
  }
}

std::string FormatFault(const LiveFault& fault) {
  return "id=" + std::to_string(fault.id) + " gpu=" + (fault.gpu < 0 ? "all" : std::to_string(fault.gpu)) +
         " mode=" + std::string(FaultModeName(fault.mode)) + OwnWords(fault) +
         " from=" + std::to_string(fault.from_ns) + " to=" + std::to_string(fault.to_ns);
}

std::string FormatFaultScript(const std::vector<LiveFault>& faults) {
  std::string out(kFaultHeader);
  out += '\n';
  for (const LiveFault& fault : faults) out += FormatFault(fault) + "\n";
  return out;
}

std::string DescribeFault(const LiveFault& fault, int64_t now_ns) {
  std::string out = "#" + std::to_string(fault.id) + " " +
                    (fault.gpu < 0 ? std::string("all GPUs") : "GPU " + std::to_string(fault.gpu)) + " " +
                    std::string(FaultModeName(fault.mode)) + OwnWords(fault);
  if (now_ns < fault.from_ns) return out + ", begins in " + Seconds(fault.from_ns - now_ns);
  if (now_ns >= fault.to_ns) return out + (FaultLeavesCount(fault) ? ", over; its counts stay" : ", over");
  if (fault.mode == FaultMode::kXid || fault.mode == FaultMode::kCrash)
    return out + ", happened " + Seconds(now_ns - fault.from_ns) + " ago";
  out += ", since " + Seconds(now_ns - fault.from_ns);
  return fault.to_ns == kFaultForEver ? out : out + ", for " + Seconds(fault.to_ns - now_ns) + " more";
}

std::string FaultHelp() {
  std::string out;
  for (const ModeRow& row : kModes) {
    std::string left = "  " + std::string(row.name);
    for (std::string_view key : row.keys) {
      if (key.empty()) continue;
      bool needed = key.ends_with('!');
      if (needed) key.remove_suffix(1);
      left += needed ? " " + std::string(key) + "=" : " [" + std::string(key) + "=]";
    }
    left.resize(std::max<size_t>(left.size() + 2, 44), ' ');
    out += left + std::string(row.help) + "\n";
  }
  return out + "  reading: " + FaultNames(kReadings) +
         "\n  counter: " + FaultNames(kCounters, &CounterRow::name) +
         "\n  value: a number, 0x…, -1, all_ones or int_min\n";
}

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
  std::string text;
  const Status read = ReadUnlockedFile(path_, text, kMaxFaultScript);
  if (read.code == Code::kTimeout) return;
  seen_ = seen;
  if (!read) return;
  // Empty: no fault was requested yet.
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
  unsigned sum = 0;
  for (const LiveFault& fault : faults) {
    bool counts = fault.mode == FaultMode::kCounter && fault.counter == counter;
    counts = counts ||
             (fault.mode == FaultMode::kEccUncorrectable && counter == FakeFault::Counter::kEccUncorrected);
    counts =
        counts || (fault.mode == FaultMode::kEccCorrectable && counter == FakeFault::Counter::kEccCorrected);
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
