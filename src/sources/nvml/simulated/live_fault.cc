#include "sources/nvml/simulated/live_fault.h"

#include <cstdio>

#include "sources/nvml/simulated/fault_tables.h"

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
  return out + "  reading: " + FaultNames(kReadings, [](std::string_view name) { return name; }) +
         "\n  counter: " + FaultNames(kCounters, [](const CounterRow& row) { return row.name; }) +
         "\n  value: a number, 0x…, -1, all_ones or int_min\n";
}

}  // namespace gpulens::nvml
