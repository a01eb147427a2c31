#include "sources/kubelet/parse/stats_summary.h"

#include <cmath>

#include "base/json_scanner.h"
#include "base/parse.h"
#include "base/text.h"
#include "sources/kubelet/parse/rfc3339.h"

namespace gpulens::kubelet {
namespace {

constexpr size_t kMostPods = 4096, kMostContainers = 16'384, kMostOomLines = 16'384;

int64_t ReadTime(JsonScanner& json) { return ParseRfc3339(json.Text()).value_or(0); }

void ReadCpu(JsonScanner& json, UsageStats& out) {
  json.Object([&](std::string_view key) {
    if (key == "time") out.cpu_time_ns = ReadTime(json);
    else if (key == "usageNanoCores") out.cpu_nanocores = json.Unsigned();
    else if (key == "usageCoreNanoSeconds") out.cpu_nanoseconds = json.Unsigned();
  });
}

void ReadMemory(JsonScanner& json, UsageStats& out) {
  json.Object([&](std::string_view key) {
    if (key == "time") out.memory_time_ns = ReadTime(json);
    else if (key == "usageBytes") out.memory_bytes = json.Unsigned();
    else if (key == "workingSetBytes") out.working_set_bytes = json.Unsigned();
    else if (key == "rssBytes") out.rss_bytes = json.Unsigned();
    else if (key == "availableBytes") out.available_bytes = json.Unsigned();
    else if (key == "pageFaults") out.page_faults = json.Unsigned();
    else if (key == "majorPageFaults") out.major_page_faults = json.Unsigned();
  });
}

bool ReadUsage(JsonScanner& json, std::string_view key, UsageStats& out) {
  if (key == "cpu") return ReadCpu(json, out), true;
  if (key == "memory") return ReadMemory(json, out), true;
  return false;
}

void ReadNetwork(JsonScanner& json, PodStats& pod) {
  json.Object([&](std::string_view key) {
    if (key == "rxBytes") pod.received_bytes = json.Unsigned();
    else if (key == "txBytes") pod.sent_bytes = json.Unsigned();
    else if (key == "rxErrors") pod.receive_errors = json.Unsigned();
    else if (key == "txErrors") pod.send_errors = json.Unsigned();
  });
}

class SummaryReader {
 public:
  explicit SummaryReader(std::string_view text) : json_(text) {}

  Result<StatsSummary> Read() {
    StatsSummary out;
    bool whole = false;
    json_.Object([&](std::string_view key) {
      if (key == "node") ReadNode(out);
      if (key != "pods") return;
      whole = true;
      json_.Array([&] {
        if (out.pods.size() >= kMostPods)
          return static_cast<void>(json_.Fail("too many pods", Code::kExhausted));
        PodStats pod = ReadPod();
        if (!pod.name.empty() && !pod.name_space.empty()) out.pods.push_back(std::move(pod));
      });
    });
    Status status = json_.Finish();
    if (status.ok() && !whole) status = {Code::kDataLoss, "no pods"};
    if (!status) return Status{status.code, "/stats/summary: " + status.detail};
    return out;
  }

 private:
  void ReadNode(StatsSummary& out) {
    json_.Object([&](std::string_view key) {
      if (key == "nodeName") out.node = json_.Text();
      else if (key == "startTime") out.node_started_ns = ReadTime(json_);
      else ReadUsage(json_, key, out.node_usage);
    });
  }

  PodStats ReadPod() {
    PodStats pod;
    json_.Object([&](std::string_view key) {
      if (key == "podRef") ReadRef(pod);
      else if (key == "startTime") pod.started_ns = ReadTime(json_);
      else if (key == "network") ReadNetwork(json_, pod);
      else if (key == "containers") json_.Array([&] { ReadContainer(pod); });
      else ReadUsage(json_, key, pod.usage);
    });
    return pod;
  }

  void ReadRef(PodStats& pod) {
    json_.Object([&](std::string_view key) {
      if (key == "name") pod.name = json_.Text();
      else if (key == "namespace") pod.name_space = json_.Text();
      else if (key == "uid") pod.uid = json_.Text();
    });
  }

  void ReadContainer(PodStats& pod) {
    if (++containers_ > kMostContainers)
      return static_cast<void>(json_.Fail("too many containers", Code::kExhausted));
    ContainerStats one;
    json_.Object([&](std::string_view key) {
      if (key == "name") one.name = json_.Text();
      else if (key == "startTime") one.started_ns = ReadTime(json_);
      else ReadUsage(json_, key, one.usage);
    });
    if (!one.name.empty()) pod.containers.push_back(std::move(one));
  }

  JsonScanner json_;
  size_t containers_ = 0;
};

// The labels between the braces, off the front of `rest`. False: they make no sense.
bool ReadLabels(std::string_view& rest, OomEvents& out) {
  std::string value;
  while (!rest.empty() && rest.front() != '}') {
    std::string_view name = TakeUntil(rest, '=');
    if (name.empty() || rest.empty() || rest.front() != '"') return false;
    rest.remove_prefix(1);
    value.clear();
    bool ended = false;
    while (!rest.empty() && !ended) {
      char c = rest.front();
      rest.remove_prefix(1);
      if (c == '"') {
        ended = true;
      } else if (c == '\\' && !rest.empty()) {
        value += rest.front() == 'n' ? '\n' : rest.front();
        rest.remove_prefix(1);
      } else {
        value += c;
      }
    }
    if (!ended || !IsUtf8(value)) return false;
    if (name == "namespace") out.name_space = value;
    else if (name == "pod") out.pod = value;
    else if (name == "container") out.container = value;
    else if (name == "id") out.cgroup = value;
    if (!rest.empty() && rest.front() == ',') rest.remove_prefix(1);
  }
  if (rest.empty()) return false;
  rest.remove_prefix(1);
  return true;
}

}  // namespace

Result<StatsSummary> ParseStatsSummary(std::string_view json) {
  if (json.size() > kMostSummaryBytes) return Status{Code::kExhausted, "/stats/summary: too large"};
  return SummaryReader(json).Read();
}

std::vector<OomEvents> ReadOomEvents(std::string_view page, size_t& bad) {
  constexpr std::string_view kFamily = "container_oom_events_total{";
  std::vector<OomEvents> out;
  bad = 0;
  while (!page.empty() && out.size() < kMostOomLines) {
    std::string_view line = TakeUntil(page, '\n');
    if (!line.starts_with(kFamily)) continue;
    line.remove_prefix(kFamily.size());
    OomEvents one;
    bool good = ReadLabels(line, one);
    line = Trim(line);
    std::string_view number = TakeUntil(line, ' ');  // a time may follow
    auto count = ParseDouble(number);
    if (!good || !count || !std::isfinite(*count) || *count < 0) {
      ++bad;
      continue;
    }
    one.count = *count;
    // Of a pod as a whole, and of what is in no pod, there is a line, too.
    if (!one.pod.empty() && !one.name_space.empty() && !one.container.empty() && one.container != "POD")
      out.push_back(std::move(one));
  }
  return out;
}

}  // namespace gpulens::kubelet
