#include <algorithm>
#include <optional>
#include <utility>

#include "base/parse.h"
#include "base/result.h"
#include "base/yaml/yaml.h"
#include "sources/nvml/nvml_slices.h"
#include "sources/nvml/simulated/fake_profile.h"

namespace gpulens::nvml {
namespace {

constexpr std::string_view kWhere = "profile line ";

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

// The GPU must be named and there.
void ReadWhen(YamlFields& row, size_t gpus, FakeWhen& out) {
  row.Number("gpu", out.gpu, 0, static_cast<int64_t>(gpus) - 1);
  row.Number("from", out.from, 0, 1e9).Number("to", out.to, 0, 1e9);
  if (out.gpu < 0) row.FailAt(row.map(), "gpu is missing");
}

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

Status ReadMig(const YamlNode& node, size_t gpus, FakeParts& out) {
  YamlFields row(node, kWhere);
  FakeMig mig;
  ReadWhen(row, gpus, mig.when);
  row.String("profile", mig.profile).Number("instance", mig.instance, 0, 255);
  row.Number("compute", mig.compute, 0, 255).Number("load", mig.load, 0, 1);
  RETURN_IF_ERROR(row.Done());
  if (!ReadProfileName(mig)) row.FailAt(node, "profile must be like 3g.40gb");
  if (!node.Find("instance")) row.FailAt(node, "instance is missing");
  mig.slot = static_cast<unsigned>(std::count_if(
      out.mig.begin(), out.mig.end(), [&](const FakeMig& other) { return other.when.gpu == mig.when.gpu; }));
  if (mig.slot >= kMaxFakeMig) row.FailAt(node, "too many instances on one GPU");
  out.mig.push_back(std::move(mig));
  return row.status();
}

Status ReadVgpu(const YamlNode& node, size_t gpus, FakeParts& out) {
  YamlFields row(node, kWhere);
  FakeVgpu vgpu;
  ReadWhen(row, gpus, vgpu.when);
  row.Number("id", vgpu.id, 1, 4'294'967'294).String("type", vgpu.type).String("vm", vgpu.vm);
  row.String("driver", vgpu.driver).Bytes("memory", vgpu.bytes).Number("sm", vgpu.sm, 0, 1000);
  row.Number("memory_use", vgpu.memory, 0, 1000);
  std::string licensed = "true";
  row.String("licensed", licensed);
  vgpu.licensed = licensed == "true";
  if (vgpu.id == 0) row.FailAt(node, "id is missing");
  out.vgpus.push_back(std::move(vgpu));
  return row.Done();
}

Status ReadEvent(const YamlNode& node, bool xid, size_t gpus, FakeParts& out) {
  YamlFields row(node, kWhere);
  FakeEvent event;
  FakeWhen when;
  ReadWhen(row, gpus, when);
  row.Number("at", event.at, 0, 1e9).Number("instance", event.instance, 0, 255);
  event.gpu = static_cast<unsigned>(std::max(when.gpu, 0));
  if (xid) {
    event.type = kEventXid;
    row.Number("code", event.data, 1, 4095);
    if (event.data == 0) row.FailAt(node, "code is missing");
  } else {
    std::string type;
    row.String("type", type).Number("data", event.data, 0, 1'000'000'000'000'000);
    auto found = std::find_if(std::begin(kEventTypes), std::end(kEventTypes),
                              [&](const auto& known) { return known.first == type; });
    if (found == std::end(kEventTypes)) row.FailAt(node, "type has an unknown value '" + type + "'");
    else event.type = found->second;
  }
  out.events.push_back(event);
  return row.Done();
}

Status ReadBoard(const YamlNode& node, size_t gpus, FakeParts& out) {
  std::optional<unsigned> board = ParseInt<unsigned>(node.text);
  if (!board || *board >= 64 || out.boards.size() >= gpus) {
    return YamlError(kWhere, node.mark.line, "boards has one number per GPU");
  }
  out.boards.push_back(*board);
  return Ok();
}

}  // namespace

Status ReadFakeParts(YamlFields& root, size_t gpus, FakeParts& out) {
  using Node = const YamlNode&;
  if (const YamlNode* mig = root.Child("mig"); mig && mig->kind == YamlNode::kList) {
    RETURN_IF_ERROR(root.List("mig", [&](Node node) { return ReadMig(node, gpus, out); }));
  }
  RETURN_IF_ERROR(root.List("vgpus", [&](Node node) { return ReadVgpu(node, gpus, out); }));
  RETURN_IF_ERROR(root.List("xids", [&](Node node) { return ReadEvent(node, true, gpus, out); }));
  RETURN_IF_ERROR(root.List("boards", [&](Node node) { return ReadBoard(node, gpus, out); }));
  return root.List("events", [&](Node node) { return ReadEvent(node, false, gpus, out); });
}

}  // namespace gpulens::nvml
