#include "cli/queue/queue_text.h"

#include <algorithm>

#include "agent/status/queue_findings.h"
#include "base/text.h"
#include "cli/table/text_table.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

// "2 d", "3 h", "17 min", "42 s": the largest unit of which there are two, or seconds.
std::string AgeText(int64_t unix_ns, int64_t now_unix_ns) {
  const int64_t seconds = std::max<int64_t>(0, (now_unix_ns - unix_ns) / 1'000'000'000);
  constexpr std::pair<int64_t, const char*> kUnits[] = {{86'400, " d"}, {3'600, " h"}, {60, " min"}};
  for (const auto& [length, name] : kUnits)
    if (seconds >= 2 * length) return std::to_string(seconds / length) + name;
  return std::to_string(seconds) + " s";
}

void AppendTextMember(std::string& out, std::string_view key, std::string_view value) {
  AppendJsonString(out, key);
  out += ':';
  AppendJsonString(out, value);
}

void AppendReader(std::string& out, const QueueReader& reader) {
  out += '{';
  AppendTextMember(out, "sink", reader.sink);
  out += reader.configured ? ",\"configured\":true" : ",\"configured\":false";
  out += ",\"requests\":" + std::to_string(reader.records) + ",\"bytes\":" + std::to_string(reader.bytes);
  if (reader.records != 0) {
    out += ",\"oldest\":\"";
    AppendRfc3339(out, reader.oldest_unix_ns);
    out += '"';
  }
  out += '}';
}

}  // namespace

std::string QueueTable(const QueueView& view, int64_t now_unix_ns) {
  TextTable table({"SINK", "CONFIGURED", "REQUESTS", "SIZE", "OLDEST", "FOLDER", "FILES", "USED BY"});
  for (const size_t column : {size_t{2}, size_t{3}, size_t{4}, size_t{6}}) table.AlignRight(column);
  std::string notes;
  bool any = false;
  for (const QueueFolder& folder : view.folders) {
    for (const QueueReader& reader : folder.readers) {
      any = true;
      table.Add({reader.sink, reader.configured ? "yes" : "no",
                 CountText(static_cast<int64_t>(reader.records)), SizeText(reader.bytes),
                 reader.records == 0 ? kNoValue : AgeText(reader.oldest_unix_ns, now_unix_ns), folder.path,
                 SizeText(folder.file_bytes),
                 !folder.in_use       ? kNoValue
                 : folder.holder == 0 ? "a process"
                                      : "process " + std::to_string(folder.holder)});
    }
    for (const std::string& problem : folder.problems) notes += "▲ " + folder.path + ": " + problem + "\n";
  }
  if (!view.problem.empty()) notes += "▲ " + view.problem + "\n";
  if (any) return table.Text() + notes;
  return (view.root.empty() ? "there is no state folder, and no sink has its own folder"
                            : "no sink has a queue in " + view.root) +
         "\n" + notes;
}

std::string QueueJson(const QueueView& view) {
  std::string out = "{\"schema\":\"gpulens.queue/1\",";
  AppendTextMember(out, "root", view.root);
  if (!view.problem.empty()) {
    out += ',';
    AppendTextMember(out, "problem", view.problem);
  }
  out += ",\"folders\":[";
  for (const QueueFolder& folder : view.folders) {
    out += out.back() == '[' ? "\n{" : ",\n{";
    AppendTextMember(out, "folder", folder.path);
    out += folder.in_use ? ",\"in_use\":true" : ",\"in_use\":false";
    if (folder.holder != 0) out += ",\"pid\":" + std::to_string(folder.holder);
    out += ",\"segments\":" + std::to_string(folder.segments) +
           ",\"file_bytes\":" + std::to_string(folder.file_bytes) + ",\"sinks\":[";
    for (const QueueReader& reader : folder.readers) {
      if (out.back() != '[') out += ',';
      AppendReader(out, reader);
    }
    out += "],\"problems\":[";
    for (const std::string& problem : folder.problems) {
      if (out.back() != '[') out += ',';
      AppendJsonString(out, problem);
    }
    out += "]}";
  }
  return out + "\n]}\n";
}

}  // namespace gpulens
