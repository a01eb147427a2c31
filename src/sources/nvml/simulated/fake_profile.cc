#include "sources/nvml/simulated/fake_profile.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <optional>
#include <utility>

#include "base/parse.h"
#include "base/result.h"
#include "base/yaml/yaml.h"
#include "sources/nvml/nvml_slices.h"
#include "sources/nvml/recording/recording.h"
#include "sources/nvml/simulated/replay.h"

namespace gpulens::nvml {
namespace {

// By line: names; architecture, compute capability, PCI ids, memory in MiB (total, reserved, BAR1), bus
// width; power in mW (idle, limit, lowest limit), clocks in MHz (idle, max, memory, video), temperatures
// (idle, busy); PCIe (generation, width), NVLink (links, version, MB/s), fans, idle state, MIG, coherent,
// consumer.
// clang-format off
constexpr FakeModel kModels[] = {
    {"A100", "NVIDIA A100-SXM4-40GB", "92.00.45.00.03", "G506.0200.00.04",
     kAmpere, 8, 0, 0x20B010DE, 0x134710DE, 40960, 583, 65536, 5120,
     52000, 400000, 100000, 210, 1410, 1215, 1290, 31, 66,
     4, 16, 12, 3, 25781, 0, 0, true, false},
    {"H100", "NVIDIA H100 80GB HBM3", "96.00.74.00.09", "G520.0200.00.05",
     kHopper, 9, 0, 0x233010DE, 0x16C110DE, 81559, 479, 131072, 5120,
     71000, 700000, 200000, 345, 1980, 2619, 1545, 33, 69,
     5, 16, 18, 4, 26562, 0, 0, true, false},
    {"H200", "NVIDIA H200", "96.00.A5.00.01", "G520.0200.00.05",
     kHopper, 9, 0, 0x233510DE, 0x18BE10DE, 143771, 480, 262144, 6144,
     76000, 700000, 200000, 345, 1980, 3201, 1545, 32, 68,
     5, 16, 18, 4, 26562, 0, 0, true, false},
    {"B200", "NVIDIA B200", "97.00.82.00.19", "B200.0200.00.01",
     kBlackwell, 10, 0, 0x290110DE, 0x199910DE, 183359, 745, 262144, 8192,
     140000, 1000000, 200000, 120, 1965, 3996, 1620, 35, 74,
     5, 16, 18, 5, 53125, 0, 0, true, false},
    {"GB200", "NVIDIA GB200", "97.00.89.00.10", "G530.0200.00.01",
     kBlackwell, 10, 0, 0x294110DE, 0x204610DE, 189471, 815, 262144, 8192,
     150000, 1200000, 200000, 120, 2062, 3996, 1717, 36, 70,
     5, 16, 18, 5, 53125, 0, 0, true, true},
    // An SoC: its memory is the machine's; the library reports all of it, or nothing with unified_only.
    {"GB10", "NVIDIA GB10", "9a.0b.14.00.00", "",
     kBlackwell, 12, 1, 0x2E1210DE, 0x000010DE, 122570, 0, 0, 256,
     4000, 140000, 100000, 208, 2418, 4266, 2418, 38, 72,
     5, 16, 0, 0, 0, 0, 0, false, true, true},
    {"L4", "NVIDIA L4", "95.04.29.00.06", "G193.0200.00.01",
     kAda, 8, 9, 0x27B810DE, 0x16CA10DE, 23034, 457, 32768, 192,
     13000, 72000, 40000, 210, 2040, 6251, 1770, 34, 76,
     4, 16, 0, 0, 0, 0, 8, false, false},
    {"RTX4090", "NVIDIA GeForce RTX 4090", "95.02.3C.40.6B", "G002.0000.00.03",
     kAda, 8, 9, 0x268410DE, 0x167C10DE, 24564, 510, 256, 384,
     22000, 450000, 150000, 210, 3105, 10501, 2415, 32, 68,
     4, 16, 0, 0, 0, 3, 8, false, false, true},
    {"T4", "Tesla T4", "90.04.96.00.02", "G183.0200.00.02",
     kTuring, 7, 5, 0x1EB810DE, 0x12A210DE, 15360, 255, 256, 256,
     10000, 70000, 60000, 300, 1590, 5001, 1470, 35, 75,
     3, 16, 0, 0, 0, 0, 8, false, false},
    {"V100", "Tesla V100-SXM2-32GB", "88.00.80.00.01", "G503.0203.00.04",
     kVolta, 7, 0, 0x1DB510DE, 0x124910DE, 32768, 270, 32768, 4096,
     40000, 300000, 150000, 135, 1530, 877, 1372, 34, 64,
     3, 16, 6, 2, 25781, 0, 0, false, false},
};
// clang-format on

constexpr size_t kMaxSteps = 256;
constexpr int64_t kMostSeconds = 4'000'000'000;
constexpr std::string_view kProfileLine = "profile line ";

constexpr double kTurn = 2 * std::numbers::pi;

double StepsLength(const FakeLoad& load) noexcept {
  double length = 0;
  for (const FakeLoad::Step& step : load.steps) length += step.seconds;
  return length;
}

double StepsIntegral(const FakeLoad& load, double until) noexcept {
  double sum = 0;
  for (const FakeLoad::Step& step : load.steps) {
    double part = std::min(step.seconds, until);
    sum += part * step.level;
    until -= part;
  }
  return sum;
}

class Fields : public YamlFields {
 public:
  explicit Fields(const YamlNode& map) : YamlFields(map, kProfileLine) {}
};

Status ReadSteps(const YamlNode& node, FakeLoad& out) {
  out.steps.clear();
  const YamlNode* steps = node.Find("steps");
  for (size_t i = 0; steps && i < steps->items.size(); ++i) {
    const YamlNode& step = *steps->items[i];
    std::optional<double> seconds, level;
    if (step.items.size() == 2) {
      seconds = ParseDouble(step.items[0]->text);
      level = ParseDouble(step.items[1]->text);
    }
    if (!seconds || !level || !(*seconds > 0.01 && *seconds < 1e6) || !(*level >= 0 && *level <= 1)) {
      return YamlError(kProfileLine, step.mark.line, "a step is [seconds, level]");
    }
    out.steps.push_back({*seconds, *level});
  }
  if (!out.steps.empty() && out.steps.size() <= kMaxSteps) return Ok();
  return YamlError(kProfileLine, node.mark.line, "steps are missing or too many");
}

// schedule: {step: 15, levels: [100, -1, …], changes: [[from, to, level], …], carried: 0}, in seconds since
// the boot of the machine and thousandths; to 0: for ever. Level -1: nothing runs.
Status ReadSchedule(const YamlNode& node, FakeLoad& out) {
  Fields in(node);
  int64_t step = 0;
  in.Number("step", step, 1, 86'400)
      .Number("carried", out.carried, -kMostSeconds * 1000, kMostSeconds * 1000);
  const YamlNode* levels = in.Child("levels");
  const YamlNode* changes = in.Child("changes");
  RETURN_IF_ERROR(in.Done());
  auto number = [&](const YamlNode& at, int64_t low, int64_t high, int64_t& value) {
    std::optional<int64_t> read = ParseInt<int64_t>(at.text);
    if (!read || *read < low || *read > high) return false;
    value = *read;
    return true;
  };
  std::vector<int> list;
  for (size_t i = 0; levels && i < levels->items.size() && i <= kMaxSteps; ++i) {
    int64_t level = 0;
    if (!number(*levels->items[i], LoadSchedule::kAbsent, 1000, level))
      return YamlError(kProfileLine, levels->items[i]->mark.line, "a level is -1 to 1000");
    list.push_back(static_cast<int>(level));
  }
  if (step == 0 || list.empty() || list.size() > kMaxSteps)
    return YamlError(kProfileLine, node.mark.line, "step or levels are missing, or levels are too many");
  out.schedule = LoadSchedule(step, std::move(list));
  std::vector<LoadSchedule::Change> kept;
  for (size_t i = 0; changes && i < changes->items.size(); ++i) {
    const YamlNode& row = *changes->items[i];
    int64_t from = 0, to = 0, level = 0;
    if (kept.size() == kMaxSteps || row.items.size() != 3 || !number(*row.items[0], 0, kMostSeconds, from) ||
        !number(*row.items[1], 0, kMostSeconds, to) ||
        !number(*row.items[2], LoadSchedule::kAbsent, 1000, level))
      return YamlError(kProfileLine, row.mark.line, "a change is [from, to, level]");
    if (!kept.empty() && from < kept.back().to_s)
      return YamlError(kProfileLine, row.mark.line, "changes overlap");
    kept.push_back({from, to == 0 ? INT64_MAX : to, static_cast<int>(level)});
  }
  out.schedule.SetChanges(std::move(kept));
  out.kind = FakeLoad::Kind::kSchedule;
  return Ok();
}

Status ReadLoad(const YamlNode& node, FakeLoad& out) {
  if (const YamlNode* schedule = node.Find("schedule")) return ReadSchedule(*schedule, out);
  Fields in(node);
  std::string kind = "constant";
  in.String("kind", kind).Number("level", out.level, 0, 1).Number("amplitude", out.amplitude, 0, 0.5);
  in.Number("period", out.period, 0.1, 1e6).Number("phase", out.phase, 0, 1).Child("steps");
  RETURN_IF_ERROR(in.Done());
  if (kind == "idle") {
    out = FakeLoad{};
  } else if (kind == "sine") {
    out.kind = FakeLoad::Kind::kSine;
    if (out.level - out.amplitude < 0 || out.level + out.amplitude > 1) {
      in.FailAt(node, "level and amplitude leave 0 to 1");
    }
  } else if (kind == "steps") {
    out.kind = FakeLoad::Kind::kSteps;
    return ReadSteps(node, out);
  } else if (kind == "constant") {
    out.kind = FakeLoad::Kind::kConstant;
  } else {
    in.FailAt(node, "kind must be idle, constant, sine or steps");
  }
  return in.status();
}

// Settings at the top are for all GPUs, those under `each` for one.
Status ReadGpuSettings(YamlFields& in, FakeGpu& out) {
  if (const YamlNode* load = in.Child("load")) RETURN_IF_ERROR(ReadLoad(*load, out.load));
  in.Number("nvlink_share", out.nvlink_share, 0, 1).Number("pcie_share", out.pcie_share, 0, 1);
  // A list is of parts.
  const YamlNode* mig = in.Child("mig");
  if (!mig || mig->kind != YamlNode::kList) in.Flag("mig", out.mig);
  in.Flag("ecc", out.ecc).Flag("unified_only", out.unified_only).Number("fans", out.fans, 0, 8);
  return in.status();
}

Status ReadEach(const YamlNode& node, FakeProfile& out) {
  Fields in(node);
  unsigned index = kMaxFakeGpus;
  in.Number("gpu", index, 0, static_cast<int64_t>(out.gpus.size()) - 1);
  if (index >= out.gpus.size()) return in.FailAt(node, "gpu is missing").status();
  RETURN_IF_ERROR(ReadGpuSettings(in, out.gpus[index]));
  return in.Done();
}

Status ReadProcess(const YamlNode& node, FakeProfile& out) {
  Fields in(node);
  FakeProcess process;
  process.when.Read(in, kMaxFakeGpus);
  in.Number("pid", process.pid, 1, 1 << 24);  // Linux gives those up to 1 << 22.
  in.Choice("type", process.type, {"compute", "graphics", "mps"});
  in.Bytes("memory", process.bytes).Bytes("swing", process.swing).Number("period", process.period, 0.1, 1e6);
  in.Number("mig_instance", process.mig_instance, 0, 255);
  in.Number("compute_instance", process.compute_instance, 0, 255).Number("sm", process.sm, 0, 1000);
  in.Number("memory_use", process.memory_use, 0, 1000);
  in.Number("encoder", process.encoder, 0, 1000).Number("decoder", process.decoder, 0, 1000);
  if (process.pid == 0) in.Fail("pid", "is missing");
  if (process.swing > process.bytes) in.Fail("swing", "is more than memory");
  out.processes.push_back(process);
  return in.Done();
}

Status ReadFault(const YamlNode& node, FakeProfile& out) {
  Fields in(node);
  FakeFault fault;
  fault.when.Read(in, kMaxFakeGpus);
  in.Number("amount", fault.amount, 1, 1 << 30);
  in.Choice("counter", fault.counter,
            {"ecc_corrected", "ecc_uncorrected", "remapped_correctable", "remapped_uncorrectable",
             "remap_pending", "remap_failure", "retired_single_bit", "retired_double_bit", "pcie_replay",
             "links_down", "link_replay", "pcie_correctable", "sram_uncorrected", "banks_used",
             "inforom_corrupt", "fabric_pending", "fabric_degraded", "confidential", "encoder_sessions"});
  out.faults.push_back(fault);
  return in.Done();
}

Status ReadRule(const YamlNode& node, std::string_view kind, std::vector<FakeRule>& out) {
  Fields in(node);
  FakeRule& rule = out.emplace_back();
  if (kind == "throttle") {
    rule.when.Read(in, kMaxFakeGpus);
    in.Number("mask", rule.mask, 1, INT64_MAX);
    if (rule.mask == 0) in.Fail("mask", "is missing");
  } else {
    rule.ReadCall(in, kMaxFakeGpus, kind == "errors", 999);
  }
  return in.Done();
}

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
void ReadPlace(YamlFields& row, const FakeProfile& profile, FakeWhen& out) {
  row.Number("gpu", out.gpu, 0, static_cast<int64_t>(profile.gpus.size()) - 1);
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

Status ReadMig(const YamlNode& node, FakeProfile& out) {
  YamlFields row(node, kProfileLine);
  FakeMig mig;
  ReadPlace(row, out, mig.when);
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

Status ReadVgpu(const YamlNode& node, FakeProfile& out) {
  YamlFields row(node, kProfileLine);
  FakeVgpu vgpu;
  ReadPlace(row, out, vgpu.when);
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

Status ReadEvent(const YamlNode& node, bool xid, FakeProfile& out) {
  YamlFields row(node, kProfileLine);
  FakeEvent event;
  FakeWhen when;
  ReadPlace(row, out, when);
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

Status ReadBoard(const YamlNode& node, FakeProfile& out) {
  std::optional<unsigned> board = ParseInt<unsigned>(node.text);
  if (!board || *board >= 64 || out.boards.size() >= out.gpus.size()) {
    return YamlError(kProfileLine, node.mark.line, "boards has one number per GPU");
  }
  out.boards.push_back(*board);
  return Ok();
}

Result<FakeProfile> Read(const YamlNode& root) {
  FakeProfile out;
  Fields in(root);
  std::string model = "H100";
  unsigned count = 8;
  in.String("model", model);
  std::string path, at_end = "loop";
  in.String("recording", path).String("at_end", at_end);
  if (const YamlNode* recording = root.Find("recording")) {
    RETURN_IF_ERROR(in.status());
    if (Status status = LoadRecording(path, at_end, out); !status.ok())
      return YamlError(kProfileLine, recording->mark.line, status.detail);
    count = static_cast<unsigned>(out.recording->gpus.size());
  }
  in.Number("gpus", count, 1, kMaxFakeGpus);
  out.driver_version = "580.95.05";
  out.library_version = "13.580.95.05";
  out.cuda_version = 13000;
  in.String("driver_version", out.driver_version);
  in.String("library_version", out.library_version);
  in.Number("cuda_version", out.cuda_version, 1000, 99990);
  in.Number("numa_node", out.numa_node, 0, 1023);
  in.Number("period", out.period, 0, 1e6);
  in.Flag("pcie_counters", out.pcie_counters);
  in.Flag("memory_v2", out.memory_v2);
  out.model = FindFakeModel(model);
  if (!out.model) in.Fail("model", "must be one of " + std::string(FakeModelNames()));
  RETURN_IF_ERROR(in.status());
  // Rows are remapped since Ampere.
  out.remapped_rows = out.model->architecture >= 7 && !out.model->consumer;
  in.Flag("remapped_rows", out.remapped_rows);
  RETURN_IF_ERROR(in.status());
  FakeGpu usual;
  usual.fans = out.model->fans;
  usual.ecc = !out.model->consumer;
  RETURN_IF_ERROR(ReadGpuSettings(in, usual));
  out.gpus.assign(count, usual);
  for (unsigned i = 0; i < count; ++i) {
    // GPUs of one machine are not in step.
    out.gpus[i].board = i;
    out.gpus[i].load.phase = std::fmod(out.gpus[i].load.phase + static_cast<double>(i) / count, 1.0);
  }
  using Node = const YamlNode&;
  if (const YamlNode* mig = in.Child("mig"); mig && mig->kind == YamlNode::kList) {
    RETURN_IF_ERROR(in.List("mig", [&](Node node) { return ReadMig(node, out); }));
  }
  RETURN_IF_ERROR(in.List("vgpus", [&](Node node) { return ReadVgpu(node, out); }));
  RETURN_IF_ERROR(in.List("xids", [&](Node node) { return ReadEvent(node, true, out); }));
  RETURN_IF_ERROR(in.List("boards", [&](Node node) { return ReadBoard(node, out); }));
  RETURN_IF_ERROR(in.List("events", [&](Node node) { return ReadEvent(node, false, out); }));
  for (const FakeMig& mig : out.mig) out.gpus[static_cast<size_t>(mig.when.gpu)].mig = true;
  for (size_t i = 0; i < out.boards.size(); ++i) out.gpus[i].board = out.boards[i];
  RETURN_IF_ERROR(in.List("each", [&](Node node) { return ReadEach(node, out); }));
  RETURN_IF_ERROR(in.List("missing", [&](Node node) { return out.missing.push_back(node.text), Ok(); }));
  RETURN_IF_ERROR(in.List("processes", [&](Node node) { return ReadProcess(node, out); }));
  RETURN_IF_ERROR(in.List("faults", [&](Node node) { return ReadFault(node, out); }));
  for (auto [key, list] :
       {std::pair{"errors", &out.errors}, {"hangs", &out.hangs}, {"throttle", &out.throttles}}) {
    RETURN_IF_ERROR(in.List(key, [&](Node node) { return ReadRule(node, key, *list); }));
  }
  RETURN_IF_ERROR(in.Done());
  return out;
}

}  // namespace

const FakeModel* FindFakeModel(std::string_view key) noexcept {
  for (const FakeModel& model : kModels) {
    if (model.key == key) return &model;
  }
  return nullptr;
}

std::string_view FakeModelNames() noexcept {
  return "A100, H100, H200, B200, GB200, GB10, L4, RTX4090, T4, V100";
}

std::string FakeGpuUuid(const FakeModel& model, unsigned board) {
  char text[64];
  std::snprintf(text, sizeof text, "GPU-51313000-%04x-4000-8000-%012x", model.device_id >> 16, board);
  return text;
}

double FakeLoad::At(double seconds) const noexcept {
  switch (kind) {
    case Kind::kConstant: return level;
    case Kind::kSine: return level + amplitude * std::sin(kTurn * (seconds / period + phase));
    case Kind::kSchedule: return std::max(schedule.LevelAt(std::llround(seconds * 1e9)), 0) / 1000.0;
    case Kind::kSteps: break;
  }
  double left = std::fmod(seconds + phase * StepsLength(*this), StepsLength(*this));
  for (const Step& step : steps) {
    if (left < step.seconds) return step.level;
    left -= step.seconds;
  }
  return steps.back().level;
}

double FakeLoad::Integral(double seconds) const noexcept {
  switch (kind) {
    case Kind::kConstant: return level * seconds;
    case Kind::kSine: {
      double swing = std::cos(kTurn * phase) - std::cos(kTurn * (seconds / period + phase));
      return level * seconds + amplitude * period / kTurn * swing;
    }
    case Kind::kSchedule: {
      const __int128 sum =
          schedule.Integral(std::llround(seconds * 1e9)) + static_cast<__int128>(carried) * kNsPerSecond;
      return static_cast<double>(sum) * 1e-12;
    }
    case Kind::kSteps: break;
  }
  double length = StepsLength(*this), offset = phase * length;
  auto from_zero = [&](double t) {
    return std::floor(t / length) * StepsIntegral(*this, length) + StepsIntegral(*this, std::fmod(t, length));
  };
  return from_zero(seconds + offset) - from_zero(offset);
}

double FakeLoad::Mean(double seconds, double window) const noexcept {
  double from = std::max(0.0, seconds - window);
  if (seconds - from < 1e-3) return At(seconds);
  return (Integral(seconds) - Integral(from)) / (seconds - from);
}

std::string_view DemoProfile() noexcept {
  return R"(# Eight H100 that train: busy, with a pause between the epochs.
model: H100
gpus: 8
nvlink_share: 0.55
pcie_share: 0.12
load: {kind: sine, level: 0.78, amplitude: 0.2, period: 45}
each:
  - {gpu: 6, load: {kind: steps, steps: [[40, 0.95], [20, 0.1]]}}
  - {gpu: 7, load: {kind: constant, level: 0.05}, nvlink_share: 0.05}
processes:
  - {pid: 41000, memory: 52GiB, swing: 6GiB, period: 90}
  - {gpu: 7, pid: 52000, memory: 4GiB}
faults:
  - {gpu: 2, counter: ecc_corrected, amount: 3, from: 60}
throttle:
  - {gpu: 4, mask: 0x20, from: 30, for: 20}
)";
}

Result<FakeProfile> ParseFakeProfile(const std::string& yaml) {
  if (!IsRecording(yaml)) {
    ASSIGN_OR_RETURN(YamlTree tree, ReadYaml(yaml, {}, "profile"));
    return Read(tree.top());
  }
  ASSIGN_OR_RETURN(NvmlRecording recording, ReadRecording(yaml));
  ASSIGN_OR_RETURN(YamlTree tree, ReadYaml("gpus: " + std::to_string(recording.gpus.size()), {}, "profile"));
  ASSIGN_OR_RETURN(FakeProfile out, Read(tree.top()));
  out.recording = std::make_shared<const NvmlRecording>(std::move(recording));
  return out;
}

}  // namespace gpulens::nvml
