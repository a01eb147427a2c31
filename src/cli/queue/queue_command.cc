#include "cli/queue/queue_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "agent/status/agent_watch.h"
#include "agent/status/status_report.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/common/output.h"
#include "cli/help/help.h"
#include "wire/json/json_object.h"
#include "wire/json/json_text.h"

namespace gpulens {

namespace {

struct QueueOptions {
  std::string config_file, state_dir;
  std::string sink;  // of drop
  bool json = false, yes = false;
};

constexpr const char* kQueueFooter = R"(
  gpulens queue list                  what waits for which sink, and in which folder
  gpulens queue list --json
  gpulens queue drop otlp/b           drop what waits for a sink that is not configured
  gpulens queue drop otlp/b --yes     without a question

Works with and without a running agent. Data for a configured sink is never dropped: remove the sink from the
configuration and reload first.
Exit: 0 listed or dropped · 1 cannot be read, or was not dropped · 2 wrong use)";

struct Queues {
  std::string root;
  std::vector<std::string> configured;
  std::vector<QueuePlace> chosen;
  std::string error;  // of the configuration
};

// A sink is configured if the file names it or the running agent has it; the two differ between a change of
// the file and the reload.
Queues FindQueues(const QueueOptions& options, const char* command) {
  Queues queues;
  const CommandConfig loaded = LoadCommandConfig(options.config_file, nullptr);
  if (!loaded.ok()) {
    queues.error = loaded.loaded.Errors();
    return queues;
  }
  SinkQueues own = SinkQueuesOf(loaded.config());
  queues.configured = std::move(own.sinks);
  queues.chosen = std::move(own.chosen);
  std::string folder = options.state_dir.empty() ? loaded.config().Text("state_dir") : options.state_dir;
  const bool named = !folder.empty();
  if (!named) folder = StateDir("");
  const QueriedStatus queried = QueryRunningAgent(loaded.config());
  if (queried.report) {
    // Ignores an agent with another folder.
    const std::string& its = queried.report->state_dir;
    if (!named || its == DemoStateDir(folder)) folder = its;
    if (its == folder)
      queues.configured.insert(queues.configured.end(), queried.report->sinks.begin(),
                               queried.report->sinks.end());
  } else if (!queried.at.empty()) {
    WriteNote(std::string("gpulens queue ") + command + ": " + queried.at +
              " does not report its sinks: " + queried.refusal);
  }
  queues.root = QueueRootOf(folder);
  return queues;
}

bool IsConfigured(const Queues& queues, const std::string& sink) {
  return std::ranges::find(queues.configured, sink) != queues.configured.end();
}

std::string Requests(uint64_t records) {
  return CountText(static_cast<int64_t>(records)) + (records == 1 ? " request" : " requests");
}

struct SinkData {
  std::vector<QueuePlace> places;
  uint64_t records = 0, bytes = 0;
};

// Finds the folders with data for the sink.
SinkData FindKept(const Queues& queues, const std::string& sink, Status& status) {
  SinkData kept;
  QueuePlaces all = AllQueuePlaces(queues.root, queues.chosen);
  status = std::move(all.status);
  QueueScanOptions look;
  look.query_use = false;
  for (const QueuePlace& place : all.places) {
    const QueueFolder folder = ScanQueue(place, look);
    for (const QueueReader& reader : folder.readers) {
      if (reader.sink != sink) continue;
      kept.places.push_back(place);
      kept.records += reader.records;
      kept.bytes += reader.bytes;
    }
  }
  return kept;
}

int Drop(const SinkData& kept, const std::string& sink) {
  uint64_t freed = 0;
  std::string later;
  int code = 0;
  for (const QueuePlace& place : kept.places) {
    const auto dropped = DropFromQueue(place, sink, RealClock());
    if (!dropped) {
      code = FailCommand("queue drop", dropped.error().detail, 1);
      continue;
    }
    freed += dropped->freed_bytes;
    if (dropped->in_use)
      later = dropped->holder == 0 ? "the agent" : "process " + std::to_string(dropped->holder);
  }
  std::string text = code == 0 ? "Dropped " + Requests(kept.records) + " queued for " + sink + ": "
                               : "Some of the data queued for " + sink + " was dropped: ";
  text += SizeText(freed) + " on disk are free.";
  if (!later.empty()) text += " The rest is freed by " + later + " within a minute.";
  return WriteOut(text + "\n") ? code : 1;
}

int RunQueueList(const QueueOptions& options) {
  const Queues queues = FindQueues(options, "list");
  if (!queues.error.empty()) return FailCommand("queue list", queues.error, 2);
  const QueuePlaces all = AllQueuePlaces(queues.root, queues.chosen);
  QueueView view;
  view.root = queues.root;
  view.problem = all.status.detail;
  QueueScanOptions look;
  look.configured = queues.configured;
  for (const QueuePlace& place : all.places) {
    QueueFolder folder = ScanQueue(place, look);
    if (!folder.readers.empty() || !folder.problems.empty() || folder.segments != 0)
      view.folders.push_back(std::move(folder));
  }
  const std::string text = options.json ? QueueJson(view) : QueueTable(view, RealClock().Now().unix_ns);
  return WriteOut(text) && all.status ? 0 : 1;
}

int RunQueueDrop(const QueueOptions& options) {
  static_cast<void>(SetLogLevels("error"));
  const std::string& sink = options.sink;
  const Queues queues = FindQueues(options, "drop");
  if (!queues.error.empty()) return FailCommand("queue drop", queues.error, 2);
  if (IsConfigured(queues, sink))
    return FailCommand("queue drop",
                       sink +
                           " is configured, and its queued data will be delivered. To drop the data, "
                           "remove the sink from the configuration and reload first.",
                       2);
  Status listed;
  const SinkData kept = FindKept(queues, sink, listed);
  if (kept.places.empty() && !listed) return FailCommand("queue drop", listed.detail, 1);
  if (kept.places.empty())
    return FailCommand("queue drop",
                       "nothing is queued for " + sink + "; list the queues: gpulens queue list", 1);
  if (!options.yes) {
    if (::isatty(STDIN_FILENO) == 0)
      return FailCommand("queue drop", "no terminal to confirm on; pass --yes to drop without confirmation",
                         2);
    // IsConfirmed escapes the name.
    if (!IsConfirmed("Drop " + Requests(kept.records) + " (" + SizeText(kept.bytes) + ") queued for " + sink +
                     "? [y/N] "))
      return FailCommand("queue drop", "nothing was dropped", 1);
  }
  return Drop(kept, sink);
}

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

void AddQueue(CLI::App& app, int& code) {
  auto kept = std::make_shared<QueueOptions>();
  QueueOptions& options = *kept;
  CLI::App* queue =
      app.add_subcommand("queue", "List the data queued on disk for sinks; drop data of removed sinks.");
  queue->group("Set up");
  queue->require_subcommand(1);
  queue->footer(kQueueFooter);
  CLI::App* list = queue->add_subcommand("list", "List the queued data of each sink and its folder.");
  list->add_flag("--json", options.json, "JSON");
  CLI::App* drop = queue->add_subcommand("drop", "Drop the queued data of a sink that is not configured.");
  drop->add_option("SINK", options.sink, "Name of the sink, as it was configured: otlp/b")->required();
  drop->add_flag("--yes", options.yes, "Do not ask for confirmation");
  for (CLI::App* command : {list, drop}) {
    AddConfigOption(*command, options.config_file);
    AddOption(*command, "--state-dir", options.state_dir, "The agent's state folder", "D");
  }
  list->callback([kept, &code] { code = RunQueueList(*kept); });
  drop->callback([kept, &code] { code = RunQueueDrop(*kept); });
}

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
