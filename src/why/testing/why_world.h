// A made-up node for tests of the rules: GPUs with a job, engines, a host, all well, each value with noise;
// and causes that are put into it. Everything follows from a seed. Optimized, as tests are not: a test makes
// thousands.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "why/why.h"

namespace gpulens::why_world {

inline constexpr int kSeconds = 330;
inline constexpr int64_t kEndMs = 1'764'190'000'000;

// One series: a value a second; of a counter its growth. Marks are those of SeriesSample.
struct Signal {
  std::string name;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::string source;
  int period = 1;  // seconds
  std::vector<double> values = std::vector<double>(kSeconds);
  std::vector<SeriesSample::Mark> marks = std::vector<SeriesSample::Mark>(kSeconds, SeriesSample::kOk);
  std::vector<bool> resets = std::vector<bool>(kSeconds);

  void Set(double value, int from = 0, int to = kSeconds) {
    for (int i = std::max(from, 0); i < to; ++i) values[static_cast<size_t>(i)] = value;
  }
  void Mark(SeriesSample::Mark mark, int from, int to = kSeconds) {
    for (int i = std::max(from, 0); i < to; ++i) marks[static_cast<size_t>(i)] = mark;
  }
};

class World {
 public:
  explicit World(uint64_t seed, int gpus = 6);

  double Uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(Next() >> 11) * 0x1p-53;
  }
  int Whole(int low, int high) {
    return low + static_cast<int>(Next() % static_cast<uint64_t>(high - low + 1));
  }
  bool Chance(double share) { return Uniform(0, 1) < share; }

  // All signals of the subject with this name and these further attributes.
  std::vector<Signal*> Find(const WhySubject& subject, std::string_view name,
                            const std::vector<std::pair<std::string, std::string>>& more = {});
  void Set(const WhySubject& subject, std::string_view name,
           const std::vector<std::pair<std::string, std::string>>& more, double value, int from = 0,
           int to = kSeconds) {
    for (Signal* signal : Find(subject, name, more)) signal->Set(value, from, to);
  }

  // The samples of all signals, at the periods of their sources.
  std::vector<SeriesWindow> Render();

  static WhySubject Gpu(int index) { return {WhyKind::kGpu, std::to_string(index)}; }

  // splitmix64: a world has a hundred thousand numbers.
  uint64_t Next() {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t state;
  int gpu_count;
  std::vector<Signal> signals;

  // GPUs 0 to 3 are one job's, the others have a pod each.
  static constexpr int kJobGpus = 4;

 private:
  using Attributes = std::vector<std::pair<std::string, std::string>>;

  Signal& Add(std::string name, Attributes attributes, const std::string& source, int period,
              const std::function<double()>& value);
  void AddGpu(int index);
  void AddEngine(const std::string& target);
  void AddHost();
};

}  // namespace gpulens::why_world
