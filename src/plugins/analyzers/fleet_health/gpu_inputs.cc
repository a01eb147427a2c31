#include "plugins/analyzers/fleet_health/gpu_inputs.h"

#include <algorithm>

#include "catalog/gpu.h"

namespace gpulens {
namespace {

// Series of a family with these attributes feed the input; rows of one family stand together.
struct InputRow {
  const MetricDesc* metric;
  GpuInput input;
  std::string_view key = {}, value = {};
  std::string_view key2 = {}, value2 = {};
  bool add = false;  // several series are one number: blocks of a memory
};

constexpr std::string_view kState = "gpu.state", kSensor = "gpu.temperature.sensor",
                           kCount = "gpu.ecc.count_type", kType = "gpu.ecc.error_type",
                           kSpare = "gpu.row_remap.availability", kFabric = "gpu.fabric.state",
                           kCause = "gpu.throttle.cause", kLimit = "gpu.temperature.limit_type",
                           kLinkState = "gpu.interconnect.state", kAction = "gpu.xid.action",
                           kLinkError = "gpu.interconnect.error_type";

// Families that collectors make come first: their entities are the GPUs.
constexpr InputRow kRows[] = {
    {&kGpuState, GpuInput::kStateOk, kState, "ok"},
    {&kGpuState, GpuInput::kStateHung, kState, "hung"},
    {&kGpuState, GpuInput::kStateReset, kState, "reset_required"},
    {&kGpuState, GpuInput::kStateNoPermission, kState, "no_permission"},
    {&kGpuState, GpuInput::kStateFailed, kState, "failed"},
    {&kGpuState, GpuInput::kStateLeftOut, kState, "left_out"},
    {&kGpuState, GpuInput::kStateUnread, kState, "unread"},
    {&kGpuInfo, GpuInput::kVendorNvidia, "gpu.vendor", "nvidia"},
    {&kGpuInfo, GpuInput::kVendorAmd, "gpu.vendor", "amd"},
    {&kGpuTemperature, GpuInput::kEdge, kSensor, "edge"},
    {&kGpuTemperature, GpuInput::kHotspot, kSensor, "hotspot"},
    {&kGpuTemperature, GpuInput::kMemoryHeat, kSensor, "memory"},
    {&kGpuTemperatureLimit, GpuInput::kEdgeLimit, kSensor, "edge", kLimit, "slowdown"},
    {&kGpuTemperatureLimit, GpuInput::kHotspotLimit, kSensor, "hotspot", kLimit, "slowdown"},
    {&kGpuTemperatureLimit, GpuInput::kMemoryHeatLimit, kSensor, "memory", kLimit, "slowdown"},
    {&kGpuTemperatureLimit, GpuInput::kMemoryHeatLimit, kSensor, "memory", kLimit, "max_operating"},
    {&kGpuTemperatureMargin, GpuInput::kMargin},
    {&kGpuTemperatureMarginLimit, GpuInput::kMarginLimit, kSensor, "edge", kLimit, "slowdown"},
    {&kGpuPowerDraw, GpuInput::kPower},
    {&kGpuPowerInstant, GpuInput::kPowerInstant},
    {&kGpuMemoryUsed, GpuInput::kMemoryUsed},
    {&kGpuClockFrequency, GpuInput::kClock, "gpu.clock.type", "graphics"},
    {&kGpuClockFrequency, GpuInput::kClock, "gpu.clock.type", "memory"},
    {&kGpuUtilization, GpuInput::kBusy},
    {&kGpuClockIdle, GpuInput::kClockIdle},
    {&kGpuPcieLinkGenCurrent, GpuInput::kLinkGen},
    {&kGpuPcieLinkGenMax, GpuInput::kLinkGenMax},
    {&kGpuPcieLinkWidthCurrent, GpuInput::kLinkWidth},
    {&kGpuPcieLinkWidthMax, GpuInput::kLinkWidthMax},
    {&kGpuPcieReplayCount, GpuInput::kReplays},
    {&kGpuEccErrors, GpuInput::kCorrected, kCount, "volatile", kType, "correctable", true},
    {&kGpuEccErrors, GpuInput::kUncorrected, kCount, "volatile", kType, "uncorrectable", true},
    {&kGpuRowRemapBanks, GpuInput::kBanksMax, kSpare, "max"},
    {&kGpuRowRemapBanks, GpuInput::kBanksHigh, kSpare, "high"},
    {&kGpuRowRemapBanks, GpuInput::kBanksPartial, kSpare, "partial"},
    {&kGpuRowRemapBanks, GpuInput::kBanksLow, kSpare, "low"},
    {&kGpuRowRemapBanks, GpuInput::kBanksNone, kSpare, "none"},
    {&kGpuRowRemapFailed, GpuInput::kRemapFailed},
    {&kGpuRowRemapResetPending, GpuInput::kRemapPending},
    {&kGpuRecoveryAction, GpuInput::kRecoveryNone, "gpu.recovery.action", "none"},
    {&kGpuFabricState, GpuInput::kFabricNotStarted, kFabric, "not_started"},
    {&kGpuFabricState, GpuInput::kFabricInProgress, kFabric, "in_progress"},
    {&kGpuFabricState, GpuInput::kFabricCompleted, kFabric, "completed"},
    {&kGpuFabricStatus, GpuInput::kFabricStatus},
    {.metric = &kGpuFabricDegraded, .input = GpuInput::kFabricDegraded, .add = true},
    {&kGpuInforomValid, GpuInput::kInforomValid},
    {&kGpuThrottleReason, GpuInput::kPowerBrake, kCause, "power_brake"},
    {&kGpuThrottleReason, GpuInput::kThermalSlowdown, kCause, "temp_hardware"},
    {&kGpuInterconnectLinks, GpuInput::kLinksActive, kLinkState, "active", {}, {}, true},
    {&kGpuInterconnectErrors, GpuInput::kLinkErrors, kLinkError, "replay", {}, {}, true},
    {&kGpuInterconnectErrors, GpuInput::kLinkErrors, kLinkError, "recovery", {}, {}, true},
    {&kGpuInterconnectErrors, GpuInput::kLinkErrors, kLinkError, "malformed", {}, {}, true},
    {&kGpuInterconnectErrors, GpuInput::kLinkErrors, kLinkError, "overrun", {}, {}, true},
    {&kGpuInterconnectErrors, GpuInput::kLinkErrors, kLinkError, "remote", {}, {}, true},
    {&kGpuInterconnectErrors, GpuInput::kLinkErrors, kLinkError, "integrity", {}, {}, true},
    {&kGpuInterconnectErrors, GpuInput::kLinkErrors, kLinkError, "discard", {}, {}, true},
    {&kGpuEccSramThresholdExceeded, GpuInput::kSramExceeded},
    {&kGpuMemoryUnrepairable, GpuInput::kUnrepairable},
    {&kGpuXidErrors, GpuInput::kXids},
    {&kGpuXidRecent, GpuInput::kXidsReset, kAction, "reset_gpu", {}, {}, true},
    {&kGpuXidRecent, GpuInput::kXidsReset, kAction, "reboot", {}, {}, true},
    {&kGpuXidRecent, GpuInput::kXidsDiagnose, kAction, "drain", {}, {}, true},
    {&kGpuXidRecent, GpuInput::kXidsDiagnose, kAction, "contact_vendor", {}, {}, true},
    {&kGpuXidRecent, GpuInput::kXidsDiagnose, kAction, "check_mechanicals", {}, {}, true},
};

bool Fits(const InputRow& row, const AttributeSet& attributes) {
  return (row.key.empty() || TextOf(attributes, row.key) == row.value) &&
         (row.key2.empty() || TextOf(attributes, row.key2) == row.value2);
}

std::string KeyOf(const Entity& gpu) {
  std::string key = gpu.attributes.Text("gpu.uuid");
  if (key.empty()) key = gpu.attributes.Text("gpu.model") + "/" + gpu.attributes.Text("gpu.index");
  std::replace(key.begin(), key.end(), ' ', '_');  // A blank parts words in the state file.
  return key;
}

// Two entities of the same GPU, perhaps of two collectors.
bool SameGpu(const Entity& a, const Entity& b) {
  std::string_view uuid = TextOf(a.attributes, "gpu.uuid");
  if (!uuid.empty()) return uuid == TextOf(b.attributes, "gpu.uuid");
  return a.attributes == b.attributes;
}

}  // namespace

std::string_view TextOf(const AttributeSet& attributes, std::string_view key) {
  AttributeSet::Value value = attributes.Find(key, std::string_view());
  const auto* text = std::get_if<std::string_view>(&value);
  return text ? *text : std::string_view();
}

GpuInputs::GpuInputs() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (i == 0 || kRows[i].metric != kRows[i - 1].metric) {
      families_.push_back({SeriesFinder(*kRows[i].metric), i, 0});
    }
    ++families_.back().count;
  }
}

GpuNow* GpuInputs::Find(const SeriesInfo& info) {
  if (!info.entity || info.entity->type != "gpu") return nullptr;
  for (GpuNow& gpu : gpus_) {
    if (gpu.entity == info.entity) return &gpu;
  }
  for (GpuNow& gpu : gpus_) {
    if (!SameGpu(*gpu.entity, *info.entity)) continue;
    // The first of a tick says what the GPU is known by.
    if (!gpu.here) {
      gpu.entity = info.entity;
      gpu.model = info.entity->attributes.Text("gpu.model");
      gpu.index = info.entity->attributes.Text("gpu.index");
    }
    return &gpu;
  }
  if (gpus_.size() >= kMaxGpus) return nullptr;
  GpuNow& added = gpus_.emplace_back();
  added.key = KeyOf(*info.entity);
  added.entity = info.entity;
  added.model = info.entity->attributes.Text("gpu.model");
  added.index = info.entity->attributes.Text("gpu.index");
  added.nameless = added.model.empty() && TextOf(info.entity->attributes, "gpu.uuid").empty();
  owners_.emplace_back();
  return &gpus_.back();
}

void GpuInputs::Take(const Family& family, const SeriesInfo& info, double value, const Frame& frame) {
  GpuNow* gpu = Find(info);
  if (!gpu) return;
  // Counters of events outlive the GPU that they are about.
  const MetricDesc* metric = kRows[family.first].metric;
  gpu->here = gpu->here || (metric != &kGpuXidErrors && metric != &kGpuXidRecent);
  Owners& owners = owners_[static_cast<size_t>(gpu - gpus_.data())];
  const Owner owner{&frame, info.entity.get()};
  for (size_t i = family.first; i < family.first + family.count; ++i) {
    const InputRow& row = kRows[i];
    if (!Fits(row, info.attributes)) continue;
    size_t at = static_cast<size_t>(row.input);
    std::optional<double>& kept = gpu->values[at];
    if (!kept) {
      kept = value;
      owners.of[at] = owner;
    } else if (row.input == GpuInput::kStateOk && value == 1 && *kept == 0) {
      // A GPU that was given another number may have two entities for a while: the one that answers counts.
      kept = value;
      gpu->entity = info.entity;
      gpu->index = info.entity->attributes.Text("gpu.index");
    } else if (row.add && owners.of[at] == owner) {
      *kept += value;
    }
  }
}

void GpuInputs::Gather(const Snapshot& snapshot) {
  for (GpuNow& gpu : gpus_) {
    gpu.values = {};
    gpu.here = false;
    gpu.driver_failures = 0;
  }
  for (Family& family : families_) {
    family.finder.ForEach(snapshot,
                          [&](const SeriesInfo& info, double value, const Frame& frame, uint32_t slot) {
                            if (frame.quality[slot] == Quality::kOk) Take(family, info, value, frame);
                          });
  }
  SettleGpus();
  failures_.Read(snapshot);
  for (GpuNow& gpu : gpus_) {
    if (gpu[GpuInput::kVendorNvidia]) gpu.driver_failures = failures_.Recent("nvml");
    else if (gpu[GpuInput::kVendorAmd]) gpu.driver_failures = failures_.Recent("amdsmi");
  }
}

void GpuInputs::SettleGpus() {
  for (GpuNow& gpu : gpus_) {
    if (gpu[GpuInput::kStateOk] == 1) {
      for (GpuInput other : {GpuInput::kStateHung, GpuInput::kStateReset, GpuInput::kStateNoPermission,
                             GpuInput::kStateFailed, GpuInput::kStateLeftOut, GpuInput::kStateUnread})
        gpu.values[static_cast<size_t>(other)] = 0;
    }
    auto split = gpu.entity->attributes.Find("gpu.mig.enabled", false);
    const bool* is_split = std::get_if<bool>(&split);
    gpu.mig = is_split && *is_split;
    gpu.links_of_its_kind = 0;
    gpu.others_answer = false;
    for (const GpuNow& other : gpus_) {
      gpu.others_answer = gpu.others_answer || (&other != &gpu && other[GpuInput::kStateOk] == 1);
      if (other.here && other.model == gpu.model)
        gpu.links_of_its_kind = std::max(gpu.links_of_its_kind, other[GpuInput::kLinksActive].value_or(0));
    }
  }
}

void GpuInputs::Forget(size_t index) {
  gpus_.erase(gpus_.begin() + static_cast<std::ptrdiff_t>(index));
  owners_.erase(owners_.begin() + static_cast<std::ptrdiff_t>(index));
}

}  // namespace gpulens
