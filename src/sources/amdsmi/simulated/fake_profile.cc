#include "sources/amdsmi/simulated/fake_profile.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "base/parse.h"
#include "base/result.h"
#include "sources/amdsmi/amdsmi_fields.h"

namespace gpulens::amdsmi {
namespace {

constexpr size_t kMaxRules = 256;
constexpr double kTurn = 2 * std::numbers::pi;

Status Wrong(const YAML::Node& node, const std::string& what) {
  return {Code::kInvalidArgument, "profile line " + std::to_string(node.Mark().line + 1) + ": " + what};
}

// Reads the scalars of one map by key; a key that nobody asked for is an error. The first failure is kept.
class Fields {
 public:
  explicit Fields(const YAML::Node& map) : map_(map) {
    if (!map.IsMap()) status_ = Wrong(map, "expected a map");
  }

  template <class Number>
  Fields& Take(const char* key, Number& out, double low, double high) {
    std::optional<std::string> text = Text(key);
    if (!text) return *this;
    std::optional<double> value = ParseDouble(*text);
    bool whole = !std::is_integral_v<Number> || (value && std::floor(*value) == *value);
    if (!value || !(*value >= low && *value <= high) || !whole) return Fail(key, "is not a number in range");
    out = static_cast<Number>(*value);
    return *this;
  }
  Fields& Flag(const char* key, bool& out) {
    std::optional<std::string> text = Text(key);
    if (text && *text != "true" && *text != "false") return Fail(key, "is not true or false");
    if (text) out = *text == "true";
    return *this;
  }
  // "20GiB", "512MiB" or plain bytes.
  Fields& Bytes(const char* key, double& out) {
    std::optional<std::string> text = Text(key);
    if (!text) return *this;
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
    return *this;
  }
  Fields& String(const char* key, std::string& out) {
    if (std::optional<std::string> text = Text(key)) out = *text;
    return *this;
  }
  template <class Enum>
  Fields& Choice(const char* key, Enum& out, std::initializer_list<std::string_view> words) {
    std::optional<std::string> text = Text(key);
    if (!text) return *this;
    auto found = std::find(words.begin(), words.end(), *text);
    if (found == words.end()) return Fail(key, "has an unknown value '" + *text + "'");
    out = static_cast<Enum>(found - words.begin());
    return *this;
  }
  Fields& When(FakeWhen& out) {
    double length = -1;
    Take("gpu", out.gpu, -1, kMaxFakeGpus - 1).Take("from", out.from, 0, 1e9).Take("to", out.to, 0, 1e18);
    Take("for", length, 0, 1e9);
    if (length >= 0) out.to = out.from + length;
    return *this;
  }
  // The node of a list or map under that key; undefined when there is none.
  YAML::Node Part(const char* key) {
    queried_.emplace_back(key);
    return map_[key];
  }
  Fields& Fail(const char* key, const std::string& what) {
    if (status_.ok()) status_ = Wrong(map_[key] ? map_[key] : map_, std::string(key) + " " + what);
    return *this;
  }
  Status Done() const {
    if (!status_) return status_;
    for (const auto& entry : map_) {
      const std::string& key = entry.first.Scalar();
      if (std::find(queried_.begin(), queried_.end(), key) == queried_.end())
        return Wrong(entry.first, "unknown key '" + key + "'");
    }
    return Ok();
  }

 private:
  std::optional<std::string> Text(const char* key) {
    queried_.emplace_back(key);
    if (!status_.ok() || !map_[key]) return std::nullopt;
    if (map_[key].IsScalar()) return map_[key].Scalar();
    Fail(key, "must be a single value");
    return std::nullopt;
  }

  const YAML::Node& map_;
  std::vector<std::string> queried_;
  Status status_;
};

Status ReadLoad(const YAML::Node& node, FakeLoad& out) {
  Fields in(node);
  in.Take("level", out.level, 0, 1).Take("amplitude", out.amplitude, 0, 0.5);
  in.Take("period", out.period, 0.1, 1e6).Take("phase", out.phase, 0, 1);
  if (out.level - out.amplitude < 0 || out.level + out.amplitude > 1) {
    in.Fail("amplitude", "makes the load leave 0 to 1");
  }
  return in.Done();
}

Status ReadEach(const YAML::Node& node, FakeProfile& out) {
  Fields in(node);
  unsigned index = kMaxFakeGpus;
  in.Take("gpu", index, 0, static_cast<double>(out.gpus.size()) - 1);
  if (index >= out.gpus.size()) return Wrong(node, "gpu is missing");
  if (YAML::Node load = in.Part("load")) RETURN_IF_ERROR(ReadLoad(load, out.gpus[index]));
  return in.Done();
}

Status ReadProcess(const YAML::Node& node, FakeProfile& out) {
  Fields in(node);
  FakeProcess process;
  in.When(process.when).Take("pid", process.pid, 1, 1 << 22).String("name", process.name);
  in.Bytes("memory", process.bytes).Bytes("host_memory", process.host_bytes);
  in.Take("compute_units", process.compute_units, 0, 4096);
  if (process.pid == 0) in.Fail("pid", "is missing");
  out.processes.push_back(process);
  return in.Done();
}

Status ReadEcc(const YAML::Node& node, FakeProfile& out) {
  Fields in(node);
  FakeErrors errors;
  std::string block = "umc";
  in.When(errors.when).Take("amount", errors.amount, 1, 1 << 30).String("block", block);
  in.Choice("type", errors.type, {"correctable", "uncorrectable", "deferred"});
  auto found = std::find(std::begin(kEccBlocks), std::end(kEccBlocks), block);
  if (found == std::end(kEccBlocks)) in.Fail("block", "is not a block");
  else errors.block = static_cast<unsigned>(found - std::begin(kEccBlocks));
  out.ecc.push_back(errors);
  return in.Done();
}

Status ReadPages(const YAML::Node& node, FakeProfile& out) {
  Fields in(node);
  FakePages pages;
  in.When(pages.when).Take("amount", pages.amount, 1, 4096).Flag("pending", pages.pending);
  out.pages.push_back(pages);
  return in.Done();
}

Status ReadThrottle(const YAML::Node& node, FakeProfile& out) {
  Fields in(node);
  FakeThrottle throttle;
  in.When(throttle.when).Choice("cause", throttle.cause, {"power", "socket", "prochot", "memory", "vr"});
  out.throttles.push_back(throttle);
  return in.Done();
}

Status ReadRule(const YAML::Node& node, bool error, std::vector<FakeRule>& out) {
  Fields in(node);
  FakeRule rule;
  in.When(rule.when).String("call", rule.call).Take("nth", rule.nth, 1, 1 << 30);
  if (error) in.Take("code", rule.code, 1, 4294967295.0);
  if (rule.call.empty()) in.Fail("call", "is missing");
  if (error && rule.code == 0) in.Fail("code", "is missing");
  out.push_back(rule);
  return in.Done();
}

template <class Read>
Status ReadList(const YAML::Node& list, const char* key, Read read) {
  if (!list) return Ok();
  if (!list.IsSequence() || list.size() > kMaxRules)
    return Wrong(list, std::string(key) + " must be a short list");
  for (const YAML::Node& node : list) RETURN_IF_ERROR(read(node));
  return Ok();
}

// "26.2.1"
Status ReadVersion(const YAML::Node& root, std::string_view text, FakeProfile& out) {
  unsigned* const parts[] = {&out.major, &out.minor, &out.release};
  for (unsigned* part : parts) {
    std::optional<unsigned> number = ParseInt<unsigned>(TakeUntil(text, '.'));
    if (!number) return Wrong(root, "version must be three numbers");
    *part = *number;
  }
  return text.empty() ? Ok() : Wrong(root, "version must be three numbers");
}

Status ReadLists(Fields& in, FakeProfile& out) {
  auto list = [&](const char* key, auto read) { return ReadList(in.Part(key), key, read); };
  using Node = const YAML::Node&;
  RETURN_IF_ERROR(list("each", [&](Node node) { return ReadEach(node, out); }));
  RETURN_IF_ERROR(list("missing", [&](Node node) { return out.missing.push_back(node.Scalar()), Ok(); }));
  RETURN_IF_ERROR(list("processes", [&](Node node) { return ReadProcess(node, out); }));
  RETURN_IF_ERROR(list("ecc", [&](Node node) { return ReadEcc(node, out); }));
  RETURN_IF_ERROR(list("pages", [&](Node node) { return ReadPages(node, out); }));
  RETURN_IF_ERROR(list("throttle", [&](Node node) { return ReadThrottle(node, out); }));
  RETURN_IF_ERROR(list("errors", [&](Node node) { return ReadRule(node, true, out.errors); }));
  RETURN_IF_ERROR(list("hangs", [&](Node node) { return ReadRule(node, false, out.hangs); }));
  return list("lost", [&](Node node) {
    Fields when(node);
    when.When(out.lost.emplace_back());
    return when.Done();
  });
}

Result<FakeProfile> Read(const YAML::Node& root) {
  Fields in(root);
  FakeProfile out;
  std::string model = "MI300X", version = "26.2.1";
  unsigned count = 8;
  in.String("model", model).String("version", version).Take("gpus", count, 0, kMaxFakeGpus);
  in.String("driver_version", out.driver_version).String("compute_partition", out.compute_partition);
  in.String("memory_partition", out.memory_partition).Take("resolution", out.resolution, 0, 1e6);
  in.Take("xgmi_share", out.xgmi_share, 0, 1).Take("link_down", out.link_down, 0, 7);
  in.Flag("millidegrees", out.millidegrees).Flag("watts", out.watts);
  out.model = FindFakeModel(model);
  if (!out.model) in.Fail("model", "must be one of " + std::string(FakeModelNames()));
  if (out.compute_partition == "CPX") out.partitions = 8;
  if (out.compute_partition == "QPX") out.partitions = 4;
  if (out.compute_partition == "DPX") out.partitions = 2;
  if (out.partitions > 1 && out.model && !out.model->partitions) in.Fail("compute_partition", "is SPX only");
  RETURN_IF_ERROR(ReadVersion(root, version, out));
  FakeLoad load;
  if (YAML::Node node = in.Part("load")) RETURN_IF_ERROR(ReadLoad(node, load));
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

double FakeLoad::At(double seconds) const noexcept {
  return level + amplitude * std::sin(kTurn * (seconds / period + phase));
}

double FakeLoad::Integral(double seconds) const noexcept {
  double swing = std::cos(kTurn * phase) - std::cos(kTurn * (seconds / period + phase));
  return level * seconds + amplitude * period / kTurn * swing;
}

Result<FakeProfile> ParseFakeProfile(const std::string& yaml) {
  try {
    return Read(YAML::Load(yaml));
  } catch (const YAML::Exception& error) {
    return Status{Code::kInvalidArgument, std::string("profile: ") + error.what()};
  }
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
