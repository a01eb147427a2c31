// Findings that follow from a tick alone (GPUs, sinks, the store), and from the state folder.

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "agent/status/agent_watch.h"
#include "agent/status/queue_findings.h"
#include "base/files.h"
#include "catalog/gpu.h"
#include "catalog/self.h"
#include "plugins/analyzers/fleet_health/health_score.h"

namespace gpulens {
namespace {

// A request that waits for so long is not just the next one in turn.
constexpr double kLongestWait = 120;

struct GpuSeen {
  std::string index, model, state, health;
  std::vector<std::string> reasons;
};

// Calls `visit(info, value)` for every fresh series of the family.
template <class Visit>
void ForEachFresh(const Snapshot& snapshot, const MetricDesc& desc, Visit visit) {
  SeriesFinder(desc).ForEach(snapshot,
                             [&](const SeriesInfo& info, double value, const Frame& frame, uint32_t slot) {
                               if (frame.quality[slot] == Quality::kOk) visit(info, value);
                             });
}

std::string SentenceOf(const std::string& reason) {
  for (const HealthConditionRow& row : kHealthConditionRows) {
    if (row.name == reason) return std::string(row.when);
  }
  return reason;
}

std::map<std::string, GpuSeen> GpusOf(const Snapshot& snapshot) {
  std::map<std::string, GpuSeen> gpus;  // in the order of their numbers, as far as there are fewer than 1,000
  auto of = [&](const SeriesInfo& info) -> GpuSeen& {
    std::string index = info.attributes.Text("gpu.index");
    std::string key = std::string(index.size() < 3 ? 3 - index.size() : 0, '0') + index + " " +
                      info.attributes.Text("gpu.uuid");
    GpuSeen& gpu = gpus[key];
    gpu.index = index;
    gpu.model = info.attributes.Text("gpu.model");
    return gpu;
  };
  auto whole = [](const SeriesInfo& info) {
    return info.attributes.Has("gpu.index") && !info.attributes.Has("gpu.mig.instance_id");
  };
  ForEachFresh(snapshot, kGpuInfo, [&](const SeriesInfo& info, double) {
    if (whole(info)) of(info);
  });
  ForEachFresh(snapshot, kGpuState, [&](const SeriesInfo& info, double value) {
    if (whole(info) && value == 1) of(info).state = info.attributes.Text("gpu.state");
  });
  ForEachFresh(snapshot, kGpuHealthState, [&](const SeriesInfo& info, double value) {
    if (whole(info) && value == 1) of(info).health = info.attributes.Text("gpu.health.state");
  });
  ForEachFresh(snapshot, kGpuHealthCondition, [&](const SeriesInfo& info, double value) {
    if (whole(info) && value == 1) of(info).reasons.push_back(info.attributes.Text("gpu.health.reason"));
  });
  return gpus;
}

Finding FindingOf(const GpuSeen& gpu) {
  Finding finding;
  finding.subject = "GPU " + gpu.index;
  if (gpu.health.empty() && gpu.state == "no_permission") {
    finding.kind = Finding::kNoPermission;
    finding.what = "its health is unknown";
    finding.why = "the agent has no permission to read it";
    return finding;
  }
  if (gpu.health.empty()) {
    bool away = !gpu.state.empty() && gpu.state != "ok";
    finding.kind = away ? Finding::kBroken : Finding::kWarning;
    finding.what = away ? "is " + gpu.state : "its health is unknown";
    finding.why = away ? "" : "none of its readings is new";
    return finding;
  }
  finding.kind = gpu.health == "failed" ? Finding::kBroken : Finding::kWarning;
  finding.what = "is " + gpu.health + (gpu.model.empty() ? "" : " (" + gpu.model + ")");
  for (const std::string& reason : gpu.reasons)
    finding.why += (finding.why.empty() ? "" : "; ") + reason + ": " + SentenceOf(reason);
  finding.remedy = "gpulens events --gpu " + gpu.index;
  return finding;
}

}  // namespace

std::vector<Finding> GpuFindings(const Snapshot& snapshot) {
  std::vector<Finding> findings;
  std::map<std::string, GpuSeen> gpus = GpusOf(snapshot);
  // Without a word for any of them the analyzer is switched off, or the first tick is not over: then the
  // state alone counts.
  bool validated =
      std::any_of(gpus.begin(), gpus.end(), [](const auto& gpu) { return !gpu.second.health.empty(); });
  for (const auto& [key, gpu] : gpus) {
    if ((validated ? gpu.health : gpu.state) != "ok") findings.push_back(FindingOf(gpu));
  }
  double expected = 0;
  ForEachFresh(snapshot, kGpuDevicesExpected, [&](const SeriesInfo&, double value) { expected += value; });
  if (expected > static_cast<double>(gpus.size())) {
    findings.push_back({Finding::kBroken, "GPUs",
                        std::to_string(gpus.size()) + " of " + std::to_string(static_cast<int>(expected)) +
                            " that this machine should have are here",
                        "one is off the bus, or its driver is not loaded", "gpulens events --name gpu.lost"});
  }
  return findings;
}

std::vector<Finding> DeliveryFindings(const Snapshot& snapshot) {
  std::vector<Finding> findings;
  ForEachFresh(snapshot, kSelfSinkUp, [&](const SeriesInfo& info, double value) {
    if (value != 0) return;
    findings.push_back({Finding::kWarning, "sink " + info.attributes.Text("sink"), "its last delivery failed",
                        "see the log of the agent", ""});
  });
  ForEachFresh(snapshot, kSelfSinkDiskQueueOldestAge, [&](const SeriesInfo& info, double value) {
    if (value <= kLongestWait) return;
    findings.push_back(
        {Finding::kWarning, "sink " + info.attributes.Text("sink"),
         "requests have waited in its queue for " + std::to_string(static_cast<int64_t>(value)) + " s",
         "its receiver does not answer, or is too slow", ""});
  });
  ForEachFresh(snapshot, kSelfSinkDiskQueueUnusable, [&](const SeriesInfo& info, double value) {
    if (value == 0) return;
    findings.push_back(
        {Finding::kBroken, "sink " + info.attributes.Text("sink"), "the folder of its queue cannot be used",
         "queued data is kept in memory, and received data is accepted only once it is delivered",
         "see the log of the agent, and set state_dir to a folder that can be written"});
  });
  ForEachFresh(snapshot, kSelfSinkDiskQueueLeftoverSize, [&](const SeriesInfo& info, double value) {
    findings.push_back(LeftoverFinding(info.attributes.Text("sink"), static_cast<uint64_t>(value)));
  });
  double failed = 0;
  ForEachFresh(snapshot, kSelfStoreWrites, [&](const SeriesInfo& info, double value) {
    if (info.attributes.Text("result") == "error") failed += value;
  });
  if (failed > 0) {
    findings.push_back(
        {Finding::kBroken, "events",
         std::to_string(static_cast<int64_t>(failed)) + " could not be kept for `gpulens events`",
         "the file in the state folder cannot be written", "set state_dir to a folder that can"});
  }
  return findings;
}

std::vector<Finding> StateFolderFindings(const std::string& folder) {
  Finding finding{Finding::kBroken, "state_dir", "", "",
                  "set state_dir to a folder that the agent may write"};
  if (folder.empty()) {
    finding.kind = Finding::kWarning;
    finding.what = "there is none: events and queues are not kept over a restart";
    return {finding};
  }
  Status status = MakeFoldersAbove(folder + "/any");
  if (status && ::access(folder.c_str(), W_OK | X_OK) != 0)
    status = {Code::kPermissionDenied, folder + ": " + std::strerror(errno)};
  if (status) return {};
  finding.what = "events, health windows and queues cannot be kept";
  finding.why = status.detail;
  return {finding};
}

}  // namespace gpulens
