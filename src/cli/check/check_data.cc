#include "cli/check/check_data.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "agent/plugin_tables.h"
#include "agent/run/plan.h"
#include "agent/status/status_report.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/threads.h"
#include "catalog/exported_name.h"
#include "catalog/gpu.h"
#include "cli/check/check_table.h"
#include "core/prometheus_words.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"
#include "wire/exposition/exposition_parser.h"

namespace gpulens {

namespace {

using CheckAttributes = std::map<std::string, std::string, std::less<>>;

constexpr size_t kMaxGpus = 1024;
// Attributes that are read from every series of a GPU.
constexpr std::string_view kEntityKeys[] = {"gpu.index",           "gpu.uuid",       "gpu.model",
                                            "gpu.mig.instance_id", "process.pid",    "gpu.partition.id",
                                            "simulated",           "gpu.mig.enabled"};
// Only the page of an agent has this family.
constexpr std::string_view kAgentFamily = "gpulens_build_info";

// Collects readings, and the GPUs that they name.
class CheckDataBuilder {
 public:
  void Add(const MetricDesc& metric, CheckAttributes attributes, double value, bool stale) {
    for (std::string_view part : {"gpu.mig.instance_id", "process.pid", "gpu.partition.id"}) {
      if (attributes.contains(part)) return;
    }
    std::string label = Take(attributes, "gpu.index"), uuid = Take(attributes, "gpu.uuid");
    if (&metric == &kGpuDevicesExpected && !stale) data_.expected += value;
    if (label.empty() && uuid.empty()) {
      if (data_.host.size() < kMaxGpus)
        data_.host.push_back({&metric, 0, std::move(attributes), value, stale});
      return;
    }
    if (attributes.contains("simulated")) data_.simulated = true;
    std::string key = uuid.empty() ? label : uuid;
    auto at = std::ranges::find_if(data_.gpus, [&](const CheckGpu& g) { return g.key == key; });
    if (at == data_.gpus.end()) {
      if (data_.gpus.size() >= kMaxGpus) return;
      data_.gpus.push_back({key, label.empty() ? uuid : label});
      at = data_.gpus.end() - 1;
    }
    CheckReading reading{&metric, static_cast<size_t>(at - data_.gpus.begin()), std::move(attributes), value,
                         stale};
    // Two sources may report one value of a GPU: only the first counts.
    for (const CheckReading& other : data_.readings) {
      if (other.metric == &metric && other.gpu == reading.gpu && other.attributes == reading.attributes)
        return;
    }
    data_.readings.push_back(std::move(reading));
  }

  CheckData Take() {
    std::vector<size_t> order(data_.gpus.size()), place(order.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    auto rank = [&](size_t i) {
      return std::pair(ParseInt<uint32_t>(data_.gpus[i].label).value_or(UINT32_MAX), i);
    };
    std::ranges::sort(order, [&](size_t a, size_t b) { return rank(a) < rank(b); });
    std::vector<CheckGpu> gpus;
    for (size_t i = 0; i < order.size(); ++i) {
      place[order[i]] = i;
      gpus.push_back(data_.gpus[order[i]]);
    }
    data_.gpus = std::move(gpus);
    for (CheckReading& reading : data_.readings) reading.gpu = place[reading.gpu];
    return std::move(data_);
  }

 private:
  static std::string Take(CheckAttributes& attributes, std::string_view key) {
    auto at = attributes.find(key);
    if (at == attributes.end()) return "";
    std::string value = std::move(at->second);
    attributes.erase(at);
    return value;
  }

  CheckData data_;
};

class PageBuilder final : public ExpositionHandler {
 public:
  explicit PageBuilder(std::span<const MetricDesc* const> metrics) {
    for (const MetricDesc* metric : metrics) {
      std::string name;
      AppendPrometheusName(name, *metric);
      metrics_[name] = metric;
      for (std::string_view key : metric->keys) Know(key);
    }
    for (std::string_view key : kEntityKeys) Know(key);
  }

  void OnFamily(uint32_t, const ExpositionFamily&) override {}
  void OnSample(const SampleView& sample) override {
    if (sample.name == kAgentFamily) of_agent_ = true;
    auto metric = metrics_.find(sample.name);
    if (metric == metrics_.end()) return;
    CheckAttributes attributes;
    for (const LabelView& label : sample.labels) {
      auto key = keys_.find(label.name);
      if (key != keys_.end()) attributes[key->second] = std::string(label.value);
    }
    builder_.Add(*metric->second, std::move(attributes), sample.value, sample.timestamp_ms.has_value());
  }

  bool of_agent() const { return of_agent_; }
  CheckData Take() { return builder_.Take(); }

 private:
  void Know(std::string_view key) {
    std::string label;
    AppendPrometheusLabel(label, key);
    keys_[label] = std::string(key);
  }

  std::map<std::string, const MetricDesc*, std::less<>> metrics_;
  std::map<std::string, std::string, std::less<>> keys_;  // label to attribute key
  CheckDataBuilder builder_;
  bool of_agent_ = false;
};

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kPageLimit = 64u << 20;

bool Reads(std::span<const MetricDesc* const> metrics) {
  std::span<const MetricDesc* const> wanted = AllCheckMetrics();
  return std::ranges::any_of(
      metrics, [&](const MetricDesc* metric) { return std::ranges::find(wanted, metric) != wanted.end(); });
}

PipelinePlan PlanOfChecks(const Config& config, bool demo) {
  PipelinePlan plan = MakePlan(config, {demo, ""});
  std::erase_if(plan.instances, [](const Instance::Setup& setup) { return !Reads(setup.spec->metrics); });
  std::erase_if(plan.analyzers, [](const auto& setup) { return !Reads(setup.spec->metrics); });
  plan.sinks.clear();
  // The user is waiting.
  plan.interval = std::min<Duration>(plan.interval, milliseconds(500));
  for (Instance::Setup& setup : plan.instances)
    setup.period = std::min<Duration>(setup.period, milliseconds(500));
  return plan;
}

// Runs a pipeline until the readings suffice.
class DirectReader {
 public:
  DirectReader(const Config& config, const DirectOptions& options)
      : options_(options), budget_(static_cast<uint64_t>(config.Group("limits").Int("series"))) {
    env_.io = &io_;
    env_.http = &client_;
    env_.workers = &workers_;
    env_.latest = &hub_;
    env_.demo = options.demo;
    plan_ = PlanOfChecks(config, options.demo);
  }

  Result<CheckData> Run() {
    if (plan_.instances.empty()) return Status{Code::kUnavailable, "no collector of GPUs is switched on"};
    io_.Start();
    pipeline_ = std::make_unique<Pipeline>(env_, workers_, hub_, budget_);
    Status status = pipeline_->Apply(std::move(plan_));
    if (status) {
      pipeline_->OnTick([this](const Ref<const Snapshot>&) {
        std::lock_guard lock(mutex_);
        ++ticks_;
        wake_.notify_all();
      });
      pipeline_->Start();
      Wait();
      if (data_.gpus.empty()) status = WhyNothing();
    }
    pipeline_->Stop(env_.clock->Now() + seconds(1));
    io_.Stop();
    if (!status) return status;
    return std::move(data_);
  }

 private:
  void Wait() {
    Instant started = env_.clock->Now();
    std::optional<Instant> first;
    for (uint64_t seen = 0;;) {
      {
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, milliseconds(200), [&] { return ticks_ > seen; });
        seen = ticks_;
      }
      if (Ref<const Snapshot> snapshot = hub_.latest()) data_ = ReadSnapshot(*snapshot, AllCheckMetrics());
      Instant now = env_.clock->Now();
      if (!data_.gpus.empty()) {
        if (!first) first = now;
        if (options_.enough(data_) || now - *first > options_.more) return;
      }
      if (now - started > options_.timeout || AllUnavailable()) return;
    }
  }

  // Every collector has reported that its GPUs are absent.
  bool AllUnavailable() const {
    auto instances = pipeline_->instances();
    return std::ranges::all_of(instances, [](const Pipeline::InstanceView& view) {
      return view.stats.runs_ok == 0 && view.stats.last.code == Code::kUnavailable;
    });
  }

  Status WhyNothing() const {
    for (const Pipeline::InstanceView& view : pipeline_->instances()) {
      if (!view.stats.last.ok()) return {view.stats.last.code, view.name + ": " + view.stats.last.detail};
    }
    return {Code::kUnavailable, "no GPU was found"};
  }

  const DirectOptions& options_;
  IoLoop io_;
  HttpClient client_{io_};
  Workers workers_{2};
  LatestSnapshot hub_;
  SeriesBudget budget_;
  Env env_;
  PipelinePlan plan_;
  std::unique_ptr<Pipeline> pipeline_;
  CheckData data_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  uint64_t ticks_ = 0;
};

}  // namespace

bool Fits(const CheckReading& reading, const CheckInput& input) {
  auto has = [&](std::string_view key, std::string_view value) {
    if (key.empty()) return true;
    auto at = reading.attributes.find(key);
    return at != reading.attributes.end() && at->second == value;
  };
  return reading.metric == input.metric && has(input.key, input.value) && has(input.key2, input.value2);
}

std::optional<double> CheckData::Sum(size_t gpu, const CheckInput& input) const {
  std::optional<double> sum;
  for (const CheckReading& reading : readings) {
    if (reading.gpu != gpu || !Fits(reading, input)) continue;
    if (reading.stale) return std::nullopt;
    sum = sum.value_or(0) + reading.value;
  }
  return sum;
}

std::vector<const CheckReading*> CheckData::Of(size_t gpu, const MetricDesc& metric) const {
  std::vector<const CheckReading*> found;
  for (const CheckReading& reading : readings) {
    if (reading.gpu == gpu && reading.metric == &metric && !reading.stale) found.push_back(&reading);
  }
  return found;
}

bool CheckData::IsStale(size_t gpu, const CheckInput& input) const {
  return std::ranges::any_of(readings, [&](const CheckReading& reading) {
    return reading.gpu == gpu && reading.stale && Fits(reading, input);
  });
}

CheckData ReadSnapshot(const Snapshot& snapshot, std::span<const MetricDesc* const> metrics) {
  CheckDataBuilder builder;
  for (const SnapshotEntry& entry : snapshot.frames) {
    const Frame& frame = *entry.frame;
    for (uint32_t slot = 0; slot < frame.layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame.layout)[slot];
      if (!info.desc || info.shape || frame.quality[slot] == Quality::kAbsent) continue;
      if (std::ranges::find(metrics, info.desc) == metrics.end()) continue;
      CheckAttributes attributes;
      for (auto [key, value] : info.attributes) AppendValue(attributes[std::string(key)], value);
      Cell cell = frame.cells[info.first_cell];
      double value = info.desc->number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
      bool stale = entry.overdue || frame.quality[slot] == Quality::kStale;
      builder.Add(*info.desc, std::move(attributes), value, stale);
    }
  }
  return builder.Take();
}

Result<CheckData> ReadPage(std::string_view page, std::span<const MetricDesc* const> metrics) {
  PageBuilder builder(metrics);
  ExpositionLimits limits;
  limits.samples = 200'000;
  auto report = ParseExposition(page, ExpositionFormat::kText004, limits, builder);
  if (!report) return report.error();
  if (!builder.of_agent()) return Status{Code::kDataLoss, "this is not the page of a gpulens agent"};
  return builder.Take();
}

Result<CheckData> QueryAgent(const std::string& url, Duration timeout) {
  ASSIGN_OR_RETURN(HttpUrl parsed, ParseHttpUrl(url));
  if (parsed.tls)
    return Status{Code::kInvalidArgument, "https is not supported here; use the agent's loopback address"};
  // Checks read rows of every level.
  if (!parsed.has_path || parsed.target == "/" || parsed.target == "/metrics")
    parsed.target = "/metrics?metrics=all";
  ASSIGN_OR_RETURN(std::string body, ReadAgentPage(parsed, "text/plain;version=0.0.4", timeout, kPageLimit));
  ASSIGN_OR_RETURN(CheckData data, ReadPage(body, AllCheckMetrics()));
  data.watched = true;
  data.source = "the agent at http://" + parsed.Authority();
  return data;
}

Result<CheckData> ReadDirectly(const Config& config, const DirectOptions& options) {
  ASSIGN_OR_RETURN(CheckData data, DirectReader(config, options).Run());
  data.source = options.demo ? "simulated GPUs" : "the GPUs, read by this process";
  return data;
}

}  // namespace gpulens
