#include <algorithm>
#include <cstdio>
#include <set>
#include <tuple>

#include "sources/nvml/recording/recording.h"

namespace gpulens::nvml {
namespace {

// Lists of rows, by how many values a row has.
struct RowsOfCall {
  std::string_view words;
  size_t width;
};
constexpr RowsOfCall kRows[] = {
    {"RunningProcesses_v3", 4}, {"RunningProcesses_v2", 4},         {"RunningProcesses", 2},
    {"ProcessUtilization", 5},  {"GetProcessesUtilizationInfo", 7},
};

bool IsPlain(std::string_view text) {
  if (text.empty() || text == "-" || text == "ok" || text == "null" || text == "Null" || text == "NULL" ||
      CodeOfWord(text) >= 0) {
    return false;
  }
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '_' || c == '-';
  });
}

bool PlainKey(std::string_view text) {
  auto letter = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (text.empty() || !letter(text.front()) || text.back() == ' ') return false;
  if (text == "null" || text == "Null" || text == "NULL") return false;
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return letter(c) || c == '.' || c == '(' || c == ')' || c == ',' || c == ' ' || c == '-';
  });
}

void AppendQuoted(std::string& out, std::string_view text) {
  out += '"';
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') (out += '\\') += c;
    else if (byte >= 0x20) out += byte < 0x7F ? c : '?';  // The library speaks ASCII.
    else {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\x%02X", byte);
      out += escape;
    }
  }
  out += '"';
}

void AppendText(std::string& out, std::string_view text) {
  if (IsPlain(text)) out += text;
  else AppendQuoted(out, text);
}

void AppendKey(std::string& out, std::string_view text) {
  if (PlainKey(text)) out += text;
  else AppendQuoted(out, text);
  out += ": ";
}

void AppendSeconds(std::string& out, double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", seconds);
  out += text;
}

size_t WidthOf(std::string_view question) {
  for (const RowsOfCall& rows : kRows) {
    if (BaseOf(question).ends_with(rows.words)) return rows.width;
  }
  return 0;
}

void AppendAnswer(std::string& out, std::string_view question, const RecordedAnswer& answer) {
  if (answer.values.empty()) {
    if (answer.code == 0) out += WidthOf(question) ? "[]" : "ok";
    else out += WordOfCode(answer.code);
    return;
  }
  if (answer.values.size() == 1 && answer.code == 0) return AppendText(out, answer.values[0]);
  size_t width = WidthOf(question);
  bool rows = width > 0 && answer.values.size() % width == 0;
  out += '[';
  if (answer.code != 0) (out += WordOfCode(answer.code)) += ", ";
  for (size_t i = 0; i < answer.values.size(); ++i) {
    if (i > 0) out += rows && i % width == 0 ? "], " : ", ";
    if (rows && i % width == 0) out += '[';
    AppendText(out, answer.values[i]);
  }
  out += rows ? "]]" : "]";
}

void AppendCall(std::string& out, const char* indent, std::string_view question,
                const RecordedAnswer& answer) {
  AppendKey(out += indent, question);
  AppendAnswer(out, question, answer);
  out += '\n';
}

void AppendCalls(std::string& out, const char* indent, const AnswerTracks& tracks) {
  for (const auto& [question, track] : tracks) AppendCall(out, indent, question, track.first);
}

struct Change {
  double at;
  size_t device;  // A place among the names.
  std::string_view question;
  const RecordedAnswer* answer;
  size_t order;  // As they were found: it decides between those that are alike.
};

class Timeline {
 public:
  explicit Timeline(const NvmlRecording& recording) {
    Add("system", recording.system);
    for (size_t i = 0; i < recording.gpus.size(); ++i) {
      std::string name = "gpu" + std::to_string(i);
      Add(name, recording.gpus[i].calls);
      for (const auto& [place, tracks] : recording.gpus[i].mig)
        Add(name + ".mig" + std::to_string(place), tracks);
    }
    std::sort(changes_.begin(), changes_.end(), [](const Change& a, const Change& b) {
      return std::tie(a.at, a.order) < std::tie(b.at, b.order);
    });
  }

  void Append(std::string& out, double merge) {
    for (size_t at = 0; at < changes_.size();) {
      size_t end = EndOfMoment(at, merge);
      std::sort(changes_.begin() + static_cast<std::ptrdiff_t>(at),
                changes_.begin() + static_cast<std::ptrdiff_t>(end), [](const Change& x, const Change& y) {
                  return std::tie(x.device, x.at, x.order) < std::tie(y.device, y.at, y.order);
                });
      AppendMoment(out, at, end);
      at = end;
    }
  }

 private:
  void Add(std::string name, const AnswerTracks& tracks) {
    for (const auto& [question, track] : tracks) {
      for (const auto& [at, answer] : track.later)
        changes_.push_back({at, names_.size(), question, &answer, changes_.size()});
    }
    names_.push_back(std::move(name));
  }
  // What lies near together is one moment, but nothing can change twice in it.
  size_t EndOfMoment(size_t at, double merge) const {
    std::set<std::pair<size_t, std::string_view>> seen;
    size_t end = at;
    for (; end < changes_.size() && changes_[end].at < changes_[at].at + merge + 1e-9; ++end) {
      if (!seen.insert({changes_[end].device, changes_[end].question}).second) break;
    }
    return std::max(end, at + 1);
  }
  void AppendMoment(std::string& out, size_t at, size_t end) const {
    out += "- t: ";
    AppendSeconds(out, changes_[at].at);
    out += '\n';
    for (size_t i = at; i < end; ++i) {
      if (i == at || changes_[i].device != changes_[i - 1].device)
        ((out += "  ") += names_[changes_[i].device]) += ":\n";
      AppendCall(out, "    ", changes_[i].question, *changes_[i].answer);
    }
  }

  std::vector<std::string> names_;
  std::vector<Change> changes_;
};

void AppendHead(std::string& out, const NvmlRecording& recording) {
  auto line = [&](const char* key, std::string_view text) {
    if (text.empty()) return;
    (out += key) += ": ";
    AppendText(out, text);
    out += '\n';
  };
  out +=
      "# What the NVIDIA library (NVML) of one machine answered, call by call: \"nvmlX(selector): values\" "
      "or\n# an error code; \"field N(scope)\" is a value of nvmlDeviceGetFieldValues. Changes are in the\n# "
      "timeline, in seconds. Replay: gpulens agent --demo with GPULENS_FAKE_NVML naming this file.\n";
  line("gpulens_recording", std::to_string(NvmlRecording::kFormat));
  line("made_by", recording.made_by);
  line("made_at", recording.made_at);
  line("made_with", recording.made_with);
  line("driver", recording.driver);
  out += recording.identity_kept ? "identity: kept\n" : "identity: made up\n";
  out += "seconds: ";
  AppendSeconds(out, recording.seconds);
  out += "\nevery: ";
  AppendSeconds(out, recording.every);
  out += '\n';
  line("trouble", recording.trouble);
}

void AppendEvents(std::string& out, const std::vector<RecordedEvent>& events) {
  if (events.empty()) return;
  out += "events:\n";
  for (const RecordedEvent& event : events) {
    out += "- {t: ";
    AppendSeconds(out, event.at);
    out += ", gpu: " + std::to_string(event.gpu) + ", type: " + std::to_string(event.type) +
           ", data: " + std::to_string(event.data);
    if (event.gpu_instance != ~0U) out += ", gpu_instance: " + std::to_string(event.gpu_instance);
    if (event.compute_instance != ~0U) out += ", compute_instance: " + std::to_string(event.compute_instance);
    out += "}\n";
  }
}

}  // namespace

std::string WriteRecording(const NvmlRecording& recording, double merge_seconds) {
  std::string out;
  AppendHead(out, recording);
  if (!recording.missing.empty()) {
    out += "missing:\n";
    for (const std::string& name : recording.missing) {
      out += "- ";
      AppendText(out, name);
      out += '\n';
    }
  }
  if (!recording.counters.empty()) {
    out +=
        "counters:  # Number of leading values that only grow; they keep growing when a replay restarts.\n";
    for (const auto& [base, count] : recording.counters)
      AppendKey(out += "  ", base), out += std::to_string(count) + '\n';
  }
  out += recording.system.empty() ? "system: {}\n" : "system:\n";
  AppendCalls(out, "  ", recording.system);
  out += "gpus:\n";
  for (const RecordedGpu& gpu : recording.gpus) {
    out += gpu.calls.empty() ? "- calls: {}\n" : "- calls:\n";
    AppendCalls(out, "    ", gpu.calls);
    if (!gpu.mig.empty()) out += "  mig:\n";
    for (const auto& [place, tracks] : gpu.mig) {
      out += "    " + std::to_string(place) + (tracks.empty() ? ": {}\n" : ":\n");
      AppendCalls(out, "      ", tracks);
    }
  }
  AppendEvents(out, recording.events);
  Timeline timeline(recording);
  std::string moments;
  timeline.Append(moments, merge_seconds);
  if (!moments.empty()) (out += "timeline:\n") += moments;
  return out;
}

}  // namespace gpulens::nvml
