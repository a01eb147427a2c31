#include "analyzers/fleet_health/gpu_inputs.h"

#include <algorithm>

#include "catalog/gpu/errors.h"
#include "catalog/gpu/health.h"
#include "catalog/gpu/identity.h"
#include "catalog/gpu/readings.h"

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
                           kSpare = "gpu.row_remap.availability";

// Families that collectors make come first: their entities are the GPUs.
constexpr InputRow kRows[] = {
    {&kGpuState, GpuInput::kStateOk, kState, "ok"},
    {&kGpuState, GpuInput::kStateHung, kState, "hung"},
    {&kGpuState, GpuInput::kStateNoPermission, kState, "no_permission"},
    {&kGpuInfo, GpuInput::kVendorNvidia, "gpu.vendor", "nvidia"},
    {&kGpuTemperature, GpuInput::kEdge, kSensor, "edge"},
    {&kGpuTemperature, GpuInput::kHotspot, kSensor, "hotspot"},
    {&kGpuUtilization, GpuInput::kBusy},
    {&kGpuClockIdle, GpuInput::kClockIdle},
    {&kGpuPcieLinkGenCurrent, GpuInput::kLinkGen},
    {&kGpuPcieLinkGenMax, GpuInput::kLinkGenMax},
    {&kGpuPcieLinkWidthCurrent, GpuInput::kLinkWidth},
    {&kGpuPcieLinkWidthMax, GpuInput::kLinkWidthMax},
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
    {&kGpuEccSramThresholdExceeded, GpuInput::kSramExceeded},
    {&kGpuMemoryUnrepairable, GpuInput::kUnrepairable},
    {&kGpuXidErrors, GpuInput::kXids},
};

std::string_view TextOf(const AttributeSet& attributes, std::string_view key) {
  AttributeSet::Value value = attributes.Find(key, std::string_view());
  const auto* text = std::get_if<std::string_view>(&value);
  return text ? *text : std::string_view();
}

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
    if (!gpu.here) gpu.entity = info.entity;
    return &gpu;
  }
  if (gpus_.size() >= kMaxGpus) return nullptr;
  gpus_.push_back({KeyOf(*info.entity), info.entity, {}, false});
  owners_.emplace_back();
  return &gpus_.back();
}

void GpuInputs::Take(const Family& family, const SeriesInfo& info, double value, const Frame& frame) {
  GpuNow* gpu = Find(info);
  if (!gpu) return;
  gpu->here = true;
  Owners& owners = owners_[static_cast<size_t>(gpu - gpus_.data())];
  for (size_t i = family.first; i < family.first + family.count; ++i) {
    const InputRow& row = kRows[i];
    if (!Fits(row, info.attributes)) continue;
    size_t at = static_cast<size_t>(row.input);
    std::optional<double>& kept = gpu->values[at];
    if (!kept) {
      kept = value;
      owners.of[at] = &frame;
    } else if (row.add && owners.of[at] == &frame) {
      *kept += value;
    }
  }
}

void GpuInputs::Gather(const Snapshot& snapshot) {
  for (GpuNow& gpu : gpus_) {
    gpu.values = {};
    gpu.here = false;
  }
  for (Family& family : families_) {
    family.finder.ForEach(snapshot,
                          [&](const SeriesInfo& info, double value, const Frame& frame, uint32_t slot) {
                            if (frame.quality[slot] == Quality::kOk) Take(family, info, value, frame);
                          });
  }
}

void GpuInputs::Forget(size_t index) {
  gpus_.erase(gpus_.begin() + static_cast<std::ptrdiff_t>(index));
  owners_.erase(owners_.begin() + static_cast<std::ptrdiff_t>(index));
}

}  // namespace gpulens
