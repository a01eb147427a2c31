#include "cli/queue/queue_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "agent/run/config_file.h"
#include "agent/run/plan.h"
#include "agent/status/query_status.h"
#include "agent/status/queue_findings.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/queue/queue_text.h"
#include "cli/table/text_table.h"
#include "delivery/queue_folders.h"

namespace gpulens {
namespace {

constexpr const char* kQueueFooter = R"(
  gpulens queue list                  what waits for which sink, and in which folder
  gpulens queue list --json
  gpulens queue drop otlp/b           drop what waits for a sink that is not configured
  gpulens queue drop otlp/b --yes     without a question

Works with and without a running agent. Data for a configured sink is never dropped: remove the sink from the
configuration and reload first.
Exit: 0 listed or dropped · 1 cannot be read, or was not dropped · 2 wrong use)";

int ComplainOfQueue(const char* command, const std::string& text, int code) {
  WriteNote(std::string("gpulens queue ") + command + ": " + text);
  return code;
}

struct Queues {
  std::string root;
  std::vector<std::string> configured;
  std::vector<QueuePlace> chosen;
  std::string error;  // of the configuration
};

// A sink counts as configured when the file names it or the agent that runs has it: between a change of the
// file and the reload the two differ.
Queues FindQueues(const QueueOptions& options, const char* command) {
  Queues queues;
  std::unique_ptr<Schema> schema = MakeSchema();
  LoadOutcome loaded = LoadConfig(*schema, FindConfigFile(options.config_file), {});
  if (!loaded.ok()) {
    queues.error = loaded.Errors();
    return queues;
  }
  SinkQueues own = SinkQueuesOf(loaded.config);
  queues.configured = std::move(own.sinks);
  queues.chosen = std::move(own.chosen);
  std::string folder = options.state_dir.empty() ? loaded.config.Text("state_dir") : options.state_dir;
  const bool named = !folder.empty();
  if (!named) folder = StateDir("");
  const QueriedStatus asked = QueryRunningAgent(loaded.config);
  if (asked.report) {
    // Another agent than that of the folder that was named says nothing of it.
    const std::string& its = asked.report->state_dir;
    if (!named || its == DemoStateDir(folder)) folder = its;
    if (its == folder)
      queues.configured.insert(queues.configured.end(), asked.report->sinks.begin(),
                               asked.report->sinks.end());
  } else if (!asked.at.empty()) {
    WriteNote(std::string("gpulens queue ") + command + ": " + asked.at +
              " does not report its sinks: " + asked.refusal);
  }
  queues.root = QueueRootOf(folder);
  return queues;
}

bool IsConfigured(const Queues& queues, const std::string& sink) {
  return std::find(queues.configured.begin(), queues.configured.end(), sink) != queues.configured.end();
}

std::string Requests(uint64_t records) {
  return CountText(static_cast<int64_t>(records)) + (records == 1 ? " request" : " requests");
}

bool IsConfirmed(const std::string& question) {
  ::dprintf(STDERR_FILENO, "%s [y/N] ", question.c_str());
  char answer[8] = {};
  const ssize_t got = ::read(STDIN_FILENO, answer, sizeof answer - 1);
  return got > 0 && (answer[0] == 'y' || answer[0] == 'Y');
}

struct Kept {
  std::vector<QueuePlace> places;
  uint64_t records = 0, bytes = 0;
};

// The folders that keep a place for the sink.
Kept FindKept(const Queues& queues, const std::string& sink, Status& status) {
  Kept kept;
  QueuePlaces all = AllQueuePlaces(queues.root, queues.chosen);
  status = std::move(all.status);
  QueueScanOptions options;
  options.query_use = false;
  for (const QueuePlace& place : all.places) {
    const QueueFolder folder = ScanQueue(place, options);
    for (const QueueReader& reader : folder.readers) {
      if (reader.sink != sink) continue;
      kept.places.push_back(place);
      kept.records += reader.records;
      kept.bytes += reader.bytes;
    }
  }
  return kept;
}

int Drop(const Kept& kept, const std::string& sink) {
  uint64_t freed = 0;
  std::string later;
  int code = 0;
  for (const QueuePlace& place : kept.places) {
    const auto dropped = DropFromQueue(place, sink, RealClock());
    if (!dropped) {
      code = ComplainOfQueue("drop", dropped.error().detail, 1);
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

}  // namespace

int RunQueueList(const QueueOptions& options) {
  const Queues queues = FindQueues(options, "list");
  if (!queues.error.empty()) return ComplainOfQueue("list", queues.error, 2);
  const QueuePlaces all = AllQueuePlaces(queues.root, queues.chosen);
  QueueView view;
  view.root = queues.root;
  view.problem = all.status.detail;
  QueueScanOptions scan;
  scan.configured = queues.configured;
  for (const QueuePlace& place : all.places) {
    QueueFolder folder = ScanQueue(place, scan);
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
  if (!queues.error.empty()) return ComplainOfQueue("drop", queues.error, 2);
  if (IsConfigured(queues, sink))
    return ComplainOfQueue("drop",
                           sink +
                               " is configured, and its queued data will be delivered. To drop the data, "
                               "remove the sink from the configuration and reload first.",
                           2);
  Status listed;
  const Kept kept = FindKept(queues, sink, listed);
  if (kept.places.empty() && !listed) return ComplainOfQueue("drop", listed.detail, 1);
  if (kept.places.empty())
    return ComplainOfQueue("drop", "nothing is queued for " + sink + "; list the queues: gpulens queue list",
                           1);
  if (!options.yes) {
    if (::isatty(STDIN_FILENO) == 0)
      return ComplainOfQueue("drop", "no terminal to confirm on; pass --yes to drop without confirmation", 2);
    std::string question = "Drop " + Requests(kept.records) + " (" + SizeText(kept.bytes) + ") queued for ";
    AppendPrintable(question, sink);
    if (!IsConfirmed(question + "?")) return ComplainOfQueue("drop", "nothing was dropped", 1);
  }
  return Drop(kept, sink);
}

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
    command->add_option("--config", options.config_file, "Configuration file (YAML)")->type_name("FILE");
    command->add_option("--state-dir", options.state_dir, "The agent's state folder")->type_name("D");
  }
  list->callback([kept, &code] { code = RunQueueList(*kept); });
  drop->callback([kept, &code] { code = RunQueueDrop(*kept); });
}

}  // namespace gpulens
