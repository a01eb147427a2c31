#include "cli/check/check_data.h"

#include <algorithm>

#include "base/parse.h"
#include "catalog/gpu.h"
#include "catalog/prometheus_name.h"
#include "wire/exposition/exposition_parser.h"

namespace gpulens {
namespace {

using Attributes = std::map<std::string, std::string, std::less<>>;

constexpr size_t kMaxGpus = 1024;
// Known on every GPU, whatever the row says.
constexpr std::string_view kEntityKeys[] = {"gpu.index",           "gpu.uuid",       "gpu.model",
                                            "gpu.mig.instance_id", "process.pid",    "gpu.partition.id",
                                            "simulated",           "gpu.mig.enabled"};
// A page says who made it.
constexpr std::string_view kAgentFamily = "gpulens_build_info";

// Readings one by one; GPUs as they are met.
class Builder {
 public:
  void Add(const MetricDesc& metric, Attributes attributes, double value, bool stale) {
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
    auto at =
        std::find_if(data_.gpus.begin(), data_.gpus.end(), [&](const CheckGpu& g) { return g.key == key; });
    if (at == data_.gpus.end()) {
      if (data_.gpus.size() >= kMaxGpus) return;
      data_.gpus.push_back({key, label.empty() ? uuid : label});
      at = data_.gpus.end() - 1;
    }
    CheckReading reading{&metric, static_cast<size_t>(at - data_.gpus.begin()), std::move(attributes), value,
                         stale};
    // Two sources may tell one thing of a GPU: the first counts, so that nothing is added twice.
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
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rank(a) < rank(b); });
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
  static std::string Take(Attributes& attributes, std::string_view key) {
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
    Attributes attributes;
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
  Builder builder_;
  bool of_agent_ = false;
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
  return std::any_of(readings.begin(), readings.end(), [&](const CheckReading& reading) {
    return reading.gpu == gpu && reading.stale && Fits(reading, input);
  });
}

CheckData ReadSnapshot(const Snapshot& snapshot, std::span<const MetricDesc* const> metrics) {
  Builder builder;
  for (const SnapshotEntry& entry : snapshot.frames) {
    const Frame& frame = *entry.frame;
    for (uint32_t slot = 0; slot < frame.layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame.layout)[slot];
      if (!info.desc || info.shape || frame.quality[slot] == Quality::kAbsent) continue;
      if (std::find(metrics.begin(), metrics.end(), info.desc) == metrics.end()) continue;
      Attributes attributes;
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

}  // namespace gpulens
