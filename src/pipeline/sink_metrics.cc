#include "pipeline/sink_metrics.h"

#include <utility>

#include "catalog/self.h"

namespace gpulens {

void DeliveryMetrics::Declare(const DeliveryStats& stats, const EntityRef& sink, SeriesTable& table) {
  for (const DeliveryStats::Signal& signal : stats.signals) {
    const AttributeSet of_signal({{"signal", signal.name}});
    signals_.push_back({table.Declare(kSelfSinkDelivered, sink, of_signal),
                        table.Declare(kSelfSinkRejected, sink, of_signal)});
  }
  left_out_ = table.Declare(kSelfSinkFiltered, sink);
  untranslated_ = table.Declare(kSelfSinkUntranslated, sink);
  retries_ = table.Declare(kSelfSinkRetries, sink);
  sent_ = table.Declare(kSelfSinkSent, sink);
  length_ = table.Declare(kSelfSinkQueueLength, sink, {{"queue", "delivery"}});
  for (size_t i = 0; i < dropped_.size(); ++i)
    dropped_[i] =
        table.Declare(kSelfSinkDropped, sink, {{"queue", "delivery"}, {"reason", stats.dropped[i].first}});
  if (!stats.on_disk) return;
  size_ = table.Declare(kSelfSinkDiskQueueSize, sink);
  limit_ = table.Declare(kSelfSinkDiskQueueLimit, sink);
  age_ = table.Declare(kSelfSinkDiskQueueOldestAge, sink);
  unusable_ = table.Declare(kSelfSinkDiskQueueUnusable, sink);
}

void DeliveryMetrics::Write(const DeliveryStats& stats, const EntityRef& sink, FrameWriter& out) {
  SeriesTable& table = out.table();
  if (!std::exchange(declared_, true)) Declare(stats, sink, table);
  for (size_t i = 0; i < signals_.size() && i < stats.signals.size(); ++i) {
    out.Set(signals_[i].delivered, stats.signals[i].delivered);
    out.Set(signals_[i].rejected, stats.signals[i].rejected);
  }
  for (const auto& [code, count] : stats.requests) {
    auto at = requests_.find(code);
    if (at == requests_.end()) {
      const Series made = table.Declare(kSelfSinkRequests, sink, {{"code", std::string_view(code)}});
      at = requests_.emplace(code, made).first;
    }
    out.Set(at->second, count);
  }
  out.Set(left_out_, stats.left_out);
  out.Set(untranslated_, stats.untranslated);
  out.Set(retries_, stats.retries);
  out.Set(sent_, stats.sent_bytes);
  out.Set(length_, stats.queued_records);
  for (size_t i = 0; i < dropped_.size(); ++i) out.Set(dropped_[i], stats.dropped[i].second);
  if (!stats.on_disk) return;
  out.Set(size_, stats.queued_bytes);
  out.Set(limit_, stats.queue_limit);
  out.Set(unusable_, stats.unusable ? 1 : 0);
  out.Set(age_, static_cast<double>(stats.oldest_age.value_or(Duration::zero()).count()) / 1e9);
}

void LeftoverMetrics::Write(const std::vector<QueueLeftover>& leftovers, FrameWriter& out) {
  SeriesTable& table = out.table();
  for (auto& [name, sink] : sinks_) sink.seen = false;
  for (const QueueLeftover& leftover : leftovers) {
    OfSink& sink = sinks_[leftover.sink];
    if (!sink.entity) {
      sink.entity = MakeRef<Entity>("sink", AttributeSet({{"sink", std::string_view(leftover.sink)}}));
      sink.length = table.Declare(kSelfSinkDiskQueueLeftoverLength, sink.entity);
      sink.size = table.Declare(kSelfSinkDiskQueueLeftoverSize, sink.entity);
    }
    sink.seen = true;
    out.Set(sink.length, leftover.records);
    out.Set(sink.size, leftover.bytes);
  }
  std::erase_if(sinks_, [&](const auto& item) {
    if (item.second.seen) return false;
    table.Retire(item.second.entity);
    return true;
  });
}

void RollupMetrics::Write(const RollupStats& stats, const EntityRef& sink, FrameWriter& out) {
  if (!groups_) {
    SeriesTable& table = out.table();
    groups_ = table.Declare(kSelfSinkRollupGroups, sink);
    combined_ = table.Declare(kSelfSinkRollupSeries, sink, {{"result", "combined"}});
    not_sent_ = table.Declare(kSelfSinkRollupSeries, sink, {{"result", "not_sent"}});
    intervals_ = table.Declare(kSelfSinkRollupIntervals, sink);
    for (size_t i = 0; i < kRollupRefusals; ++i) {
      const std::string_view reason = RollupRefusalName(static_cast<RollupRefusal>(i));
      refused_[i] = table.Declare(kSelfSinkRollupRefused, sink, {{"reason", reason}});
    }
  }
  out.Set(groups_, stats.groups);
  out.Set(combined_, stats.rolled_up);
  out.Set(not_sent_, stats.left_out);
  out.Set(intervals_, stats.intervals);
  for (size_t i = 0; i < kRollupRefusals; ++i) out.Set(refused_[i], stats.refused[i]);
}

void ReceiverMetrics::Write(const ReceiverStats& stats, FrameWriter& out) {
  static constexpr std::string_view kNames[kResults] = {"accepted", "refused", "rejected", "filtered"};
  SeriesTable& table = out.table();
  for (const ReceiverStats::Transport& transport : stats.transports) {
    OfTransport& known = transports_[transport.name];
    const bool fresh = !known.entity;
    if (fresh) {
      known.entity = MakeRef<Entity>("receiver", AttributeSet({{"receiver", transport.name}}));
      known.received = table.Declare(kSelfReceiverReceived, known.entity);
    }
    out.Set(known.received, transport.received_bytes);
    for (size_t i = 0; i < kOtlpSignals; ++i) {
      const ReceiverStats::OfSignal& signal = transport.signals[i];
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
