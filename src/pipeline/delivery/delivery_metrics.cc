#include "pipeline/delivery/delivery_metrics.h"

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
  for (size_t i = 0; i < lost_.size(); ++i)
    lost_[i] =
        table.Declare(kSelfSinkDropped, sink, {{"queue", "delivery"}, {"reason", stats.lost[i].first}});
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
  for (size_t i = 0; i < lost_.size(); ++i) out.Set(lost_[i], stats.lost[i].second);
  if (!stats.on_disk) return;
  out.Set(size_, stats.queued_bytes);
  out.Set(limit_, stats.queue_limit);
  out.Set(unusable_, stats.unusable ? 1 : 0);
  out.Set(age_, static_cast<double>(stats.oldest_age.value_or(Duration::zero()).count()) / 1e9);
}

}  // namespace gpulens
