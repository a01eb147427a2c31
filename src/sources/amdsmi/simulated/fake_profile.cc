#include "sources/amdsmi/simulated/fake_profile.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "base/parse.h"
#include "base/result.h"
#include "base/yaml/yaml.h"
#include "sources/amdsmi/amdsmi_fields.h"

namespace gpulens::amdsmi {
namespace {

// clang-format off
constexpr FakeModel kModels[] = {
    // ECC blocks: umc sdma gfx mmhub vcn.
    {.key = "MI300X", .name = "AMD Instinct MI300X", .vbios = "022.040.003.042.000001",
     .target = 90402, .device_id = 0x74A1, .compute_units = 304, .vram_mib = 196592, .visible_mib = 196592,
     .idle_w = 135, .cap_w = 750, .min_cap_w = 0, .idle_clock = 132, .max_clock = 2100, .memory_clock = 1300,
     .soc_clock = 1140, .fabric_clock = 2100, .idle_temperature = 38, .busy_temperature = 78,
     .pcie_generation = 5, .pcie_width = 16, .links = 7, .stacks = 4, .vcn = 4, .jpeg = 32, .ecc_blocks = 0x800F,
     .edge = false, .fan = false, .current_power = true, .partitions = true, .residency = true},
    // One of the two dies of a board, each a GPU of its own.
    {.key = "MI250X", .name = "AMD Instinct MI250X", .vbios = "113-D65201-046",
     .target = 90010, .device_id = 0x7408, .compute_units = 110, .vram_mib = 65520, .visible_mib = 65520,
     .idle_w = 90, .cap_w = 500, .min_cap_w = 0, .idle_clock = 800, .max_clock = 1700, .memory_clock = 1600,
     .soc_clock = 1090, .fabric_clock = 1600, .idle_temperature = 40, .busy_temperature = 82,
     .pcie_generation = 4, .pcie_width = 16, .links = 0, .stacks = 4, .vcn = 0, .jpeg = 0, .ecc_blocks = 0x00FF,
     .edge = true, .fan = false, .current_power = false, .partitions = false, .residency = false},
    {.key = "RX7900", .name = "AMD Radeon RX 7900 XTX", .vbios = "113-31XFSHBS2-L02",
     .target = 110000, .device_id = 0x744C, .compute_units = 96, .vram_mib = 24560, .visible_mib = 256,
     .idle_w = 15, .cap_w = 339, .min_cap_w = 290, .idle_clock = 50, .max_clock = 2526, .memory_clock = 1249,
     .soc_clock = 1400, .fabric_clock = 2000, .idle_temperature = 35, .busy_temperature = 85,
     .pcie_generation = 4, .pcie_width = 16, .links = 0, .stacks = 0, .vcn = 0, .jpeg = 0, .ecc_blocks = 0,
     .edge = true, .fan = true, .current_power = false, .partitions = false, .residency = false},
};
// clang-format on

constexpr double kTurn = 2 * std::numbers::pi;

constexpr std::string_view kWhere = "profile line ";

class Fields : public YamlFields {
 public:
  explicit Fields(const YamlNode& map) : YamlFields(map, kWhere) {}
};

Status ReadLoad(const YamlNode& node, FakeLoad& out) {
  Fields in(node);
  in.Number("level", out.level, 0, 1).Number("amplitude", out.amplitude, 0, 0.5);
  in.Number("period", out.period, 0.1, 1e6).Number("phase", out.phase, 0, 1);
  if (out.level - out.amplitude < 0 || out.level + out.amplitude > 1) {
    in.Fail("amplitude", "makes the load leave 0 to 1");
  }
  return in.Done();
}

Status ReadEach(const YamlNode& node, FakeProfile& out) {
  Fields in(node);
  unsigned index = kMaxFakeGpus;
  in.Number("gpu", index, 0, static_cast<int64_t>(out.gpus.size()) - 1);
  if (index >= out.gpus.size()) return in.FailAt(node, "gpu is missing").status();
  if (const YamlNode* load = in.Child("load")) RETURN_IF_ERROR(ReadLoad(*load, out.gpus[index]));
  return in.Done();
}

Status ReadProcess(const YamlNode& node, FakeProfile& out) {
  Fields in(node);
  FakeProcess process;
  process.when.Read(in, kMaxFakeGpus);
  in.Number("pid", process.pid, 1, 1 << 22).String("name", process.name);
  in.Bytes("memory", process.bytes).Bytes("host_memory", process.host_bytes);
  in.Number("compute_units", process.compute_units, 0, 4096);
  if (process.pid == 0) in.Fail("pid", "is missing");
  out.processes.push_back(process);
  return in.Done();
}

Status ReadEcc(const YamlNode& node, FakeProfile& out) {
  Fields in(node);
  FakeErrors errors;
  std::string block = "umc";
  errors.when.Read(in, kMaxFakeGpus);
  in.Number("amount", errors.amount, 1, 1 << 30).String("block", block);
  in.Choice("type", errors.type, {"correctable", "uncorrectable", "deferred"});
  auto found = std::find(std::begin(kEccBlocks), std::end(kEccBlocks), block);
  if (found == std::end(kEccBlocks)) in.Fail("block", "is not a block");
  else errors.block = static_cast<unsigned>(found - std::begin(kEccBlocks));
  out.ecc.push_back(errors);
  return in.Done();
}

Status ReadPages(const YamlNode& node, FakeProfile& out) {
  Fields in(node);
  FakePages pages;
  pages.when.Read(in, kMaxFakeGpus);
  in.Number("amount", pages.amount, 1, 4096).Flag("pending", pages.pending);
  out.pages.push_back(pages);
  return in.Done();
}

Status ReadThrottle(const YamlNode& node, FakeProfile& out) {
  Fields in(node);
  FakeThrottle throttle;
  throttle.when.Read(in, kMaxFakeGpus);
  in.Choice("cause", throttle.cause, {"power", "socket", "prochot", "memory", "vr"});
  out.throttles.push_back(throttle);
  return in.Done();
}

Status ReadRule(const YamlNode& node, bool error, std::vector<FakeRule>& out) {
  Fields in(node);
  out.emplace_back().ReadCall(in, kMaxFakeGpus, error, 4'294'967'295);
  return in.Done();
}

// "26.2.1"
Status ReadVersion(const YamlNode& root, std::string_view text, FakeProfile& out) {
  for (unsigned* part : {&out.major, &out.minor, &out.release}) {
    std::optional<unsigned> number = ParseInt<unsigned>(TakeUntil(text, '.'));
    if (!number) return YamlError(kWhere, root.mark.line, "version must be three numbers");
    *part = *number;
  }
  return text.empty() ? Ok() : YamlError(kWhere, root.mark.line, "version must be three numbers");
}

Status ReadLists(Fields& in, FakeProfile& out) {
  using Node = const YamlNode&;
  RETURN_IF_ERROR(in.List("each", [&](Node node) { return ReadEach(node, out); }));
  RETURN_IF_ERROR(in.List("missing", [&](Node node) { return out.missing.push_back(node.text), Ok(); }));
  RETURN_IF_ERROR(in.List("processes", [&](Node node) { return ReadProcess(node, out); }));
  RETURN_IF_ERROR(in.List("ecc", [&](Node node) { return ReadEcc(node, out); }));
  RETURN_IF_ERROR(in.List("pages", [&](Node node) { return ReadPages(node, out); }));
  RETURN_IF_ERROR(in.List("throttle", [&](Node node) { return ReadThrottle(node, out); }));
  RETURN_IF_ERROR(in.List("errors", [&](Node node) { return ReadRule(node, true, out.errors); }));
  RETURN_IF_ERROR(in.List("hangs", [&](Node node) { return ReadRule(node, false, out.hangs); }));
  return in.List("lost", [&](Node node) {
    Fields when(node);
    out.lost.emplace_back().Read(when, kMaxFakeGpus);
    return when.Done();
  });
}

Result<FakeProfile> Read(const YamlNode& root) {
  Fields in(root);
  FakeProfile out;
  std::string model = "MI300X", version = "26.2.1";
  unsigned count = 8;
  in.String("model", model).String("version", version).Number("gpus", count, 0, kMaxFakeGpus);
  in.String("driver_version", out.driver_version).String("compute_partition", out.compute_partition);
  in.String("memory_partition", out.memory_partition).Number("resolution", out.resolution, 0, 1e6);
  in.Number("xgmi_share", out.xgmi_share, 0, 1).Number("link_down", out.link_down, 0, 7);
  in.Flag("millidegrees", out.millidegrees).Flag("watts", out.watts);
  out.model = FindFakeModel(model);
  if (!out.model) in.Fail("model", "must be one of " + std::string(FakeModelNames()));
  if (out.compute_partition == "CPX") out.partitions = 8;
  if (out.compute_partition == "QPX") out.partitions = 4;
  if (out.compute_partition == "DPX") out.partitions = 2;
  if (out.partitions > 1 && out.model && !out.model->partitions) in.Fail("compute_partition", "is SPX only");
  RETURN_IF_ERROR(ReadVersion(root, version, out));
  FakeLoad load;
  if (const YamlNode* node = in.Child("load")) RETURN_IF_ERROR(ReadLoad(*node, load));
  out.gpus.assign(count, load);
  for (unsigned i = 0; i < count; ++i) {
    // GPUs of one machine are not in step.
    out.gpus[i].phase = std::fmod(load.phase + static_cast<double>(i) / count, 1.0);
  }
  RETURN_IF_ERROR(ReadLists(in, out));
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

std::string_view FakeModelNames() noexcept { return "MI300X, MI250X, RX7900"; }

double FakeLoad::At(double seconds) const noexcept {
  return level + amplitude * std::sin(kTurn * (seconds / period + phase));
}

double FakeLoad::Integral(double seconds) const noexcept {
  double swing = std::cos(kTurn * phase) - std::cos(kTurn * (seconds / period + phase));
  return level * seconds + amplitude * period / kTurn * swing;
}

Result<FakeProfile> ParseFakeProfile(const std::string& yaml) {
  ASSIGN_OR_RETURN(YamlTree tree, ReadYaml(yaml, {}, "profile"));
  return Read(tree.top());
}

std::string_view DefaultProfile() noexcept {
  return R"(# Eight MI300X that train.
model: MI300X
gpus: 8
xgmi_share: 0.4
load: {level: 0.75, amplitude: 0.2, period: 45}
processes:
  - {pid: 41000, name: python3, memory: 120GiB, host_memory: 2GiB, compute_units: 280}
ecc:
  - {gpu: 2, block: umc, type: correctable, amount: 3, from: 30}
throttle:
  - {gpu: 4, cause: power, from: 20, for: 20}
)";
}

}  // namespace gpulens::amdsmi
