#include "cli/queue/queue_text.h"

#include <algorithm>

#include "agent/status/agent_watch.h"
#include "base/text.h"
#include "cli/common/json_object.h"
#include "cli/common/text_table.h"
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

void AppendReader(std::string& out, const QueueReader& reader) {
  JsonObject object(out);
  object.Text("sink", reader.sink);
  object.Flag("configured", reader.configured);
  object.Count("requests", reader.records);
  object.Count("bytes", reader.bytes);
  if (reader.records != 0) object.Time("oldest", reader.oldest_unix_ns);
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
  return JsonDocumentText("gpulens.queue/1", [&](JsonObject& root) {
    root.Text("root", view.root);
    root.TextIfAny("problem", view.problem);
    auto add_folder = [](std::string& out, const QueueFolder& folder) {
      JsonObject object(out);
      object.Text("folder", folder.path);
      object.Flag("in_use", folder.in_use);
      if (folder.holder != 0) object.Whole("pid", folder.holder);
      object.Count("segments", folder.segments);
      object.Count("file_bytes", folder.file_bytes);
      object.List("sinks", folder.readers, AppendReader);
      object.Texts("problems", folder.problems);
    };
    root.List("folders", view.folders, add_folder, "\n", "\n");
  });
}

}  // namespace gpulens
