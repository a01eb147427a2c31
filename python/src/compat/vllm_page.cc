#include "src/compat/vllm_page.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/histogram.h"
#include "core/layout.h"
#include "wire/exposition/exposition_parser.h"

namespace gpulens {
namespace {

// Buckets of one histogram, by the labels of their series.
class SeriesOfBuckets {
 public:
  void Add(const SampleView& sample) {
    double bound = sample.bound;
    std::string key;
    bool bounded = sample.role == SampleRole::kBucket;
    for (const LabelView& label : sample.labels) {
      if (label.name == "le") {
        if (!bounded) bounded = exposition_internal::ReadBound(label.value, bound);
        continue;
      }
      key.append(label.name).push_back('\0');
      key.append(label.value).push_back('\0');
    }
    if (bounded) series_[key].emplace_back(bound, sample.value);
  }

  double Quantile(double fraction) const {
    std::optional<Buckets> all;
    for (const auto& [key, pairs] : series_) {
      Buckets one = Read(pairs);
      all = all ? Merge(*all, one) : std::move(one);
    }
    if (!all) return kNotMeasured;
    return gpulens::Quantile(*all, fraction).value_or(kNotMeasured);
  }

 private:
  static Buckets Read(std::vector<std::pair<double, double>> pairs) {
    std::ranges::sort(pairs);
    Shape shape;
    shape.has_sum = shape.has_count = false;
    std::vector<double> counts;
    for (const auto& [bound, count] : pairs) {
      shape.bounds.push_back(bound);
      counts.push_back(count);
    }
    return ReadBuckets(shape, counts);
  }

  std::map<std::string, std::vector<std::pair<double, double>>> series_;
};

struct MeanValue {
  double sum = 0, count = 0;
  void Add(double value) { sum += value, ++count; }
  double value() const { return count > 0 ? sum / count : kNotMeasured; }
};

class PageReader : public ExpositionHandler {
 public:
  void OnFamily(uint32_t, const ExpositionFamily&) override {}
  void OnSample(const SampleView& sample) override {
    if (!sample.name.starts_with("vllm:") || !std::isfinite(sample.value)) return;
    const std::string_view name = sample.name.substr(5);
    if (name == "time_to_first_token_seconds_bucket") ttft.Add(sample);
    else if (name == "e2e_request_latency_seconds_bucket") e2e.Add(sample);
    else if (name == "kv_cache_usage_perc") cache.Add(sample.value);
    else if (name == "gpu_cache_usage_perc") old_cache.Add(sample.value);  // its name before vLLM 0.10
    else if (name == "num_requests_waiting") waiting = (std::isnan(waiting) ? 0 : waiting) + sample.value;
  }

  SeriesOfBuckets ttft, e2e;
  MeanValue cache, old_cache;
  double waiting = kNotMeasured;
};

}  // namespace

Result<VllmReading> ReadVllmPage(std::string_view page, std::string_view content_type) {
  const auto format = DetectExpositionFormat(content_type);
  if (!format)
    return Status{Code::kDataLoss, "not a metrics page, but " + std::string(content_type.substr(0, 100))};
  PageReader reader;
  if (auto report = ParseExposition(page, *format, {}, reader); !report) return report.error();
  VllmReading out;
  out.ttft_p50_seconds = reader.ttft.Quantile(0.5);
  out.ttft_p95_seconds = reader.ttft.Quantile(0.95);
  out.ttft_p99_seconds = reader.ttft.Quantile(0.99);
  out.e2e_p50_seconds = reader.e2e.Quantile(0.5);
  out.e2e_p95_seconds = reader.e2e.Quantile(0.95);
  out.cache_usage_ratio = reader.cache.count > 0 ? reader.cache.value() : reader.old_cache.value();
  out.requests_waiting = reader.waiting;
  return out;
}

}  // namespace gpulens
