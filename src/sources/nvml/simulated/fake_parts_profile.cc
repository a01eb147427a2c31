#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include "base/parse.h"
#include "base/result.h"
#include "sources/nvml/nvml_slices.h"
#include "sources/nvml/simulated/fake_profile.h"

namespace gpulens::nvml {
namespace {

constexpr size_t kMaxRows = 256;

constexpr std::pair<std::string_view, uint64_t> kEventTypes[] = {
    {"ecc_corrected", kEventEccCorrected},
    {"ecc_uncorrected", kEventEccUncorrected},
    {"performance_state", kEventPerformanceState},
    {"xid", kEventXid},
    {"clock", kEventClock},
    {"power_source", kEventPowerSource},
    {"mig_config", kEventMigConfig},
    {"ecc_storm", kEventEccStorm},
    {"dram_retired", kEventDramRetired},
    {"dram_retirement_failed", kEventDramRetirementFailed},
    {"poison_contained", kEventPoisonContained},
    {"poison_uncontained", kEventPoisonUncontained},
    {"gpu_unavailable", kEventGpuUnavailable},
    {"recovery_action", kEventRecoveryAction},
};

// One row of a list. The first failure is kept.
class Row {
 public:
  Row(const YAML::Node& node, std::initializer_list<std::string_view> known) : node_(node) {
    if (!node.IsMap()) Fail(node, "expected a map");
    else CheckKeys(known);
  }

  Status status() const { return status_; }
  void CheckKeys(std::initializer_list<std::string_view> known) {
    for (const auto& entry : node_) {
      const std::string& key = entry.first.Scalar();
      if (std::find(known.begin(), known.end(), key) == known.end())
        return Fail(entry.first, "unknown key '" + key + "'");
    }
  }

  void Fail(const YAML::Node& at, const std::string& what) {
    if (status_.ok())
      status_ = {Code::kInvalidArgument, "profile line " + std::to_string(at.Mark().line + 1) + ": " + what};
  }
  bool Has(const char* key) const { return status_.ok() && node_[key]; }

  template <class T>
  void Number(const char* key, T& out, double low, double high) {
    std::optional<std::string> text = Text(key);
    if (!text) return;
    std::optional<double> value = ParseDouble(*text);
    if (!value || !(*value >= low && *value <= high))
      return Fail(node_[key], std::string(key) + " is not a number in range");
    out = static_cast<T>(*value);
  }
  void Bytes(const char* key, double& out) {
    std::optional<std::string> text = Text(key);
    if (!text) return;
    std::string_view digits = *text;
    double unit = 1;
    for (auto [suffix, size] : {std::pair<std::string_view, double>{"GiB", 1 << 30}, {"MiB", 1 << 20}}) {
      if (!digits.ends_with(suffix)) continue;
      digits.remove_suffix(suffix.size());
      unit = size;
    }
    std::optional<double> value = ParseDouble(digits);
    if (!value || !(*value >= 0 && *value < 1e15))
      return Fail(node_[key], std::string(key) + " is not a size");
    out = *value * unit;
  }
  void String(const char* key, std::string& out) {
    if (std::optional<std::string> text = Text(key)) out = *text;
  }
  // The GPU must be named and there.
  void When(size_t gpus, FakeWhen& out) {
    Number("gpu", out.gpu, 0, static_cast<double>(gpus) - 1);
    Number("from", out.from, 0, 1e9);
    Number("to", out.to, 0, 1e9);
    if (out.gpu < 0) Fail(node_, "gpu is missing");
  }

 private:
  std::optional<std::string> Text(const char* key) {
    if (!Has(key)) return std::nullopt;
    YAML::Node value = node_[key];
    if (value.IsScalar()) return value.Scalar();
    Fail(value, std::string(key) + " must be a single value");
    return std::nullopt;
  }

  const YAML::Node& node_;
  Status status_;
};

// "3g.40gb", "1c.3g.40gb", "1g.10gb+me".
bool ReadProfileName(FakeMig& mig) {
  std::string_view rest = mig.profile;
  std::string_view part = TakeUntil(rest, '.');
  std::optional<unsigned> compute;
  if (part.ends_with('c')) {
    compute = ParseInt<unsigned>(part.substr(0, part.size() - 1));
    if (!compute) return false;
    part = TakeUntil(rest, '.');
  }
  std::string_view memory = TakeUntil(rest, '+');
  if (!part.ends_with('g') || !memory.ends_with("gb")) return false;
  std::optional<unsigned> slices = ParseInt<unsigned>(part.substr(0, part.size() - 1));
  std::optional<unsigned> gigabytes = ParseInt<unsigned>(memory.substr(0, memory.size() - 2));
  if (!slices || !gigabytes || *slices == 0 || *slices > 7 || *gigabytes == 0 || *gigabytes > 512)
    return false;
  mig.slices = *slices;
  mig.compute_slices = compute.value_or(*slices);
  mig.gigabytes = *gigabytes;
  return true;
}

Status ReadMig(const YAML::Node& node, size_t gpus, FakeParts& out) {
  Row row(node, {"gpu", "from", "to", "profile", "instance", "compute", "load"});
  FakeMig mig;
  row.When(gpus, mig.when);
  row.String("profile", mig.profile);
  row.Number("instance", mig.instance, 0, 255);
  row.Number("compute", mig.compute, 0, 255);
  row.Number("load", mig.load, 0, 1);
  RETURN_IF_ERROR(row.status());
  if (!ReadProfileName(mig)) row.Fail(node, "profile must be like 3g.40gb");
  if (!row.Has("instance")) row.Fail(node, "instance is missing");
  mig.slot = static_cast<unsigned>(std::count_if(
      out.mig.begin(), out.mig.end(), [&](const FakeMig& other) { return other.when.gpu == mig.when.gpu; }));
  if (mig.slot >= kMaxFakeMig) row.Fail(node, "too many instances on one GPU");
  out.mig.push_back(std::move(mig));
  return row.status();
}

Status ReadVgpu(const YAML::Node& node, size_t gpus, FakeParts& out) {
  Row row(node,
          {"gpu", "from", "to", "id", "type", "vm", "driver", "memory", "sm", "memory_use", "licensed"});
  FakeVgpu vgpu;
  row.When(gpus, vgpu.when);
  row.Number("id", vgpu.id, 1, 4294967294.0);
  row.String("type", vgpu.type);
  row.String("vm", vgpu.vm);
  row.String("driver", vgpu.driver);
  row.Bytes("memory", vgpu.bytes);
  row.Number("sm", vgpu.sm, 0, 1000);
  row.Number("memory_use", vgpu.memory, 0, 1000);
  std::string licensed = "true";
  row.String("licensed", licensed);
  vgpu.licensed = licensed == "true";
  if (vgpu.id == 0) row.Fail(node, "id is missing");
  out.vgpus.push_back(std::move(vgpu));
  return row.status();
}

Status ReadEvent(const YAML::Node& node, bool xid, size_t gpus, FakeParts& out) {
  Row row = xid ? Row(node, {"gpu", "code", "at", "instance"})
                : Row(node, {"gpu", "type", "data", "at", "instance"});
  FakeEvent event;
  FakeWhen when;
  row.When(gpus, when);
  row.Number("at", event.at, 0, 1e9);
  row.Number("instance", event.instance, 0, 255);
  event.gpu = static_cast<unsigned>(std::max(when.gpu, 0));
  if (xid) {
    event.type = kEventXid;
    row.Number("code", event.data, 1, 4095);
    if (event.data == 0) row.Fail(node, "code is missing");
  } else {
    std::string type;
    row.String("type", type);
    row.Number("data", event.data, 0, 1e15);
    auto found = std::find_if(std::begin(kEventTypes), std::end(kEventTypes),
                              [&](const auto& known) { return known.first == type; });
    if (found == std::end(kEventTypes)) row.Fail(node, "type has an unknown value '" + type + "'");
    else event.type = found->second;
  }
  out.events.push_back(event);
  return row.status();
}

template <class Read>
Status ReadRows(const YAML::Node& root, const char* key, Read read) {
  YAML::Node list = root[key];
  if (!list) return Ok();
  if (!list.IsSequence() || list.size() > kMaxRows) {
    return {Code::kInvalidArgument,
            "profile line " + std::to_string(list.Mark().line + 1) + ": " + key + " must be a short list"};
  }
  for (const YAML::Node& node : list) RETURN_IF_ERROR(read(node));
  return Ok();
}

Status ReadBoard(const YAML::Node& node, size_t gpus, FakeParts& out) {
  std::optional<unsigned> board = node.IsScalar() ? ParseInt<unsigned>(node.Scalar()) : std::nullopt;
  if (!board || *board >= 64 || out.boards.size() >= gpus) {
    return {Code::kInvalidArgument,
            "profile line " + std::to_string(node.Mark().line + 1) + ": boards has one number per GPU"};
  }
  out.boards.push_back(*board);
  return Ok();
}

}  // namespace

Status ReadFakeParts(const YAML::Node& root, size_t gpus, FakeParts& out) {
  if (root["mig"] && root["mig"].IsSequence()) {
    RETURN_IF_ERROR(ReadRows(root, "mig", [&](const YAML::Node& node) { return ReadMig(node, gpus, out); }));
  }
  RETURN_IF_ERROR(ReadRows(root, "vgpus", [&](const YAML::Node& node) { return ReadVgpu(node, gpus, out); }));
  RETURN_IF_ERROR(
      ReadRows(root, "xids", [&](const YAML::Node& node) { return ReadEvent(node, true, gpus, out); }));
  RETURN_IF_ERROR(
      ReadRows(root, "boards", [&](const YAML::Node& node) { return ReadBoard(node, gpus, out); }));
  return ReadRows(root, "events", [&](const YAML::Node& node) { return ReadEvent(node, false, gpus, out); });
}

}  // namespace gpulens::nvml
