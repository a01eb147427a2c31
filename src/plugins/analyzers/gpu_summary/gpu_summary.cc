// Analyzer of the busiest, the least busy and the mean GPU of this host.

#include <algorithm>

#include "catalog/gpu.h"
#include "core/series_finder.h"
#include "plugins/plugin.h"

namespace gpulens {
namespace {

class GpuSummary final : public Analyzer {
 public:
  Status Analyze(const Snapshot& snapshot, FrameWriter& out) override {
    double least = 1, most = 0, sum = 0;
    size_t count = 0;
    bool simulated = false;
    utilization_.ForEach(snapshot, [&](const SeriesInfo& info, double value, const Frame&, uint32_t) {
      simulated = simulated || (count == 0 && info.attributes.Has("simulated"));
      least = std::min(least, value);
      most = std::max(most, value);
      sum += value;
      ++count;
    });
    if (count == 0) return Ok();
    Declare(out.table(), simulated);
    out.Set(max_, most);
    out.Set(min_, least);
    out.Set(avg_, sum / static_cast<double>(count));
    return Ok();
  }

 private:
  void Declare(SeriesTable& table, bool simulated) {
    if (max_) return;
    EntityRef host =
        MakeRef<Entity>("host", simulated ? AttributeSet({{"simulated", true}}) : AttributeSet());
    max_ = table.Declare(kGpuUtilizationMax, host);
    min_ = table.Declare(kGpuUtilizationMin, host);
    avg_ = table.Declare(kGpuUtilizationAvg, host);
  }

  SeriesFinder utilization_{kGpuUtilization};
  Series max_, min_, avg_;
};

Result<std::unique_ptr<Analyzer>> Create(const Config&, Env&) {
  return std::unique_ptr<Analyzer>(std::make_unique<GpuSummary>());
}

constexpr const MetricDesc* kMetrics[] = {&kGpuUtilizationMax, &kGpuUtilizationMin, &kGpuUtilizationAvg};

}  // namespace

extern const AnalyzerSpec gpu_summary_analyzer;
const AnalyzerSpec gpu_summary_analyzer{.name = "gpu_summary",
                                        .help = "The busiest, least busy and mean GPU of the host.",
                                        .options = {},
                                        .metrics = kMetrics,
                                        .create = &Create};

}  // namespace gpulens
