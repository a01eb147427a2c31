#include <cmath>

#include "base/parse.h"
#include "base/result.h"
#include "base/yaml/yaml.h"
#include "sources/nvml/recording/recording.h"

namespace gpulens::nvml {
namespace {

constexpr size_t kMaxQuestions = 8192;  // Of one device.
constexpr size_t kMaxMoments = 200'000, kMaxEvents = 10'000;
constexpr double kMaxSeconds = 7 * 24 * 3600.0;

constexpr std::string_view kWhere = "recording line ";

Status Wrong(int line, const std::string& what) { return YamlError(kWhere, line, what); }
Status Wrong(const YamlNode& node, const std::string& what) { return Wrong(node.mark.line, what); }
Status WrongKey(const YamlNode::Member& member, const std::string& what) {
  return Wrong(member.key_mark.line, what);
}

Status NeedMap(const YamlNode& node, const char* what) {
  return node.kind == YamlNode::kMap ? Ok() : Wrong(node, std::string(what) + " must be a map");
}

Status NeedList(const YamlNode& node, const char* what, size_t most) {
  if (node.kind != YamlNode::kList) return Wrong(node, std::string(what) + " must be a list");
  return node.items.size() <= most ? Ok() : Wrong(node, std::string(what) + " is too long");
}

Status Text(const YamlNode& node, std::string& out, size_t most = kMaxRecordedText) {
  if (!node.is_single()) return Wrong(node, "expected a single value");
  if (node.text.size() > most) return Wrong(node, "text is too long");
  out = node.text;
  return Ok();
}

Status Seconds(const YamlNode& node, const char* key, double least, double& out) {
  auto value = node.is_single() ? ParseDouble(node.text) : std::nullopt;
  if (!value || !std::isfinite(*value) || *value < least || *value > kMaxSeconds)
    return Wrong(node, std::string(key) + " is not a time in seconds");
  out = std::round(*value * 1000) / 1000;  // As it is written.
  return Ok();
}

template <class T>
Status Whole(const YamlNode& node, const char* key, uint64_t most, T& out) {
  auto value = node.is_single() ? ParseInt<uint64_t>(node.text) : std::nullopt;
  if (!value || *value > most) return Wrong(node, std::string(key) + " is not a whole number in range");
  out = static_cast<T>(*value);
  return Ok();
}

Status AddValue(const YamlNode& node, RecordedAnswer& out) {
  if (out.values.size() == kMaxAnswerValues) return Wrong(node, "too many values");
  out.values.emplace_back();
  return Text(node, out.values.back());
}

// A code, values, or a code and values. `ok`: success without values.
Status ReadAnswer(const YamlNode& node, RecordedAnswer& out) {
  auto code_of = [](const YamlNode& scalar) {
    return scalar.is_single() && !scalar.quoted ? CodeOfWord(scalar.text) : -1;
  };
  out = {};
  if (node.kind == YamlNode::kMap) return Wrong(node, "an answer is a code or values, not a map");
  if (node.is_single()) {
    if (int code = code_of(node); code > 0) out.code = code;
    else if (node.quoted || node.text != "ok") return AddValue(node, out);
    return Ok();
  }
  size_t at = 0;
  if (!node.items.empty()) {
    if (int code = code_of(*node.items[0]); code > 0) out.code = code, at = 1;
  }
  for (; at < node.items.size(); ++at) {
    const YamlNode& item = *node.items[at];
    if (item.kind == YamlNode::kMap) return Wrong(item, "an answer holds values, not maps");
    if (item.is_single()) {
      RETURN_IF_ERROR(AddValue(item, out));
      continue;
    }
    for (const YamlNode* inner : item.items) RETURN_IF_ERROR(AddValue(*inner, out));
  }
  return Ok();
}

Status CheckQuestion(const YamlNode::Member& member) {
  if (member.key.size() > kMaxRecordedText) return WrongKey(member, "text is too long");
  return IsQuestion(member.key) ? Ok() : WrongKey(member, "the name of a call is printable ASCII");
}

Status ReadCalls(const YamlNode& node, AnswerTracks& out) {
  RETURN_IF_ERROR(NeedMap(node, "calls"));
  if (node.members.size() > kMaxQuestions) return Wrong(node, "too many calls");
  for (const YamlNode::Member& member : node.members) {
    RETURN_IF_ERROR(CheckQuestion(member));
    RETURN_IF_ERROR(ReadAnswer(*member.value, out[member.key].first));
  }
  return Ok();
}

Status ReadGpu(const YamlNode& node, RecordedGpu& out) {
  RETURN_IF_ERROR(NeedMap(node, "a GPU"));
  for (const YamlNode::Member& member : node.members) {
    const std::string& key = member.key;
    const YamlNode& value = *member.value;
    if (key == "calls") {
      RETURN_IF_ERROR(ReadCalls(value, out.calls));
    } else if (key == "mig") {
      RETURN_IF_ERROR(NeedMap(value, "mig"));
      for (const YamlNode::Member& device : value.members) {
        auto place = ParseInt<unsigned>(device.key);
        if (!place || *place >= kMaxRecordedMig)
          return WrongKey(device, "the place of a MIG device is not a whole number in range");
        RETURN_IF_ERROR(ReadCalls(*device.value, out.mig[*place]));
      }
    } else {
      return WrongKey(member, "unknown key '" + key + "': a GPU has calls and mig");
    }
  }
  return Ok();
}

Status ReadEvent(const YamlNode& node, size_t gpus, RecordedEvent& out) {
  RETURN_IF_ERROR(NeedMap(node, "an event"));
  bool at = false, type = false;
  for (const YamlNode::Member& member : node.members) {
    const std::string& key = member.key;
    const YamlNode& value = *member.value;
    if (key == "t") {
      at = true;
      RETURN_IF_ERROR(Seconds(value, "t", 0, out.at));
    } else if (key == "gpu") {
      RETURN_IF_ERROR(Whole(value, "gpu", gpus - 1, out.gpu));
    } else if (key == "type") {
      type = true;
      RETURN_IF_ERROR(Whole(value, "type", UINT64_MAX, out.type));
    } else if (key == "data") {
      RETURN_IF_ERROR(Whole(value, "data", UINT64_MAX, out.data));
    } else if (key == "gpu_instance") {
      RETURN_IF_ERROR(Whole(value, "gpu_instance", UINT32_MAX, out.gpu_instance));
    } else if (key == "compute_instance") {
      RETURN_IF_ERROR(Whole(value, "compute_instance", UINT32_MAX, out.compute_instance));
    } else {
      return WrongKey(member, "unknown key '" + key + "' of an event");
    }
  }
  return at && type ? Ok() : Wrong(node, "an event needs t and type");
}

// One moment: {t: 1.5, gpu0: {question: answer}}.
Status ReadMoment(const YamlNode& node, double& last, NvmlRecording& out) {
  RETURN_IF_ERROR(NeedMap(node, "a moment"));
  double t = -1;
  if (const YamlNode* at = node.Find("t")) RETURN_IF_ERROR(Seconds(*at, "t", 0, t));
  if (t < 0) return Wrong(node, "a moment needs t");
  if (t < last) return Wrong(node, "t goes back");
  last = t;
  for (const YamlNode::Member& member : node.members) {
    if (member.key == "t") continue;
    AnswerTracks* tracks = out.Find(member.key);
    if (!tracks) return WrongKey(member, "there is no '" + member.key + "' in this recording");
    RETURN_IF_ERROR(NeedMap(*member.value, "what changed"));
    for (const YamlNode::Member& change : member.value->members) {
      auto found = tracks->find(change.key);
      if (found == tracks->end()) return WrongKey(change, "'" + change.key + "' has no answer to begin with");
      RecordedAnswer answer;
      RETURN_IF_ERROR(ReadAnswer(*change.value, answer));
      found->second.later.emplace_back(t, std::move(answer));
    }
  }
  return Ok();
}

Status ReadCounters(const YamlNode& node, NvmlRecording& out) {
  RETURN_IF_ERROR(NeedMap(node, "counters"));
  for (const YamlNode::Member& member : node.members) {
    RETURN_IF_ERROR(CheckQuestion(member));
    RETURN_IF_ERROR(Whole(*member.value, "the number of counters", 64, out.counters[member.key]));
  }
  return Ok();
}

Status ReadIdentity(const YamlNode& node, NvmlRecording& out) {
  std::string word;
  RETURN_IF_ERROR(Text(node, word));
  if (word != "kept" && word != "made up") return Wrong(node, "identity must be 'kept' or 'made up'");
  out.identity_kept = word == "kept";
  return Ok();
}

Status ReadMissing(const YamlNode& node, NvmlRecording& out) {
  RETURN_IF_ERROR(NeedList(node, "missing", 1024));
  for (const YamlNode* item : node.items) RETURN_IF_ERROR(Text(*item, out.missing.emplace_back()));
  return Ok();
}

Status ReadGpus(const YamlNode& node, NvmlRecording& out) {
  RETURN_IF_ERROR(NeedList(node, "gpus", kMaxRecordedGpus));
  if (node.items.empty()) return Wrong(node, "gpus is empty");
  for (const YamlNode* item : node.items) RETURN_IF_ERROR(ReadGpu(*item, out.gpus.emplace_back()));
  return Ok();
}

// All but events and timeline, which refer to the rest.
Status ReadHead(const YamlNode::Member& member, NvmlRecording& out) {
  const std::string& name = member.key;
  const YamlNode& value = *member.value;
  if (name == "gpulens_recording") {
    int format = 0;
    RETURN_IF_ERROR(Whole(value, "gpulens_recording", 1 << 20, format));
    return format == NvmlRecording::kFormat ? Ok() : Wrong(value, "unknown format: expected 1");
  }
  if (name == "made_by") return Text(value, out.made_by);
  if (name == "made_at") return Text(value, out.made_at);
  if (name == "made_with") return Text(value, out.made_with);
  if (name == "driver") return Text(value, out.driver);
  if (name == "trouble") return Text(value, out.trouble, 1024);
  if (name == "identity") return ReadIdentity(value, out);
  if (name == "seconds") return Seconds(value, "seconds", 0.001, out.seconds);
  if (name == "every") return Seconds(value, "every", 0.001, out.every);
  if (name == "missing") return ReadMissing(value, out);
  if (name == "counters") return ReadCounters(value, out);
  if (name == "system") return ReadCalls(value, out.system);
  if (name == "gpus") return ReadGpus(value, out);
  if (name == "events" || name == "timeline") return Ok();
  return WrongKey(member, "unknown key '" + name + "'");
}

}  // namespace

Result<NvmlRecording> ReadRecording(const std::string& yaml) {
  if (yaml.size() > kMaxRecordingBytes) return Status{Code::kExhausted, "recording: larger than 16 MiB"};
  const YamlLimits limits{.bytes = kMaxRecordingBytes,
                          .values = 1'000'000,
                          .depth = 8,
                          .key_bytes = kMaxRecordingBytes,
                          .anchors = false};
  std::vector<YamlProblem> problems;
  YamlTree tree = ParseYaml(yaml, limits, problems);
  if (!problems.empty()) {
    const YamlProblem& problem = problems[0];
    return Wrong(problem.mark.line, problem.kind == YamlProblem::kTooDeep    ? "nested too deeply"
                                    : problem.kind == YamlProblem::kTooLarge ? "too large"
                                                                             : problem.message);
  }
  const YamlNode& root = tree.top();
  RETURN_IF_ERROR(NeedMap(root, "a recording"));
  NvmlRecording out;
  for (const YamlNode::Member& member : root.members) RETURN_IF_ERROR(ReadHead(member, out));
  const YamlNode *events = root.Find("events"), *timeline = root.Find("timeline");
  if (!root.Find("gpulens_recording")) return Wrong(root, "gpulens_recording is missing: not a recording");
  if (out.gpus.empty()) return Wrong(root, "gpus is missing");
  if (out.seconds <= 0) return Wrong(root, "seconds is missing");
  double last = 0;
  if (timeline) {
    RETURN_IF_ERROR(NeedList(*timeline, "timeline", kMaxMoments));
    for (const YamlNode* moment : timeline->items) RETURN_IF_ERROR(ReadMoment(*moment, last, out));
  }
  if (events) {
    RETURN_IF_ERROR(NeedList(*events, "events", kMaxEvents));
    double before = 0;
    for (const YamlNode* node : events->items) {
      RETURN_IF_ERROR(ReadEvent(*node, out.gpus.size(), out.events.emplace_back()));
      if (out.events.back().at < before) return Wrong(*node, "t goes back");
      before = out.events.back().at;
    }
  }
  return out;
}

}  // namespace gpulens::nvml
