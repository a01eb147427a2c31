#include <cmath>
#include <initializer_list>

#include "base/parse.h"
#include "base/result.h"
#include "sources/nvml/recording/recording.h"
#include "sources/nvml/recording/yaml_nodes.h"

namespace gpulens::nvml {
namespace {

using Kind = YamlValue::Kind;

constexpr size_t kMaxQuestions = 8192;  // Of one device.
constexpr size_t kMaxMoments = 200'000, kMaxEvents = 10'000;
constexpr double kMaxSeconds = 7 * 24 * 3600.0;

Status Wrong(const YamlValue& node, const std::string& what) {
  return {Code::kInvalidArgument, "recording line " + std::to_string(node.line) + ": " + what};
}

Status NeedMap(const YamlValue& node, const char* what) {
  return node.kind == Kind::kMap ? Ok() : Wrong(node, std::string(what) + " must be a map");
}

Status NeedList(const YamlValue& node, const char* what, size_t most) {
  if (node.kind != Kind::kList) return Wrong(node, std::string(what) + " must be a list");
  return node.items.size() <= most ? Ok() : Wrong(node, std::string(what) + " is too long");
}

Status Text(const YamlValue& node, std::string& out, size_t most = kMaxRecordedText) {
  if (node.kind != Kind::kScalar) return Wrong(node, "expected a single value");
  if (node.text.size() > most) return Wrong(node, "text is too long");
  out = node.text;
  return Ok();
}

Status Seconds(const YamlValue& node, const char* key, double least, double& out) {
  auto value = node.kind == Kind::kScalar ? ParseDouble(node.text) : std::nullopt;
  if (!value || !std::isfinite(*value) || *value < least || *value > kMaxSeconds)
    return Wrong(node, std::string(key) + " is not a time in seconds");
  out = std::round(*value * 1000) / 1000;  // As it is written.
  return Ok();
}

template <class T>
Status Whole(const YamlValue& node, const char* key, uint64_t most, T& out) {
  auto value = node.kind == Kind::kScalar ? ParseInt<uint64_t>(node.text) : std::nullopt;
  if (!value || *value > most) return Wrong(node, std::string(key) + " is not a whole number in range");
  out = static_cast<T>(*value);
  return Ok();
}

Status AddValue(const YamlValue& node, Answer& out) {
  if (out.values.size() == kMaxAnswerValues) return Wrong(node, "too many values");
  out.values.emplace_back();
  return Text(node, out.values.back());
}

// A code, values, or a code and values. `ok`: success without values.
Status ReadAnswer(const YamlValue& node, Answer& out) {
  auto code_of = [](const YamlValue& scalar) {
    return scalar.kind == Kind::kScalar && !scalar.quoted ? CodeOfWord(scalar.text) : -1;
  };
  out = {};
  if (node.kind == Kind::kMap) return Wrong(node, "an answer is a code or values, not a map");
  if (node.kind == Kind::kScalar) {
    if (int code = code_of(node); code > 0) out.code = code;
    else if (node.quoted || node.text != "ok") return AddValue(node, out);
    return Ok();
  }
  size_t at = 0;
  if (!node.items.empty()) {
    if (int code = code_of(node.items[0]); code > 0) out.code = code, at = 1;
  }
  for (; at < node.items.size(); ++at) {
    const YamlValue& item = node.items[at];
    if (item.kind == Kind::kMap) return Wrong(item, "an answer holds values, not maps");
    if (item.kind == Kind::kScalar) {
      RETURN_IF_ERROR(AddValue(item, out));
      continue;
    }
    for (const YamlValue& inner : item.items) RETURN_IF_ERROR(AddValue(inner, out));
  }
  return Ok();
}

Status ReadCalls(const YamlValue& node, Tracks& out) {
  RETURN_IF_ERROR(NeedMap(node, "calls"));
  if (node.items.size() / 2 > kMaxQuestions) return Wrong(node, "too many calls");
  for (size_t i = 0; i + 1 < node.items.size(); i += 2) {
    std::string question;
    RETURN_IF_ERROR(Text(node.items[i], question));
    if (!IsQuestion(question)) return Wrong(node.items[i], "the name of a call is printable ASCII");
    RETURN_IF_ERROR(ReadAnswer(node.items[i + 1], out[question].first));
  }
  return Ok();
}

Status ReadGpu(const YamlValue& node, RecordedGpu& out) {
  RETURN_IF_ERROR(NeedMap(node, "a GPU"));
  for (size_t i = 0; i + 1 < node.items.size(); i += 2) {
    const YamlValue &key = node.items[i], &value = node.items[i + 1];
    if (key.text == "calls") {
      RETURN_IF_ERROR(ReadCalls(value, out.calls));
    } else if (key.text == "mig") {
      RETURN_IF_ERROR(NeedMap(value, "mig"));
      for (size_t m = 0; m + 1 < value.items.size(); m += 2) {
        unsigned place = 0;
        RETURN_IF_ERROR(Whole(value.items[m], "the place of a MIG device", kMaxRecordedMig - 1, place));
        RETURN_IF_ERROR(ReadCalls(value.items[m + 1], out.mig[place]));
      }
    } else {
      return Wrong(key, "unknown key '" + key.text + "': a GPU has calls and mig");
    }
  }
  return Ok();
}

Status ReadEvent(const YamlValue& node, size_t gpus, RecordedEvent& out) {
  RETURN_IF_ERROR(NeedMap(node, "an event"));
  bool at = false, type = false;
  for (size_t i = 0; i + 1 < node.items.size(); i += 2) {
    const YamlValue &key = node.items[i], &value = node.items[i + 1];
    if (key.text == "t") {
      at = true;
      RETURN_IF_ERROR(Seconds(value, "t", 0, out.at));
    } else if (key.text == "gpu") {
      RETURN_IF_ERROR(Whole(value, "gpu", gpus - 1, out.gpu));
    } else if (key.text == "type") {
      type = true;
      RETURN_IF_ERROR(Whole(value, "type", UINT64_MAX, out.type));
    } else if (key.text == "data") {
      RETURN_IF_ERROR(Whole(value, "data", UINT64_MAX, out.data));
    } else if (key.text == "gpu_instance") {
      RETURN_IF_ERROR(Whole(value, "gpu_instance", UINT32_MAX, out.gpu_instance));
    } else if (key.text == "compute_instance") {
      RETURN_IF_ERROR(Whole(value, "compute_instance", UINT32_MAX, out.compute_instance));
    } else {
      return Wrong(key, "unknown key '" + key.text + "' of an event");
    }
  }
  return at && type ? Ok() : Wrong(node, "an event needs t and type");
}

// One moment: {t: 1.5, gpu0: {question: answer}}.
Status ReadMoment(const YamlValue& node, double& last, Recording& out) {
  RETURN_IF_ERROR(NeedMap(node, "a moment"));
  double t = -1;
  for (size_t i = 0; i + 1 < node.items.size(); i += 2) {
    if (node.items[i].text == "t") RETURN_IF_ERROR(Seconds(node.items[i + 1], "t", 0, t));
  }
  if (t < 0) return Wrong(node, "a moment needs t");
  if (t < last) return Wrong(node, "t goes back");
  last = t;
  for (size_t i = 0; i + 1 < node.items.size(); i += 2) {
    const YamlValue &key = node.items[i], &changes = node.items[i + 1];
    if (key.text == "t") continue;
    Tracks* tracks = out.Find(key.text);
    if (!tracks) return Wrong(key, "there is no '" + key.text + "' in this recording");
    RETURN_IF_ERROR(NeedMap(changes, "what changed"));
    for (size_t c = 0; c + 1 < changes.items.size(); c += 2) {
      auto found = tracks->find(changes.items[c].text);
      if (found == tracks->end())
        return Wrong(changes.items[c], "'" + changes.items[c].text + "' has no answer to begin with");
      Answer answer;
      RETURN_IF_ERROR(ReadAnswer(changes.items[c + 1], answer));
      found->second.later.emplace_back(t, std::move(answer));
    }
  }
  return Ok();
}

Status ReadCounters(const YamlValue& node, Recording& out) {
  RETURN_IF_ERROR(NeedMap(node, "counters"));
  for (size_t i = 0; i + 1 < node.items.size(); i += 2) {
    std::string base;
    RETURN_IF_ERROR(Text(node.items[i], base));
    if (!IsQuestion(base)) return Wrong(node.items[i], "the name of a call is printable ASCII");
    RETURN_IF_ERROR(Whole(node.items[i + 1], "the number of counters", 64, out.counters[base]));
  }
  return Ok();
}

Status ReadIdentity(const YamlValue& node, Recording& out) {
  std::string word;
  RETURN_IF_ERROR(Text(node, word));
  if (word != "kept" && word != "made up") return Wrong(node, "identity must be 'kept' or 'made up'");
  out.identity_kept = word == "kept";
  return Ok();
}

Status ReadMissing(const YamlValue& node, Recording& out) {
  RETURN_IF_ERROR(NeedList(node, "missing", 1024));
  for (const YamlValue& item : node.items) RETURN_IF_ERROR(Text(item, out.missing.emplace_back()));
  return Ok();
}

Status ReadGpus(const YamlValue& node, Recording& out) {
  RETURN_IF_ERROR(NeedList(node, "gpus", kMaxRecordedGpus));
  if (node.items.empty()) return Wrong(node, "gpus is empty");
  for (const YamlValue& item : node.items) RETURN_IF_ERROR(ReadGpu(item, out.gpus.emplace_back()));
  return Ok();
}

// All but events and timeline, which refer to the rest.
Status ReadHead(const YamlValue& key, const YamlValue& value, Recording& out) {
  const std::string& name = key.text;
  if (name == "gpulens_recording") {
    int format = 0;
    RETURN_IF_ERROR(Whole(value, "gpulens_recording", 1 << 20, format));
    return format == Recording::kFormat ? Ok() : Wrong(value, "unknown format: expected 1");
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
  return Wrong(key, "unknown key '" + name + "'");
}

}  // namespace

Result<Recording> ReadRecording(const std::string& yaml) {
  if (yaml.size() > kMaxRecordingBytes) return Status{Code::kExhausted, "recording: larger than 16 MiB"};
  ASSIGN_OR_RETURN(YamlValue root, ParseYamlNodes(yaml));
  RETURN_IF_ERROR(NeedMap(root, "a recording"));
  Recording out;
  const YamlValue *events = nullptr, *timeline = nullptr;
  bool format = false;
  for (size_t i = 0; i + 1 < root.items.size(); i += 2) {
    const YamlValue &key = root.items[i], &value = root.items[i + 1];
    format |= key.text == "gpulens_recording";
    RETURN_IF_ERROR(ReadHead(key, value, out));
    if (key.text == "events") events = &value;
    if (key.text == "timeline") timeline = &value;
  }
  if (!format) return Wrong(root, "gpulens_recording is missing: not a recording");
  if (out.gpus.empty()) return Wrong(root, "gpus is missing");
  if (out.seconds <= 0) return Wrong(root, "seconds is missing");
  double last = 0;
  if (timeline) {
    RETURN_IF_ERROR(NeedList(*timeline, "timeline", kMaxMoments));
    for (const YamlValue& moment : timeline->items) RETURN_IF_ERROR(ReadMoment(moment, last, out));
  }
  if (events) {
    RETURN_IF_ERROR(NeedList(*events, "events", kMaxEvents));
    double before = 0;
    for (const YamlValue& node : events->items) {
      RETURN_IF_ERROR(ReadEvent(node, out.gpus.size(), out.events.emplace_back()));
      if (out.events.back().at < before) return Wrong(node, "t goes back");
      before = out.events.back().at;
    }
  }
  return out;
}

}  // namespace gpulens::nvml
