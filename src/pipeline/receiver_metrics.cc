#include "pipeline/receiver_metrics.h"

#include "catalog/self.h"

namespace gpulens {

void ReceiverMetrics::Write(const ReceiverStats& stats, FrameWriter& out) {
  static constexpr std::string_view kNames[kResults] = {"accepted", "refused", "rejected", "filtered"};
  SeriesTable& table = out.table();
  for (const ReceiverStats::Way& way : stats.ways) {
    OfWay& known = ways_[way.name];
    const bool fresh = !known.entity;
    if (fresh) {
      known.entity = MakeRef<Entity>("receiver", AttributeSet({{"receiver", way.name}}));
      known.received = table.Declare(kSelfReceiverReceived, known.entity);
    }
    out.Set(known.received, way.received_bytes);
    for (size_t i = 0; i < kOtlpSignals; ++i) {
      const ReceiverStats::OfSignal& signal = way.signals[i];
      OfSignal& series = known.signals[i];
      const std::string_view name = OtlpSignalName(static_cast<OtlpSignal>(i));
      const uint64_t values[kResults] = {signal.accepted, signal.refused, signal.rejected, signal.filtered};
      for (size_t k = 0; k < kResults; ++k) {
        if (fresh)
          series.results[k] =
              table.Declare(kSelfReceiverPoints, known.entity, {{"signal", name}, {"result", kNames[k]}});
        out.Set(series.results[k], values[k]);
      }
      for (const auto& [code, count] : signal.requests) {
        auto at = series.requests.find(code);
        if (at == series.requests.end()) {
          const Series made = table.Declare(kSelfReceiverRequests, known.entity,
                                            {{"signal", name}, {"code", std::string_view(code)}});
          at = series.requests.emplace(code, made).first;
        }
        out.Set(at->second, count);
      }
    }
  }
}

}  // namespace gpulens
