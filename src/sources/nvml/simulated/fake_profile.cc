#include "sources/nvml/simulated/fake_profile.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/parse.h"
#include "base/result.h"
#include "sources/nvml/recording/recording.h"
#include "sources/nvml/simulated/replay.h"

namespace gpulens::nvml {
namespace {

constexpr size_t kMaxRules = 256;

Status Wrong(const YAML::Node& node, const std::string& what) {
  return {Code::kInvalidArgument, "profile line " + std::to_string(node.Mark().line + 1) + ": " + what};
}

Status CheckKeys(const YAML::Node& map, std::initializer_list<std::string_view> known) {
  if (!map.IsMap()) return Wrong(map, "expected a map");
  for (const auto& entry : map) {
    const std::string& key = entry.first.Scalar();
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return Wrong(entry.first, "unknown key '" + key + "'");
    }
  }
  return Ok();
}

// Reads optional scalars of one map; the first failure is kept.
class MapReader {
 public:
  explicit MapReader(const YAML::Node& map) : map_(map) {}

  Status status() const { return status_; }
  YAML::Node operator[](const char* key) const { return map_[key]; }

  void Number(const char* key, double& out, double low, double high) {
    std::optional<std::string> text = Text(key);
    if (!text) return;
    std::optional<double> value = ParseDouble(*text);
    if (!value || !std::isfinite(*value) || *value < low || *value > high)
      return Fail(key, "is not a number in range");
    out = *value;
  }
  template <class T>
  void Integer(const char* key, T& out, int64_t low, int64_t high) {
    std::optional<std::string> text = Text(key);
    if (!text) return;
    bool hexadecimal = text->starts_with("0x");
    std::optional<int64_t> value =
        hexadecimal ? ParseInt<int64_t>(std::string_view(*text).substr(2), 16) : ParseInt<int64_t>(*text);
    if (!value || *value < low || *value > high) return Fail(key, "is not a whole number in range");
    out = static_cast<T>(*value);
  }
  void Flag(const char* key, bool& out) {
    std::optional<std::string> text = Text(key);
    if (!text) return;
    if (*text != "true" && *text != "false") return Fail(key, "is not true or false");
    out = *text == "true";
  }
  // "20GiB", "512MiB" or plain bytes.
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
    if (!value || !(*value >= 0 && *value < 1e15)) return Fail(key, "is not a size");
    out = *value * unit;
  }
  void String(const char* key, std::string& out) {
    if (std::optional<std::string> text = Text(key)) out = *text;
  }
  template <class T>
  void Choice(const char* key, T& out, std::initializer_list<std::pair<std::string_view, T>> choices) {
    std::optional<std::string> text = Text(key);
    if (!text) return;
    for (const auto& [word, value] : choices) {
      if (word == *text) {
        out = value;
        return;
      }
    }
    Fail(key, "has an unknown value '" + *text + "'");
  }
  void Fail(const char* key, const std::string& what) {
    if (status_.ok()) status_ = Wrong(map_[key] ? map_[key] : map_, std::string(key) + " " + what);
  }

 private:
  std::optional<std::string> Text(const char* key) {
    YAML::Node node = map_[key];
    if (!node) return std::nullopt;
    if (node.IsScalar()) return node.Scalar();
    Fail(key, "must be a single value");
    return std::nullopt;
  }

  const YAML::Node& map_;
  Status status_;
};

void ReadWhen(MapReader& in, FakeWhen& out) {
  in.Integer("gpu", out.gpu, -1, kMaxFakeGpus - 1);
  in.Number("from", out.from, 0, 1e9);
  in.Number("to", out.to, 0, 1e18);
  double length = -1;
  in.Number("for", length, 0, 1e9);
  if (length >= 0) out.to = out.from + length;
}

Status ReadLoad(const YAML::Node& node, FakeLoad& out) {
  RETURN_IF_ERROR(CheckKeys(node, {"kind", "level", "amplitude", "period", "phase", "steps"}));
  MapReader in(node);
  std::string kind = "constant";
  in.String("kind", kind);
  in.Number("level", out.level, 0, 1);
  in.Number("amplitude", out.amplitude, 0, 0.5);
  in.Number("period", out.period, 0.1, 1e6);
  in.Number("phase", out.phase, 0, 1);
  RETURN_IF_ERROR(in.status());
  if (kind == "idle") {
    out = FakeLoad{};
  } else if (kind == "sine") {
    out.kind = FakeLoad::Kind::kSine;
    if (out.level - out.amplitude < 0 || out.level + out.amplitude > 1) {
      return Wrong(node, "level and amplitude leave 0 to 1");
    }
  } else if (kind == "steps") {
    out.kind = FakeLoad::Kind::kSteps;
    out.steps.clear();
    for (const YAML::Node& step : node["steps"]) {
      std::optional<double> seconds, level;
      if (step.IsSequence() && step.size() == 2) {
        seconds = ParseDouble(step[0].Scalar());
        level = ParseDouble(step[1].Scalar());
      }
      if (!seconds || !level || !(*seconds > 0.01 && *seconds < 1e6) || !(*level >= 0 && *level <= 1)) {
        return Wrong(step, "a step is [seconds, level]");
      }
      out.steps.push_back({*seconds, *level});
    }
    if (out.steps.empty() || out.steps.size() > kMaxRules)
      return Wrong(node, "steps are missing or too many");
  } else if (kind == "constant") {
    out.kind = FakeLoad::Kind::kConstant;
  } else {
    return Wrong(node, "kind must be idle, constant, sine or steps");
  }
  return Ok();
}

// Settings that stand at the top for all GPUs, or under `each` for one.
Status ReadGpuSettings(const YAML::Node& node, FakeGpu& out) {
  if (node["load"]) RETURN_IF_ERROR(ReadLoad(node["load"], out.load));
  MapReader in(node);
  in.Number("nvlink_share", out.nvlink_share, 0, 1);
  in.Number("pcie_share", out.pcie_share, 0, 1);
  if (!node["mig"] || !node["mig"].IsSequence()) in.Flag("mig", out.mig);  // The list is of parts.
  in.Flag("ecc", out.ecc);
  in.Flag("unified_only", out.unified_only);
  in.Integer("fans", out.fans, 0, 8);
  return in.status();
}

Status ReadEach(const YAML::Node& list, FakeProfile& out) {
  for (const YAML::Node& node : list) {
    RETURN_IF_ERROR(
        CheckKeys(node, {"gpu", "load", "nvlink_share", "pcie_share", "mig", "ecc", "unified_only", "fans"}));
    MapReader in(node);
    unsigned index = kMaxFakeGpus;
    in.Integer("gpu", index, 0, static_cast<int64_t>(out.gpus.size()) - 1);
    RETURN_IF_ERROR(in.status());
    if (index >= out.gpus.size()) return Wrong(node, "gpu is missing");
    RETURN_IF_ERROR(ReadGpuSettings(node, out.gpus[index]));
  }
  return Ok();
}

Status ReadProcess(const YAML::Node& node, FakeProfile& out) {
  RETURN_IF_ERROR(
      CheckKeys(node, {"gpu", "from", "to", "for", "pid", "type", "memory", "swing", "period", "mig_instance",
                       "compute_instance", "sm", "memory_use", "encoder", "decoder"}));
  MapReader in(node);
  FakeProcess process;
  ReadWhen(in, process.when);
  in.Integer("pid", process.pid, 1, 1 << 22);
  using Type = FakeProcess::Type;
  in.Choice<Type>("type", process.type,
                  {{"compute", Type::kCompute}, {"graphics", Type::kGraphics}, {"mps", Type::kMps}});
  in.Bytes("memory", process.bytes);
  in.Bytes("swing", process.swing);
  in.Number("period", process.period, 0.1, 1e6);
  in.Integer("mig_instance", process.mig_instance, 0, 255);
  in.Integer("compute_instance", process.compute_instance, 0, 255);
  in.Integer("sm", process.sm, 0, 1000);
  in.Integer("memory_use", process.memory_use, 0, 1000);
  in.Integer("encoder", process.encoder, 0, 1000);
  in.Integer("decoder", process.decoder, 0, 1000);
  if (process.pid == 0) in.Fail("pid", "is missing");
  if (process.swing > process.bytes) in.Fail("swing", "is more than memory");
  out.processes.push_back(process);
  return in.status();
}

Status ReadFault(const YAML::Node& node, FakeProfile& out) {
  RETURN_IF_ERROR(CheckKeys(node, {"gpu", "from", "to", "for", "counter", "amount"}));
  MapReader in(node);
  FakeFault fault;
  ReadWhen(in, fault.when);
  in.Integer("amount", fault.amount, 1, 1 << 30);
  using C = FakeFault::Counter;
  in.Choice<C>("counter", fault.counter,
               {{"ecc_corrected", C::kEccCorrected},
                {"ecc_uncorrected", C::kEccUncorrected},
                {"remapped_correctable", C::kRemappedCorrectable},
                {"remapped_uncorrectable", C::kRemappedUncorrectable},
                {"remap_pending", C::kRemapPending},
                {"remap_failure", C::kRemapFailure},
                {"retired_single_bit", C::kRetiredSingle},
                {"retired_double_bit", C::kRetiredDouble},
                {"pcie_replay", C::kPcieReplay},
                {"links_down", C::kLinksDown},
                {"link_replay", C::kLinkReplay},
                {"pcie_correctable", C::kPcieCorrectable},
                {"sram_uncorrected", C::kSramUncorrected},
                {"banks_used", C::kBanksUsed},
                {"inforom_corrupt", C::kInforomCorrupt},
                {"fabric_pending", C::kFabricPending},
                {"fabric_degraded", C::kFabricDegraded},
                {"confidential", C::kConfidential},
                {"encoder_sessions", C::kEncoderSessions}});
  out.faults.push_back(fault);
  return in.status();
}

Status ReadRule(const YAML::Node& node, const char* kind, std::vector<FakeRule>& out) {
  bool error = std::string_view(kind) == "errors", throttle = std::string_view(kind) == "throttle";
  RETURN_IF_ERROR(throttle ? CheckKeys(node, {"gpu", "from", "to", "for", "mask"})
                  : error  ? CheckKeys(node, {"gpu", "from", "to", "for", "call", "nth", "code"})
                           : CheckKeys(node, {"gpu", "from", "to", "for", "call", "nth"}));
  MapReader in(node);
  FakeRule rule;
  ReadWhen(in, rule.when);
  in.String("call", rule.call);
  in.Integer("nth", rule.nth, 1, 1 << 30);
  in.Integer("mask", rule.mask, 1, INT64_MAX);
  in.Integer("code", rule.code, 1, 999);
  if (!throttle && rule.call.empty()) in.Fail("call", "is missing");
  if (error && rule.code == 0) in.Fail("code", "is missing");
  if (throttle && rule.mask == 0) in.Fail("mask", "is missing");
  out.push_back(rule);
  return in.status();
}

template <class Read>
Status ReadList(const YAML::Node& root, const char* key, Read read) {
  YAML::Node list = root[key];
  if (!list) return Ok();
  if (!list.IsSequence() || list.size() > kMaxRules)
    return Wrong(list, std::string(key) + " must be a short list");
  for (const YAML::Node& node : list) RETURN_IF_ERROR(read(node));
  return Ok();
}

Result<FakeProfile> Read(const YAML::Node& root) {
  RETURN_IF_ERROR(CheckKeys(
      root, {"model",    "gpus",      "driver_version", "library_version", "cuda_version", "numa_node",
             "missing",  "load",      "nvlink_share",   "pcie_share",      "mig",          "ecc",
             "fans",     "each",      "processes",      "faults",          "errors",       "hangs",
             "throttle", "memory_v2", "pcie_counters",  "remapped_rows",   "unified_only", "boards",
             "vgpus",    "xids",      "events",         "recording",       "at_end"}));
  FakeProfile out;
  MapReader in(root);
  std::string model = "H100";
  unsigned count = 8;
  in.String("model", model);
  if (root["recording"]) {
    std::string path, at_end = "loop";
    in.String("recording", path);
    in.String("at_end", at_end);
    RETURN_IF_ERROR(in.status());
    if (Status status = LoadRecording(path, at_end, out); !status.ok())
      return Wrong(root["recording"], status.detail);
    count = static_cast<unsigned>(out.recording->gpus.size());
  }
  in.Integer("gpus", count, 1, kMaxFakeGpus);
  out.driver_version = "580.95.05";
  out.library_version = "13.580.95.05";
  out.cuda_version = 13000;
  in.String("driver_version", out.driver_version);
  in.String("library_version", out.library_version);
  in.Integer("cuda_version", out.cuda_version, 1000, 99990);
  in.Integer("numa_node", out.numa_node, 0, 1023);
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
  RETURN_IF_ERROR(ReadGpuSettings(root, usual));
  out.gpus.assign(count, usual);
  for (unsigned i = 0; i < count; ++i) {
    // GPUs of one machine are not in step.
    out.gpus[i].board = i;
    out.gpus[i].load.phase = std::fmod(out.gpus[i].load.phase + static_cast<double>(i) / count, 1.0);
  }
  RETURN_IF_ERROR(ReadFakeParts(root, out.gpus.size(), out.parts));
  for (const FakeMig& mig : out.parts.mig) out.gpus[static_cast<size_t>(mig.when.gpu)].mig = true;
  for (size_t i = 0; i < out.parts.boards.size(); ++i) out.gpus[i].board = out.parts.boards[i];
  if (root["each"]) RETURN_IF_ERROR(ReadEach(root["each"], out));
  RETURN_IF_ERROR(ReadList(root, "missing", [&](const YAML::Node& node) {
    out.missing.push_back(node.Scalar());
    return Ok();
  }));
  RETURN_IF_ERROR(
      ReadList(root, "processes", [&](const YAML::Node& node) { return ReadProcess(node, out); }));
  RETURN_IF_ERROR(ReadList(root, "faults", [&](const YAML::Node& node) { return ReadFault(node, out); }));
  for (auto [key, list] :
       {std::pair{"errors", &out.errors}, {"hangs", &out.hangs}, {"throttle", &out.throttles}}) {
    RETURN_IF_ERROR(ReadList(root, key, [&](const YAML::Node& node) { return ReadRule(node, key, *list); }));
  }
  return out;
}

}  // namespace

Result<FakeProfile> ParseFakeProfile(const std::string& yaml) {
  try {
    if (IsRecording(yaml)) {
      ASSIGN_OR_RETURN(Recording recording, ReadRecording(yaml));
      ASSIGN_OR_RETURN(FakeProfile out, Read(YAML::Load("gpus: " + std::to_string(recording.gpus.size()))));
      out.recording = std::make_shared<const Recording>(std::move(recording));
      return out;
    }
    return Read(YAML::Load(yaml));
  } catch (const YAML::Exception& error) {
    return Status{Code::kInvalidArgument, std::string("profile: ") + error.what()};
  }
}

}  // namespace gpulens::nvml
