// The series of a node in steps of a second, by GPU, engine and host: what the rules of why.h read. Plain
// values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "why/why.h"

namespace gpulens::why_detail {

// One input of a rule over the look-back, a value a second, the latest last. Of a counter: growth per second.
struct Track {
  std::vector<double> values;  // kNotMeasured: unknown
  const WhyInput* input = nullptr;
  const SeriesWindow* latest = nullptr;  // the series with the newest sample; null: there is no series
  bool counter = false;
  int fresh = 10;                   // a value may be so many seconds old
  int64_t first_ms = 0;             // of the first value; 0: none
  int64_t last_ms = 0;              // of the last value; 0: none
  bool stale = false, gap = false;  // what the last sample is
  bool reset = false;               // a counter began again

  bool exists() const noexcept { return latest != nullptr; }
  size_t KnownIn(size_t seconds) const noexcept;
  // Mean of the known values of the last `seconds`; kNotMeasured: none.
  double Mean(size_t seconds) const noexcept;
  double Sum(size_t seconds) const noexcept;
  // The latest value, unless it is older than `fresh`.
  double Now() const noexcept;
};

struct GpuFacts {
  std::string index, model, job;  // job: Slurm's id, else "namespace/pod"; empty: none
  std::string pod_uid, slurm_id;
  std::vector<std::string> pids;
};

class NodeSeries {
 public:
  NodeSeries(std::span<const SeriesWindow> windows, int64_t to_ms, int lookback_seconds);

  // In order of their names, GPUs by number.
  const std::vector<WhySubject>& gpus() const noexcept { return gpus_; }
  const std::vector<WhySubject>& engines() const noexcept { return engines_; }
  bool has_host() const noexcept { return has_host_; }
  bool simulated() const noexcept { return simulated_; }
  // Facts of now: which job has the GPU, and which processes.
  const GpuFacts& Gpu(std::string_view index) const;
  // Engines in the pod or job that has the GPU.
  std::vector<std::string> EnginesOn(const GpuFacts& gpu) const;
  std::vector<std::string> GpusOf(std::string_view engine) const;

  // The first input of the role with values in the last `seconds`, else the first with a series, else an
  // empty one.
  Track Get(const WhySubject& subject, const WhyRole& role, int seconds) const;
  // Each series of the input by itself: where a rule names the rank or the process.
  std::vector<Track> Each(const WhySubject& subject, const WhyInput& input) const;

  int64_t to_ms() const noexcept { return to_ms_; }
  int lookback() const noexcept { return lookback_; }

 private:
  struct Row {
    const SeriesWindow* window;
    std::string gpu, engine;             // of the subject; empty: neither
    std::string pid;                     // of a process; empty: of none
    bool process = false, part = false;  // of one process; of one MIG instance
  };
  struct EngineFacts {
    std::string pod_uid, slurm_id;
  };

  bool IsOf(const Row& row, const WhySubject& subject, const WhyInput& input) const;
  Track Read(const WhySubject& subject, const WhyInput& input) const;
  void Fill(const SeriesWindow& window, Track& track) const;

  int64_t to_ms_;
  int lookback_;
  std::map<std::string, std::vector<Row>, std::less<>> rows_;  // by metric
  std::vector<WhySubject> gpus_, engines_;
  std::map<std::string, GpuFacts, std::less<>> gpu_facts_;
  std::map<std::string, EngineFacts, std::less<>> engine_facts_;
  bool has_host_ = false, simulated_ = false;
};

}  // namespace gpulens::why_detail
