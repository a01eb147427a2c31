// Summarizes an engine in a few numbers: quantiles of its latencies, its cache, its queue. Computed from one
// frame of an engine's roles, or from two for the time between them. Pure; not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/frame.h"
#include "core/histogram.h"

namespace gpulens {

// A role with observations, over all label sets of one model: buckets are added before quantiles are taken.
struct ReadDistribution {
  const MetricDesc* metric = nullptr;
  double count = 0;
  std::optional<double> mean, p50, p95, p99;  // absent where the engine keeps no sum or no buckets
  // The outermost bounds of its buckets. A quantile below the first is a guess; one at the last is a minimum.
  std::optional<double> first_bound, last_bound;
};

// A role with one number.
struct ReadNumber {
  const MetricDesc* metric = nullptr;
  double value = 0;                  // a level, or the increase of a counter in the window
  std::optional<double> per_second;  // rate of a counter between two scrapes
};

// Omits what the engine does not report and what did not happen in the window.
struct ModelReading {
  std::string engine, layer, model;  // model: empty where the page names none
  std::vector<ReadDistribution> distributions;
  std::vector<ReadNumber> numbers;

  const ReadDistribution* Find(const MetricDesc& metric) const noexcept;
  const ReadNumber* FindNumber(const MetricDesc& metric) const noexcept;
};

struct EngineReading {
  std::string source;
  std::optional<double> window_s;  // absent: since the engine began
  std::vector<ModelReading> models;
};

struct ReadFilter {
  std::string engine, model;  // empty: all
};

// Summarizes one scrape.
EngineReading ReadLifetime(std::string source, const Frame& now, const ReadFilter& filter);
// Reads the time between two scrapes of one SeriesTable. A counter that fell was reset and counts from 0.
EngineReading ReadWindow(std::string source, const Frame& before, const Frame& now, const ReadFilter& filter);

std::string ReadingText(const EngineReading& reading);
std::string ReadingJson(const EngineReading& reading);

}  // namespace gpulens
