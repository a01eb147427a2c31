#include "plugins/analyzers/fleet_health/gpu_inputs.h"

#include <algorithm>

#include "catalog/gpu.h"
#include "catalog/self.h"

namespace gpulens {
namespace {

// Series of a metric with these attributes feed the input.
struct InputRow {
  const MetricDesc* metric;
  GpuInput input;
  std::string_view key = {}, value = {};
  std::string_view key2 = {}, value2 = {};
  bool add = false;  // several series are added up: blocks of a memory
};

constexpr std::string_view kState = "gpu.state", kSensor = "gpu.temperature.sensor",
                           kCount = "gpu.ecc.count_type", kType = "gpu.ecc.error_type",
                           kSpare = "gpu.row_remap.availability", kFabric = "gpu.fabric.state",
                           kCause = "gpu.throttle.cause", kLimit = "gpu.temperature.limit_type",
                           kLinkState = "gpu.interconnect.state", kAction = "gpu.xid.action",
                           kLinkError = "gpu.interconnect.error_type";

constexpr InputRow kRows[] = {
#define INPUT(id, metric, ...) {&metric, GpuInput::id __VA_OPT__(, ) __VA_ARGS__},
#define MORE INPUT
#include "plugins/analyzers/fleet_health/gpu_inputs.def"
#undef INPUT
#undef MORE
};

bool Fits(const InputRow& row, const AttributeSet& attributes) {
  return (row.key.empty() || TextOf(attributes, row.key) == row.value) &&
         (row.key2.empty() || TextOf(attributes, row.key2) == row.value2);
}

std::string KeyOf(const Entity& gpu) {
  std::string key = gpu.attributes.Text("gpu.uuid");
  if (key.empty()) key = gpu.attributes.Text("gpu.model") + "/" + gpu.attributes.Text("gpu.index");
  std::ranges::replace(key, ' ', '_');  // Blanks separate words in the state file.
  return key;
}

// Two entities of the same GPU, perhaps of two collectors.
bool SameGpu(const Entity& a, const Entity& b) {
  std::string_view uuid = TextOf(a.attributes, "gpu.uuid");
  if (!uuid.empty()) return uuid == TextOf(b.attributes, "gpu.uuid");
  return a.attributes == b.attributes;
}

// Unplanned reasons of a start of a reader process.
constexpr std::string_view kUnplanned[] = {"crash", "exited", "hang", "killed", "protocol"};

}  // namespace

std::string_view TextOf(const AttributeSet& attributes, std::string_view key) {
  AttributeSet::Value value = attributes.Find(key, std::string_view());
  const auto* text = std::get_if<std::string_view>(&value);
  return text ? *text : std::string_view();
}

GpuInputs::GpuInputs() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (i == 0 || kRows[i].metric != kRows[i - 1].metric)
      families_.push_back({SeriesFinder(*kRows[i].metric), i, 0});
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
    // The first entity of a tick counts.
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
      // After a change of its index a GPU may have two entities for a while: the one that answers counts.
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
  DeriveValues();
  failures_.Read(snapshot);
  for (GpuNow& gpu : gpus_) {
    if (gpu[GpuInput::kVendorNvidia]) gpu.driver_failures = failures_.Recent("nvml");
    else if (gpu[GpuInput::kVendorAmd]) gpu.driver_failures = failures_.Recent("amdsmi");
  }
}

void GpuInputs::DeriveValues() {
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

void GpuInputs::Remove(size_t index) {
  gpus_.erase(gpus_.begin() + static_cast<std::ptrdiff_t>(index));
  owners_.erase(owners_.begin() + static_cast<std::ptrdiff_t>(index));
}

DriverFailures::DriverFailures() : starts_(kSelfDriverStarts) {}

DriverFailures::Driver& DriverFailures::Find(std::string_view name) {
  auto at = std::ranges::find_if(drivers_, [&](const Driver& driver) { return driver.name == name; });
  if (at != drivers_.end()) return *at;
  drivers_.push_back({.name = std::string(name)});
  return drivers_.back();
}

void DriverFailures::Read(const Snapshot& snapshot) {
  for (Driver& driver : drivers_) {
    driver.total = 0;
    driver.seen = false;
  }
  starts_.ForEach(snapshot, [&](const SeriesInfo& info, double value, const Frame&, uint32_t) {
    Driver& driver = Find(TextOf(info.attributes, "reader"));
    driver.seen = true;
    const std::string_view reason = TextOf(info.attributes, "reason");
    if (std::ranges::find(kUnplanned, reason) != std::end(kUnplanned)) driver.total += value;
  });
  for (Driver& driver : drivers_) {
    if (driver.seen) driver.recent.Read(snapshot.closed_at.boot_ns, driver.total);
  }
}

double DriverFailures::Recent(std::string_view name) const noexcept {
  for (const Driver& driver : drivers_) {
    if (driver.name == name) return driver.recent.grown();
  }
  return 0;
}

}  // namespace gpulens
