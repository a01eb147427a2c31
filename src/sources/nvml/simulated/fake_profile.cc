#include "sources/nvml/simulated/fake_profile.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/parse.h"
#include "base/result.h"
#include "base/yaml/yaml.h"
#include "sources/nvml/recording/recording.h"
#include "sources/nvml/simulated/replay.h"

namespace gpulens::nvml {
namespace {

constexpr size_t kMaxSteps = 256;
constexpr std::string_view kProfileLine = "profile line ";

class Fields : public YamlFields {
 public:
  explicit Fields(const YamlNode& map) : YamlFields(map, kProfileLine) {}
};

void ReadWhen(YamlFields& in, FakeWhen& out) {
  in.Number("gpu", out.gpu, -1, kMaxFakeGpus - 1).Number("from", out.from, 0, 1e9);
  double length = -1;
  in.Number("to", out.to, 0, 1e18).Number("for", length, 0, 1e9);
  if (length >= 0) out.to = out.from + length;
}

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

Status ReadLoad(const YamlNode& node, FakeLoad& out) {
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
  ReadWhen(in, process.when);
  in.Number("pid", process.pid, 1, 1 << 22);
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
  ReadWhen(in, fault.when);
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
  const bool error = kind == "errors", throttle = kind == "throttle";
  Fields in(node);
  FakeRule rule;
  ReadWhen(in, rule.when);
  if (throttle) {
    in.Number("mask", rule.mask, 1, INT64_MAX);
    if (rule.mask == 0) in.Fail("mask", "is missing");
  } else {
    in.String("call", rule.call).Number("nth", rule.nth, 1, 1 << 30);
    if (rule.call.empty()) in.Fail("call", "is missing");
  }
  if (error) {
    in.Number("code", rule.code, 1, 999);
    if (rule.code == 0) in.Fail("code", "is missing");
  }
  out.push_back(rule);
  return in.Done();
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
  RETURN_IF_ERROR(ReadFakeParts(in, out.gpus.size(), out.parts));
  for (const FakeMig& mig : out.parts.mig) out.gpus[static_cast<size_t>(mig.when.gpu)].mig = true;
  for (size_t i = 0; i < out.parts.boards.size(); ++i) out.gpus[i].board = out.parts.boards[i];
  using Node = const YamlNode&;
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

Result<FakeProfile> ParseFakeProfile(const std::string& yaml) {
  if (!IsRecording(yaml)) {
    ASSIGN_OR_RETURN(YamlTree tree, ReadYaml(yaml, {}, "profile"));
    return Read(tree.top());
  }
  ASSIGN_OR_RETURN(Recording recording, ReadRecording(yaml));
  ASSIGN_OR_RETURN(YamlTree tree, ReadYaml("gpus: " + std::to_string(recording.gpus.size()), {}, "profile"));
  ASSIGN_OR_RETURN(FakeProfile out, Read(tree.top()));
  out.recording = std::make_shared<const Recording>(std::move(recording));
  return out;
}

}  // namespace gpulens::nvml
