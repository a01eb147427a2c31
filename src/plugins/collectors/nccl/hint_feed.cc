#include "plugins/collectors/nccl/hint_feed.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/host_name.h"
#include "base/parse.h"
#include "base/pci_address.h"
#include "catalog/codes/codes.h"
#include "catalog/gpu.h"
#include "catalog/host.h"
#include "catalog/limits.h"

namespace gpulens {
namespace {

using collectives::Cause;
using std::chrono::seconds;

// A gateway that was away for a moment has it, too.
constexpr Duration kHintKept = std::chrono::minutes(2);
// A clock that dips for a reading is no cause.
constexpr Duration kHeldFor = seconds(2);
// The power limit and settings hold the clock of every GPU: of a cause, it is lower than that of the others.
constexpr double kLowerThanOthers = 0.95;
constexpr Duration kPressureWindow = seconds(5);
constexpr Duration kErrorWindow = seconds(limits::kRecentSeconds);
constexpr size_t kMostCounters = 65'536;
constexpr size_t kMostHintText = 128;
// It reports what another XID requires.
constexpr int64_t kXidRecoveryAction = 154;

std::string Rounded(double value) { return std::to_string(std::llround(value)); }

template <class Visit>
void VisitFresh(SeriesFinder& finder, const Snapshot& snapshot, Visit&& visit) {
  finder.ForEach(snapshot, [&](const SeriesInfo& info, double value, const Frame& frame, uint32_t slot) {
    if (frame.quality[slot] == Quality::kOk) visit(info, value);
  });
}

// By gpu.throttle.cause, in words; empty: it makes no rank slower than others.
std::string_view WhatHolds(std::string_view throttle) noexcept {
  if (throttle.starts_with("temp_")) return "heat";
  if (throttle == "power_brake") return "the power supply of the machine";
  if (throttle == "slowdown_hardware") return "the hardware";
  if (throttle == "power_software") return "the power limit";
  return throttle == "clock_setting" ? "a clock setting" : "";
}
bool HoldsEveryGpu(std::string_view throttle) noexcept {
  return throttle == "power_software" || throttle == "clock_setting";
}

Cause CauseOfXid(const CodeFacts* facts) noexcept {
  if (!facts) return Cause::kGpuError;
  if (facts->klass == "memory") return Cause::kGpuEcc;
  if (facts->klass == "nvlink") return Cause::kNvlink;
  if (facts->klass == "bus") return Cause::kPcie;
  return facts->klass == "thermal" ? Cause::kGpuClock : Cause::kGpuError;
}

// Interfaces of cards; bridges and tunnels of containers come and go.
bool IsCard(std::string_view interface) noexcept {
  return std::ranges::any_of(std::array<std::string_view, 5>{"en", "eth", "ib", "bond", "hsn"},
                             [&](std::string_view start) { return interface.starts_with(start); });
}

bool IsLinkError(std::string_view type) noexcept {
  return type == "replay" || type == "recovery" || type == "malformed" || type == "overrun" ||
         type == "remote" || type == "integrity" || type == "discard";
}

void CutTo(std::string& text, size_t most) {
  if (text.size() <= most) return;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  text.resize(most);
}

}  // namespace

HintFeed::HintFeed()
    : host_(HostName()),
      info_(kGpuInfo),
      throttle_(kGpuThrottleReason),
      throttle_share_(kGpuThrottleShare),
      clock_(kGpuClockFrequency),
      width_(kGpuPcieLinkWidthCurrent),
      most_width_(kGpuPcieLinkWidthMax),
      xids_(kGpuXidCodeErrors),
      ecc_(kGpuEccErrors),
      link_errors_(kGpuInterconnectErrors),
      replays_(kGpuPcieReplayCount),
      links_(kGpuInterconnectLinkActive),
      ports_(kHostRdmaPortActive),
      interfaces_(kHostNetworkUp),
      pressure_(kHostPressureTime),
      oom_kills_(kHostMemoryOomKills) {}

void HintFeed::Note(FoundByCause& all, Cause cause, Found found) {
  all[static_cast<size_t>(cause) + (found.lasts ? collectives::kCauses : 0)] = std::move(found);
}

HintFeed::Gpu* HintFeed::GpuOf(const SeriesInfo& info) {
  if (!info.entity) return nullptr;
  const std::string uuid = info.entity->attributes.Text("gpu.uuid");
  const auto found = gpus_.find(uuid);
  return found == gpus_.end() ? nullptr : &found->second;
}

double HintFeed::GrowthOf(const std::string& key, double value, bool begins_at_zero) {
  const auto found = counters_.find(key);
  if (found == counters_.end() && counters_.size() >= kMostCounters) return 0;
  Counter& counter = counters_[key];
  const bool counts = found != counters_.end() || (begins_at_zero && ticks_ > 1);
  const double growth = counts ? std::max(value - counter.last, 0.0) : 0;
  counter.last = value;
  return growth;
}

double HintFeed::GrowthWithin(const std::string& key, double value, Duration window, Instant now) {
  const double growth = GrowthOf(key, value);
  const auto found = counters_.find(key);
  if (found == counters_.end()) return 0;
  Counter& counter = found->second;
  if (counter.since.boot_ns == 0 || now - counter.since > window || value < counter.first) {
    counter.first = value - growth;
    counter.since = now;
  }
  return growth > 0 ? value - counter.first : 0;
}

bool HintFeed::WentDown(const std::string& key, bool up) {
  if (up_.size() >= kMostCounters && !up_.contains(key)) return false;
  return std::exchange(up_[key], up) && !up;
}

void HintFeed::Read(const Snapshot& snapshot, Instant now) {
  if (ticks_ != 0 && snapshot.tick == tick_) return;
  tick_ = snapshot.tick;
  ++ticks_;
  VisitFresh(info_, snapshot, [&](const SeriesInfo& info, double) {
    if (!info.entity) return;
    const std::string uuid = info.entity->attributes.Text("gpu.uuid");
    if (uuid.empty()) return;
    if (const auto pci = ParsePciAddress(info.attributes.Text("gpu.pci.bus_id")))
      gpus_[uuid].pci = pci->ToString();
  });
  ReadThrottling(snapshot, now);
  ReadPcieWidth(snapshot, now);
  ReadXids(snapshot, now);
  ReadErrors(snapshot, now);
  ReadLinks(snapshot, now);
  ReadHost(snapshot, now);
}

void HintFeed::ReadThrottling(const Snapshot& snapshot, Instant now) {
  for (auto& [uuid, gpu] : gpus_) gpu.clock = 0;
  VisitFresh(clock_, snapshot, [&](const SeriesInfo& info, double value) {
    const std::string type = info.attributes.Text("gpu.clock.type");
    Gpu* gpu = GpuOf(info);
    if (gpu && (type == "sm" || (type == "graphics" && gpu->clock == 0))) gpu->clock = value;
  });
  const auto note = [&](const SeriesInfo& info, bool holds) {
    Gpu* gpu = GpuOf(info);
    if (!gpu) return;
    const std::string cause = info.attributes.Text("gpu.throttle.cause");
    if (!holds) gpu->throttled.erase(cause);
    else if (!WhatHolds(cause).empty()) gpu->throttled.try_emplace(cause, now);
  };
  VisitFresh(throttle_, snapshot, [&](const SeriesInfo& info, double value) { note(info, value == 1); });
  VisitFresh(throttle_share_, snapshot,
             [&](const SeriesInfo& info, double value) { note(info, value > limits::kMostThrottled); });
  for (auto& [uuid, gpu] : gpus_) {
    std::vector<double> others;
    for (const auto& [other, of] : gpus_) {
      if (other != uuid && of.clock > 0) others.push_back(of.clock);
    }
    double median = 0;
    if (!others.empty()) {
      const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
      std::ranges::nth_element(others, middle);
      median = *middle;
    }
    const bool lower = gpu.clock > 0 && gpu.clock < kLowerThanOthers * median;
    for (const auto& [cause, since] : gpu.throttled) {
      if (now - since < kHeldFor || (HoldsEveryGpu(cause) && !lower)) continue;
      std::string what = "its clock is held down by " + std::string(WhatHolds(cause));
      if (gpu.clock > 0) what += ", at " + Rounded(gpu.clock) + " MHz";
      if (gpu.clock > 0 && median > 0) what += "; median of the other GPUs here: " + Rounded(median) + " MHz";
      Note(gpu.found, Cause::kGpuClock, {now, true, std::move(what)});
      if (!HoldsEveryGpu(cause)) break;
    }
  }
}

void HintFeed::ReadPcieWidth(const Snapshot& snapshot, Instant now) {
  for (auto& [uuid, gpu] : gpus_) gpu.width = 0;
  VisitFresh(width_, snapshot, [&](const SeriesInfo& info, double value) {
    if (Gpu* gpu = GpuOf(info)) gpu->width = value;
  });
  VisitFresh(most_width_, snapshot, [&](const SeriesInfo& info, double most) {
    Gpu* gpu = GpuOf(info);
    if (!gpu || gpu->width == 0 || gpu->width >= most) return;
    Note(gpu->found, Cause::kPcie,
         {now, true, "it has " + Rounded(gpu->width) + " of " + Rounded(most) + " PCIe lanes"});
  });
}

void HintFeed::ReadXids(const Snapshot& snapshot, Instant now) {
  VisitFresh(xids_, snapshot, [&](const SeriesInfo& info, double value) {
    Gpu* gpu = GpuOf(info);
    const std::string text = info.attributes.Text("gpu.xid.code");
    const auto code = ParseInt<int64_t>(text);
    if (!gpu || !code) return;
    // These counters begin with the first XID, after the agent started.
    const std::string key = "xid " + text + " " + info.entity->attributes.Text("gpu.uuid");
    if (GrowthOf(key, value, true) == 0 || *code == kXidRecoveryAction) return;
    const CodeFacts* facts = FindXid(*code);
    // What ends a program cleanly, and what is only reported.
    if (facts && (facts->severity == "info" || facts->severity == "warning")) return;
    std::string what = "XID " + text;
    if (facts && !facts->meaning.empty()) what += " (" + std::string(facts->meaning) + ")";
    Note(gpu->found, CauseOfXid(facts), {now, false, std::move(what)});
  });
}

void HintFeed::ReadErrors(const Snapshot& snapshot, Instant now) {
  std::map<std::string, double> memory, links;
  const auto add = [&](std::map<std::string, double>& to, const SeriesInfo& info, double value) {
    if (GpuOf(info)) to[info.entity->attributes.Text("gpu.uuid")] += value;
  };
  VisitFresh(ecc_, snapshot, [&](const SeriesInfo& info, double value) {
    if (info.attributes.Text("gpu.ecc.error_type") == "uncorrectable" &&
        info.attributes.Text("gpu.ecc.count_type") == "volatile")
      add(memory, info, value);
  });
  VisitFresh(link_errors_, snapshot, [&](const SeriesInfo& info, double value) {
    if (IsLinkError(info.attributes.Text("gpu.interconnect.error_type"))) add(links, info, value);
  });
  for (const auto& [uuid, value] : memory) {
    const double growth = GrowthOf("ecc " + uuid, value);
    if (growth > 0)
      Note(gpus_[uuid].found, Cause::kGpuEcc, {now, false, Rounded(growth) + " uncorrectable memory errors"});
  }
  for (const auto& [uuid, value] : links) {
    const double growth = GrowthWithin("nvlink " + uuid, value, kErrorWindow, now);
    if (growth > limits::kMostLinkErrors)
      Note(gpus_[uuid].found, Cause::kNvlink,
           {now, false, Rounded(growth) + " errors of its links to other GPUs within 5 minutes"});
  }
  VisitFresh(replays_, snapshot, [&](const SeriesInfo& info, double value) {
    Gpu* gpu = GpuOf(info);
    if (!gpu) return;
    const double growth =
        GrowthWithin("replays " + info.entity->attributes.Text("gpu.uuid"), value, kErrorWindow, now);
    if (growth > limits::kMostPcieReplays)
      Note(gpu->found, Cause::kPcie, {now, false, Rounded(growth) + " PCIe replays within 5 minutes"});
  });
}

void HintFeed::ReadLinks(const Snapshot& snapshot, Instant now) {
  VisitFresh(links_, snapshot, [&](const SeriesInfo& info, double value) {
    Gpu* gpu = GpuOf(info);
    const std::string link = info.attributes.Text("gpu.interconnect.link_index");
    if (gpu && WentDown("link " + link + " " + info.entity->attributes.Text("gpu.uuid"), value == 1))
      Note(gpu->found, Cause::kNvlink, {now, false, "the loss of its link " + link});
  });
  VisitFresh(ports_, snapshot, [&](const SeriesInfo& info, double value) {
    const std::string port =
        info.attributes.Text("host.rdma.port") + " of " + info.attributes.Text("host.rdma.device");
    if (WentDown("port " + port, value == 1))
      Note(of_host_, Cause::kNic, {now, false, "the loss of network port " + port});
  });
  VisitFresh(interfaces_, snapshot, [&](const SeriesInfo& info, double value) {
    const std::string name = info.attributes.Text("network.interface.name");
    if (IsCard(name) && WentDown("interface " + name, value == 1))
      Note(of_host_, Cause::kNic, {now, false, "the loss of network interface " + name});
  });
}

void HintFeed::ReadHost(const Snapshot& snapshot, Instant now) {
  VisitFresh(pressure_, snapshot, [&](const SeriesInfo& info, double value) {
    if (info.attributes.Text("host.pressure.resource") != "cpu" ||
        info.attributes.Text("host.pressure.level") != "some")
      return;
    Counter& counter = counters_["pressure"];
    if (counter.since.boot_ns == 0) counter = {value, value, now};
    if (now - counter.since < kPressureWindow) return;
    // A tick may be a little older than this run.
    const double share =
        std::min((value - counter.first) * 1e9 / static_cast<double>((now - counter.since).count()), 1.0);
    counter = {value, value, now};
    if (share > limits::kMostCpuPressure)
      Note(of_host_, Cause::kHostCpu,
           {now, true, "programs wait for a processor " + Rounded(share * 100) + " % of the time"});
  });
  VisitFresh(oom_kills_, snapshot, [&](const SeriesInfo&, double value) {
    const double ended = GrowthOf("oom", value);
    if (ended == 0) return;
    Note(of_host_, Cause::kHostMemory,
         {now, false,
          "the end of " + Rounded(ended) + (ended < 1.5 ? " program" : " programs") + " for lack of memory"});
  });
}

void HintFeed::AddTo(collectives::Batch& batch, Instant now) const {
  const auto add = [&](const std::string& gpu, const FoundByCause& found) {
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i].at.boot_ns == 0 || now - found[i].at > kHintKept) continue;
      collectives::Hint& hint = batch.hints.emplace_back();
      hint.host = host_;
      hint.gpu = gpu;
      hint.cause = static_cast<Cause>(i % collectives::kCauses);
      hint.lasts = found[i].lasts;
      hint.age_ns = std::max<int64_t>((now - found[i].at).count(), 0);
      hint.what = found[i].what;
      CutTo(hint.what, kMostHintText);
    }
  };
  add({}, of_host_);
  std::vector<std::string_view> done;
  for (const collectives::Process& process : batch.processes) {
    if (process.host != host_ || process.gpu.empty() || std::ranges::find(done, process.gpu) != done.end())
      continue;
    done.push_back(process.gpu);
    const auto address = ParsePciAddress(process.gpu);
    const std::string pci = address ? address->ToString() : "";
    for (const auto& [uuid, gpu] : gpus_) {
      if (uuid == process.gpu || (!pci.empty() && pci == gpu.pci)) add(process.gpu, gpu.found);
    }
  }
}

}  // namespace gpulens
