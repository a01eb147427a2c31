#include "agent/status/queue_findings.h"

#include <algorithm>
#include <cstdio>

#include "agent/plugin_tables.h"
#include "delivery/leftover_watch.h"

namespace gpulens {

SinkQueues SinkQueuesOf(const Config& config) {
  SinkQueues queues;
  for (const SinkSpec* spec : AllSinks()) {
    if (!spec->network) continue;
    for (const std::string& name : NamesOfSink(*spec, config)) {
      const Config& own = config.Group("sinks").Group(name);
      if (!own.Bool("enabled")) continue;
      queues.sinks.push_back(name);
      const std::string& folder = own.Group("queue").Text("dir");
      if (!folder.empty()) queues.chosen.push_back({folder, name});
    }
  }
  std::sort(queues.sinks.begin(), queues.sinks.end());
  return queues;
}

std::string QueueRootOf(const std::string& state_dir) {
  return state_dir.empty() ? "" : state_dir + "/queue";
}

Finding LeftoverFinding(const std::string& sink, uint64_t bytes) {
  return {Finding::kWarning, "sink " + sink,
          SizeText(bytes) + " wait on disk for it, and it is not configured",
          "it was removed from the configuration, or has another name now",
          "configure it again to deliver them, or drop them: gpulens queue drop " + sink};
}

std::vector<Finding> LeftoverFindings(const Config& config, const std::string& state_dir) {
  const SinkQueues queues = SinkQueuesOf(config);
  const QueuePlaces all = AllQueuePlaces(QueueRootOf(state_dir), queues.chosen);
  std::vector<Finding> findings;
  if (!all.status)
    findings.push_back(
        {all.status.code == Code::kPermissionDenied ? Finding::kNoPermission : Finding::kWarning, "queue",
         "the queues of sinks cannot be read", all.status.detail, ""});
  QueueScanOptions options;
  options.configured = queues.sinks;
  options.leftovers_only = true;
  options.query_use = false;
  std::vector<QueueFolder> folders;
  for (const QueuePlace& place : all.places) folders.push_back(ScanQueue(place, options));
  for (const QueueLeftover& one : LeftoversIn(folders))
    findings.push_back(LeftoverFinding(one.sink, one.bytes));
  return findings;
}

std::string SizeText(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

}  // namespace gpulens
