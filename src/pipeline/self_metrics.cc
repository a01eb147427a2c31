#include "pipeline/self_metrics.h"

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "base/version.h"
#include "catalog/self.h"

namespace gpulens {
namespace {

// All values are set at every tick, so none is shown stale.
constexpr Duration kTtl = std::chrono::seconds(10);
// Log levels of the catalogue; trace counts as debug.
constexpr std::string_view kLevels[] = {"debug", "info", "warning", "error"};

double Seconds(Duration d) { return static_cast<double>(d.count()) * 1e-9; }
double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// Prefixes of the rows that SelfMetrics writes; the collector `self`, scrapes and readers write others.
constexpr std::string_view kPrefixes[] = {
    "gpulens.analyzer.", "gpulens.build.",  "gpulens.collector.", "gpulens.enricher.",
    "gpulens.log.",      "gpulens.memory.", "gpulens.ready",      "gpulens.receiver.",
    "gpulens.sample",    "gpulens.series",  "gpulens.simulated",  "gpulens.sink.",
    "gpulens.start.",    "gpulens.text.",   "gpulens.tick.",      "target.info"};

void SetErrors(const EntitySeries& of, std::span<Series, kCodes> errors, const MetricDesc& desc,
               const std::array<uint64_t, kCodes>& counts) {
  for (size_t i = 1; i < kCodes; ++i)
    of.Set(errors[i], desc, counts[i], {{"code", CodeName(static_cast<Code>(i))}});
}

}  // namespace

void DeliveryMetrics::Write(const DeliveryStats& stats, const EntityRef& sink, FrameWriter& out) {
  const bool declares = !std::exchange(declared_, true);
  const EntitySeries of(out, sink, declares);
  const size_t signals = std::min(stats.signals.size(), stats.signal_names.size());
  if (declares) signals_.resize(signals);
  for (size_t i = 0; i < std::min(signals_.size(), signals); ++i) {
    const DeliveryStats::Signal& signal = stats.signals[i];
    of.Set(signals_[i].delivered, kSelfSinkDelivered, signal.delivered, {{"signal", stats.signal_names[i]}});
    of.Set(signals_[i].rejected, kSelfSinkRejected, signal.rejected, {{"signal", stats.signal_names[i]}});
  }
  of.Set(left_out_, kSelfSinkFiltered, stats.left_out);
  of.Set(untranslated_, kSelfSinkUntranslated, stats.untranslated);
  of.Set(retries_, kSelfSinkRetries, stats.retries);
  of.Set(sent_, kSelfSinkSent, stats.sent_bytes);
  of.Set(length_, kSelfSinkQueueLength, stats.queued_records, {{"queue", "delivery"}});
  for (size_t i = 0; i < dropped_.size(); ++i)
    of.Set(dropped_[i], kSelfSinkDropped, stats.dropped[i].second,
           {{"queue", "delivery"}, {"reason", stats.dropped[i].first}});
  if (stats.on_disk) {
    of.Set(size_, kSelfSinkDiskQueueSize, stats.queued_bytes);
    of.Set(limit_, kSelfSinkDiskQueueLimit, stats.queue_limit);
    of.Set(age_, kSelfSinkDiskQueueOldestAge,
           static_cast<double>(stats.oldest_age.value_or(Duration::zero()).count()) / 1e9);
    of.Set(unusable_, kSelfSinkDiskQueueUnusable, stats.unusable ? 1 : 0);
  }
  for (const auto& [code, count] : stats.requests) {
    const auto [at, added] = requests_.try_emplace(code);
    EntitySeries(out, sink, added)
        .Set(at->second, kSelfSinkRequests, count, {{"code", std::string_view(code)}});
  }
}

void LeftoverMetrics::Write(const std::vector<QueueLeftover>& leftovers, FrameWriter& out) {
  for (auto& [name, sink] : sinks_) sink.seen = false;
  for (const QueueLeftover& leftover : leftovers) {
    OfSink& sink = sinks_[leftover.sink];
    const bool added = !sink.entity;
    if (added)
      sink.entity = MakeRef<Entity>("sink", AttributeSet({{"sink", std::string_view(leftover.sink)}}));
    sink.seen = true;
    const EntitySeries of(out, sink.entity, added);
    of.Set(sink.length, kSelfSinkDiskQueueLeftoverLength, leftover.records);
    of.Set(sink.size, kSelfSinkDiskQueueLeftoverSize, leftover.bytes);
  }
  std::erase_if(sinks_, [&](const auto& item) {
    if (item.second.seen) return false;
    out.table().Retire(item.second.entity);
    return true;
  });
}

void RollupMetrics::Write(const RollupStats& stats, const EntityRef& sink, FrameWriter& out) {
  const EntitySeries of(out, sink, !groups_);
  of.Set(groups_, kSelfSinkRollupGroups, stats.groups);
  of.Set(combined_, kSelfSinkRollupSeries, stats.rolled_up, {{"result", "combined"}});
  of.Set(not_sent_, kSelfSinkRollupSeries, stats.left_out, {{"result", "not_sent"}});
  of.Set(intervals_, kSelfSinkRollupIntervals, stats.intervals);
  for (size_t i = 0; i < kRollupRefusals; ++i)
    of.Set(refused_[i], kSelfSinkRollupRefused, stats.refused[i],
           {{"reason", RollupRefusalName(static_cast<RollupRefusal>(i))}});
}

void ReceiverMetrics::Write(const ReceiverStats& stats, FrameWriter& out) {
  for (const ReceiverStats::Transport& transport : stats.transports) {
    OfTransport& known = transports_[transport.name];
    const bool added = !known.entity;
    if (added) known.entity = MakeRef<Entity>("receiver", AttributeSet({{"receiver", transport.name}}));
    const EntitySeries of(out, known.entity, added);
    of.Set(known.received, kSelfReceiverReceived, transport.received_bytes);
    for (size_t i = 0; i < kOtlpSignals; ++i) {
      const ReceiverStats::OfSignal& signal = transport.signals[i];
      OfSignal& series = known.signals[i];
      const std::string_view name = OtlpSignalName(static_cast<OtlpSignal>(i));
      const std::pair<std::string_view, uint64_t> results[kResults] = {{"accepted", signal.accepted},
                                                                       {"refused", signal.refused},
                                                                       {"rejected", signal.rejected},
                                                                       {"filtered", signal.filtered}};
      for (size_t k = 0; k < kResults; ++k)
        of.Set(series.results[k], kSelfReceiverPoints, results[k].second,
               {{"signal", name}, {"result", results[k].first}});
      for (const auto& [code, count] : signal.requests) {
        const auto [at, fresh] = series.requests.try_emplace(code);
        EntitySeries(out, known.entity, fresh)
            .Set(at->second, kSelfReceiverRequests, count,
                 {{"signal", name}, {"code", std::string_view(code)}});
      }
    }
  }
}

std::vector<const MetricDesc*> SelfMetricRows() {
  std::vector<const MetricDesc*> rows(std::begin(kSelfRows), std::end(kSelfRows));
  std::erase_if(rows, [](const MetricDesc* row) {
    return std::ranges::none_of(kPrefixes, [row](auto prefix) { return row->name.starts_with(prefix); });
  });
  return rows;
}

SelfMetrics::SelfMetrics(SeriesBudget& budget)
    : budget_(budget), table_(SeriesTable::Options{.budget = &budget}), writer_(table_, kTtl, "gpulens") {}

// An entity that is new declares its series.
template <class Of>
std::pair<Of&, EntitySeries> SelfMetrics::Find(ByName<Of>& known, std::string_view type,
                                               std::string_view name) {
  auto at = known.find(name);
  const bool added = at == known.end();
  if (added) {
    at = known.try_emplace(std::string(name)).first;
    at->second.entity = MakeRef<Entity>(std::string(type), AttributeSet({{type, name}}));
  }
  at->second.seen = update_;
  return {at->second, EntitySeries(writer_, at->second.entity, added)};
}

void SelfMetrics::UpdateOwn(const Input& input) {
  const EntityRef agent;
  const EntitySeries own(writer_, agent, update_ == 1);
  own.Set(tick_duration_, kSelfTickDuration, Seconds(input.tick_duration));
  own.Set(tick_late_, kSelfTickLate, input.late_ticks);
  own.Set(ready_, kSelfReady, input.ready ? 1 : 0);
  own.Set(simulated_, kSelfSimulated, input.simulated ? 1 : 0);
  own.Set(start_time_, kSelfStartTime, Seconds(started_unix_ns_));
  own.Set(text_replaced_, kSelfTextReplaced, ReplacedUtf8Bytes());
  own.Set(series_limit_, kSelfSeriesLimit, budget_.limit(), {{"limit", "total"}});
  own.Set(memory_limit_, kSelfMemoryLimit, input.memory_limit);
  own.Set(build_info_, kSelfBuildInfo, 1,
          {{"version", Version()},
           {"revision", Revision()},
           {"compiler", Compiler()},
           {"build_type", BuildType()}});
  const LogCounts logs = CurrentLogCounts();
  for (size_t i = 0; i < std::size(kLevels); ++i) {
    own.Set(log_written_[i], kSelfLogMessages, logs.written[i + 1] + (i == 0 ? logs.written[0] : 0),
            {{"level", kLevels[i]}, {"result", "written"}});
    own.Set(log_suppressed_[i], kSelfLogMessages, logs.suppressed[i + 1] + (i == 0 ? logs.suppressed[0] : 0),
            {{"level", kLevels[i]}, {"result", "suppressed"}});
  }
}

void SelfMetrics::UpdateCollector(const Instance& instance, Instant now) {
  const auto [c, of] = Find(collectors_, "collector", instance.name());
  const InstanceStats& stats = instance_stats_;
  instance.ReadStats(instance_stats_);
  const Ref<const Frame> latest = instance.latest();
  const bool fresh = latest && instance.AgeOf(*latest, now) == Instance::Age::kFresh;
  of.Set(c.up, kSelfCollectorUp, stats.up && fresh ? 1 : 0);
  of.Declare(c.duration, kSelfCollectorDuration);
  of.Declare(c.last_success, kSelfCollectorLastSuccessTime);
  of.Set(c.interval, kSelfCollectorInterval, Seconds(instance.setup().period));
  of.Declare(c.age, kSelfSampleAge);
  of.Set(c.series, kSelfSeries, stats.series);
  of.Set(c.runs_ok, kSelfCollectorRuns, stats.runs_ok, {{"result", "ok"}});
  of.Set(c.runs_error, kSelfCollectorRuns, stats.runs_error, {{"result", "error"}});
  of.Set(c.runs_timeout, kSelfCollectorRuns, stats.runs_timeout, {{"result", "timeout"}});
  of.Set(c.accepted, kSelfSamples, stats.samples.accepted, {{"result", "accepted"}, {"reason", "none"}});
  of.Set(c.stale, kSelfSamples, stats.samples.stale, {{"result", "stale"}, {"reason", "none"}});
  for (size_t i = 1; i < kValidations; ++i)
    of.Set(c.rejected[i], kSelfSamples, stats.samples.rejected[i],
           {{"result", "rejected"}, {"reason", ValidationName(static_cast<Validation>(i))}});
  SetErrors(of, c.errors, kSelfCollectorErrors, stats.errors);
  for (size_t i = 0; i < kSeriesRefusals; ++i)
    of.Set(c.refused[i], kSelfSeriesRefused, stats.refused[i],
           {{"reason", SeriesRefusalName(static_cast<SeriesRefusal>(i))}});
  if (latest) {
    writer_.Set(c.duration, Seconds(stats.duration));
    writer_.Set(c.age, Seconds((now - latest->read_at).count() + stats.oldest_ns));
  }
  if (stats.last_success_unix_ns != 0) writer_.Set(c.last_success, Seconds(stats.last_success_unix_ns));
}

void SelfMetrics::UpdateAnalyzer(const AnalyzerView& analyzer) {
  const auto [a, of] = Find(analyzers_, "analyzer", analyzer.name);
  of.Set(a.duration, kSelfAnalyzerDuration, Seconds(analyzer.stats.duration));
  SetErrors(of, a.errors, kSelfAnalyzerErrors, analyzer.stats.errors);
}

void SelfMetrics::UpdateEnricher(const EnricherSet::View& enricher) {
  const auto [e, of] = Find(enrichers_, "enricher", enricher.name);
  of.Set(e.up, kSelfEnricherUp, enricher.up ? 1 : 0);
  SetErrors(of, e.errors, kSelfEnricherErrors, enricher.errors);
  of.Set(e.missing, kSelfEnricherMissing, enricher.missing);
}

void SelfMetrics::UpdateSink(const SinkView& sink, Delivery* delivery) {
  const auto [s, of] = Find(sinks_, "sink", sink.name);
  const SinkStats stats = sink.runner ? sink.runner->stats() : SinkStats();
  of.Set(s.up, kSelfSinkUp, stats.up ? 1 : 0);
  of.Declare(s.duration, kSelfSinkDuration);
  of.Declare(s.last_success, kSelfSinkLastSuccessTime);
  if (sink.queued()) {
    of.Set(s.length, kSelfSinkQueueLength, stats.queued, {{"queue", "snapshot"}});
    of.Set(s.capacity, kSelfSinkQueueCapacity, SinkRunner::kQueueDepth, {{"queue", "snapshot"}});
    of.Set(s.event_length, kSelfSinkQueueLength, stats.events_queued, {{"queue", "event"}});
    of.Set(s.event_capacity, kSelfSinkQueueCapacity, SinkRunner::kEventQueueDepth, {{"queue", "event"}});
  }
  for (size_t i = 0; i < kSinkDropReasons; ++i) {
    // Without a queue, only rejections are possible.
    if (!sink.queued() && static_cast<SinkDropReason>(i) != SinkDropReason::kRejected) continue;
    const std::string_view reason = SinkDropReasonName(static_cast<SinkDropReason>(i));
    of.Set(s.dropped[i], kSelfSinkDropped, stats.dropped[i], {{"queue", "snapshot"}, {"reason", reason}});
    of.Set(s.events_dropped[i], kSelfSinkDropped, stats.events_dropped[i],
           {{"queue", "event"}, {"reason", reason}});
  }
  if (stats.delivered != 0) writer_.Set(s.duration, Seconds(stats.duration));
  if (stats.last_success_unix_ns != 0) writer_.Set(s.last_success, Seconds(stats.last_success_unix_ns));
  if (sink.runner) {
    if (const auto rollups = sink.runner->rollup_stats()) s.rollups.Write(*rollups, s.entity, writer_);
  }
  if (!delivery || !delivery->ReadStats(sink.name, delivery_)) return;
  // A network sink is up when its receiver accepts data.
  writer_.Set(s.up, stats.up && delivery_.up ? 1 : 0);
  if (delivery_.last_success_unix_ns != 0)
    writer_.Set(s.last_success, Seconds(delivery_.last_success_unix_ns));
  s.delivery.Write(delivery_, s.entity, writer_);
}

template <class Of>
void SelfMetrics::RetireGone(ByName<Of>& known) {
  std::erase_if(known, [this](const auto& item) {
    if (item.second.seen == update_) return false;
    table_.Retire(item.second.entity);
    return true;
  });
}

// The resource changes only with a reload.
void SelfMetrics::UpdateTargetInfo(const AttributeSet& resource) {
  if (!(resource == resource_) || !target_info_) {
    table_.Retire(target_info_);
    resource_ = resource;
    target_info_ = resource.empty() ? Series() : table_.Declare(kTargetInfo, {}, resource);
  }
  if (target_info_) writer_.Set(target_info_, 1);
}

Ref<const Frame> SelfMetrics::Update(const Input& input) {
  if (++update_ == 1) started_unix_ns_ = input.now.unix_ns;
  writer_.Begin(input.now);
  UpdateOwn(input);
  UpdateTargetInfo(input.resource);
  for (const auto& instance : input.instances) UpdateCollector(*instance, input.now);
  for (const AnalyzerView& analyzer : input.analyzers) UpdateAnalyzer(analyzer);
  for (const EnricherSet::View& enricher : input.enrichers) UpdateEnricher(enricher);
  for (const SinkView& sink : input.sinks) UpdateSink(sink, input.delivery);
  if (input.received) receivers_.Write(*input.received, writer_);
  if (input.delivery) leftovers_.Write(input.delivery->leftovers(), writer_);
  RetireGone(collectors_);
  RetireGone(analyzers_);
  RetireGone(enrichers_);
  RetireGone(sinks_);
  return writer_.Finish();
}

}  // namespace gpulens
