#include "pipeline/self_metrics.h"

#include "base/log.h"
#include "base/text.h"
#include "base/version.h"
#include "catalog/self.h"

namespace gpulens {
namespace {

// Its values are read anew at every tick, so none is ever shown old.
constexpr Duration kTtl = std::chrono::seconds(10);
// Log levels as the catalogue has them; trace counts as debug.
constexpr std::string_view kLevels[] = {"debug", "info", "warning", "error"};

double Seconds(Duration d) { return static_cast<double>(d.count()) * 1e-9; }
double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

constexpr const MetricDesc* kRows[] = {&kSelfTickDuration,
                                       &kSelfTickLate,
                                       &kSelfReady,
                                       &kSelfSimulated,
                                       &kSelfStartTime,
                                       &kSelfSeriesLimit,
                                       &kSelfMemoryLimit,
                                       &kSelfBuildInfo,
                                       &kSelfLogMessages,
                                       &kSelfTextReplaced,
                                       &kSelfCollectorUp,
                                       &kSelfCollectorDuration,
                                       &kSelfCollectorRuns,
                                       &kSelfCollectorErrors,
                                       &kSelfCollectorLastSuccessTime,
                                       &kSelfCollectorInterval,
                                       &kSelfSampleAge,
                                       &kSelfSeries,
                                       &kSelfSamples,
                                       &kSelfSeriesRefused,
                                       &kSelfAnalyzerDuration,
                                       &kSelfAnalyzerErrors,
                                       &kSelfEnricherUp,
                                       &kSelfEnricherErrors,
                                       &kSelfEnricherMissing,
                                       &kSelfSinkUp,
                                       &kSelfSinkDuration,
                                       &kSelfSinkLastSuccessTime,
                                       &kSelfSinkQueueLength,
                                       &kSelfSinkQueueCapacity,
                                       &kSelfSinkDropped,
                                       &kSelfSinkDelivered,
                                       &kSelfSinkRejected,
                                       &kSelfSinkFiltered,
                                       &kSelfSinkUntranslated,
                                       &kSelfSinkRequests,
                                       &kSelfSinkRetries,
                                       &kSelfSinkSent,
                                       &kSelfSinkDiskQueueSize,
                                       &kSelfSinkDiskQueueLimit,
                                       &kSelfSinkDiskQueueOldestAge,
                                       &kSelfSinkDiskQueueUnusable,
                                       &kSelfSinkDiskQueueLeftoverLength,
                                       &kSelfSinkDiskQueueLeftoverSize,
                                       &kSelfSinkRollupGroups,
                                       &kSelfSinkRollupSeries,
                                       &kSelfSinkRollupRefused,
                                       &kSelfSinkRollupIntervals,
                                       &kSelfReceiverRequests,
                                       &kSelfReceiverPoints,
                                       &kSelfReceiverReceived,
                                       &kTargetInfo};

}  // namespace

std::span<const MetricDesc* const> SelfMetricRows() noexcept { return kRows; }

struct SelfMetrics::OfCollector {
  EntityRef entity;
  Series up, duration, last_success, interval, age, series;
  Series runs_ok, runs_error, runs_timeout, accepted, stale;
  Series errors[kCodes], rejected[kValidations], refused[kSeriesRefusals];
  uint64_t seen = 0;
};

struct SelfMetrics::OfAnalyzer {
  EntityRef entity;
  Series duration, errors[kCodes];
  uint64_t seen = 0;
};

struct SelfMetrics::OfEnricher {
  EntityRef entity;
  Series up, errors[kCodes], missing;
  uint64_t seen = 0;
};

struct SelfMetrics::OfSink {
  EntityRef entity;
  Series up, length, capacity, duration, last_success, dropped[kDropReasons];
  Series event_length, event_capacity, events_dropped[kDropReasons];
  DeliveryMetrics delivery;
  RollupMetrics rollups;
  uint64_t seen = 0;
};

SelfMetrics::SelfMetrics(SeriesBudget& budget)
    : budget_(budget), table_(SeriesTable::Options{.budget = &budget}), writer_(table_, kTtl, "gpulens") {}
SelfMetrics::~SelfMetrics() = default;

void SelfMetrics::DeclareOwn() {
  EntityRef agent;
  tick_duration_ = table_.Declare(kSelfTickDuration, agent);
  tick_late_ = table_.Declare(kSelfTickLate, agent);
  ready_ = table_.Declare(kSelfReady, agent);
  simulated_ = table_.Declare(kSelfSimulated, agent);
  start_time_ = table_.Declare(kSelfStartTime, agent);
  text_replaced_ = table_.Declare(kSelfTextReplaced, agent);
  series_limit_ = table_.Declare(kSelfSeriesLimit, agent, {{"limit", "total"}});
  memory_limit_ = table_.Declare(kSelfMemoryLimit, agent);
  build_info_ = table_.Declare(kSelfBuildInfo, agent,
                               {{"version", Version()},
                                {"revision", Revision()},
                                {"compiler", Compiler()},
                                {"build_type", BuildType()}});
  for (size_t i = 0; i < std::size(kLevels); ++i) {
    log_written_[i] = table_.Declare(kSelfLogMessages, agent, {{"level", kLevels[i]}, {"result", "written"}});
    log_suppressed_[i] =
        table_.Declare(kSelfLogMessages, agent, {{"level", kLevels[i]}, {"result", "suppressed"}});
  }
}

void SelfMetrics::UpdateCollector(const Instance& instance, Instant now) {
  auto& known = collectors_[instance.name()];
  if (!known) {
    known = std::make_unique<OfCollector>();
    OfCollector& c = *known;
    c.entity = MakeRef<Entity>("collector", AttributeSet({{"collector", std::string_view(instance.name())}}));
    c.up = table_.Declare(kSelfCollectorUp, c.entity);
    c.duration = table_.Declare(kSelfCollectorDuration, c.entity);
    c.last_success = table_.Declare(kSelfCollectorLastSuccessTime, c.entity);
    c.interval = table_.Declare(kSelfCollectorInterval, c.entity);
    c.age = table_.Declare(kSelfSampleAge, c.entity);
    c.series = table_.Declare(kSelfSeries, c.entity);
    c.runs_ok = table_.Declare(kSelfCollectorRuns, c.entity, {{"result", "ok"}});
    c.runs_error = table_.Declare(kSelfCollectorRuns, c.entity, {{"result", "error"}});
    c.runs_timeout = table_.Declare(kSelfCollectorRuns, c.entity, {{"result", "timeout"}});
    c.accepted = table_.Declare(kSelfSamples, c.entity, {{"result", "accepted"}, {"reason", "none"}});
    c.stale = table_.Declare(kSelfSamples, c.entity, {{"result", "stale"}, {"reason", "none"}});
    for (size_t i = 1; i < kValidations; ++i) {
      std::string_view reason = ValidationName(static_cast<Validation>(i));
      c.rejected[i] = table_.Declare(kSelfSamples, c.entity, {{"result", "rejected"}, {"reason", reason}});
    }
    for (size_t i = 1; i < kCodes; ++i) {
      c.errors[i] =
          table_.Declare(kSelfCollectorErrors, c.entity, {{"code", CodeName(static_cast<Code>(i))}});
    }
    for (size_t i = 0; i < kSeriesRefusals; ++i) {
      std::string_view reason = SeriesRefusalName(static_cast<SeriesRefusal>(i));
      c.refused[i] = table_.Declare(kSelfSeriesRefused, c.entity, {{"reason", reason}});
    }
  }
  OfCollector& c = *known;
  c.seen = update_;
  const InstanceStats& stats = instance_stats_;
  instance.ReadStats(instance_stats_);
  Ref<const Frame> latest = instance.latest();
  writer_.Set(c.up, stats.up && latest && instance.AgeOf(*latest, now) == Instance::Age::kFresh ? 1 : 0);
  writer_.Set(c.interval, Seconds(instance.setup().period));
  writer_.Set(c.series, stats.series);
  if (latest) {
    writer_.Set(c.duration, Seconds(stats.duration));
    writer_.Set(c.age, Seconds((now - latest->read_at).count() + stats.oldest_ns));
  }
  if (stats.last_success_unix_ns != 0) writer_.Set(c.last_success, Seconds(stats.last_success_unix_ns));
  writer_.Set(c.runs_ok, stats.runs_ok);
  writer_.Set(c.runs_error, stats.runs_error);
  writer_.Set(c.runs_timeout, stats.runs_timeout);
  writer_.Set(c.accepted, stats.samples.accepted);
  writer_.Set(c.stale, stats.samples.stale);
  for (size_t i = 1; i < kValidations; ++i) writer_.Set(c.rejected[i], stats.samples.rejected[i]);
  for (size_t i = 1; i < kCodes; ++i) writer_.Set(c.errors[i], stats.errors[i]);
  for (size_t i = 0; i < kSeriesRefusals; ++i) writer_.Set(c.refused[i], stats.refused[i]);
}

void SelfMetrics::UpdateAnalyzer(const AnalyzerView& analyzer) {
  auto at = analyzers_.find(analyzer.name);
  if (at == analyzers_.end()) at = analyzers_.emplace(analyzer.name, std::make_unique<OfAnalyzer>()).first;
  OfAnalyzer& a = *at->second;
  if (!a.entity) {
    a.entity = MakeRef<Entity>("analyzer", AttributeSet({{"analyzer", analyzer.name}}));
    a.duration = table_.Declare(kSelfAnalyzerDuration, a.entity);
    for (size_t i = 1; i < kCodes; ++i) {
      a.errors[i] = table_.Declare(kSelfAnalyzerErrors, a.entity, {{"code", CodeName(static_cast<Code>(i))}});
    }
  }
  a.seen = update_;
  writer_.Set(a.duration, Seconds(analyzer.stats.duration));
  for (size_t i = 1; i < kCodes; ++i) writer_.Set(a.errors[i], analyzer.stats.errors[i]);
}

void SelfMetrics::UpdateEnricher(const EnricherSet::View& enricher) {
  auto at = enrichers_.find(enricher.name);
  if (at == enrichers_.end()) at = enrichers_.emplace(enricher.name, std::make_unique<OfEnricher>()).first;
  OfEnricher& e = *at->second;
  if (!e.entity) {
    e.entity = MakeRef<Entity>("enricher", AttributeSet({{"enricher", enricher.name}}));
    e.up = table_.Declare(kSelfEnricherUp, e.entity);
    for (size_t i = 1; i < kCodes; ++i) {
      e.errors[i] = table_.Declare(kSelfEnricherErrors, e.entity, {{"code", CodeName(static_cast<Code>(i))}});
    }
    e.missing = table_.Declare(kSelfEnricherMissing, e.entity);
  }
  e.seen = update_;
  writer_.Set(e.up, enricher.up ? 1 : 0);
  for (size_t i = 1; i < kCodes; ++i) writer_.Set(e.errors[i], enricher.errors[i]);
  writer_.Set(e.missing, enricher.missing);
}

void SelfMetrics::UpdateSink(const SinkView& sink, Delivery* delivery) {
  auto at = sinks_.find(sink.name);
  if (at == sinks_.end()) at = sinks_.emplace(sink.name, std::make_unique<OfSink>()).first;
  OfSink& s = *at->second;
  if (!s.entity) {
    s.entity = MakeRef<Entity>("sink", AttributeSet({{"sink", sink.name}}));
    s.up = table_.Declare(kSelfSinkUp, s.entity);
    s.duration = table_.Declare(kSelfSinkDuration, s.entity);
    s.last_success = table_.Declare(kSelfSinkLastSuccessTime, s.entity);
    if (sink.queued()) {
      s.length = table_.Declare(kSelfSinkQueueLength, s.entity, {{"queue", "snapshot"}});
      s.capacity = table_.Declare(kSelfSinkQueueCapacity, s.entity, {{"queue", "snapshot"}});
      s.event_length = table_.Declare(kSelfSinkQueueLength, s.entity, {{"queue", "event"}});
      s.event_capacity = table_.Declare(kSelfSinkQueueCapacity, s.entity, {{"queue", "event"}});
    }
    for (size_t i = 0; i < kDropReasons; ++i) {
      // What has no queue can only refuse.
      if (!sink.queued() && static_cast<DropReason>(i) != DropReason::kRejected) continue;
      std::string_view reason = DropReasonName(static_cast<DropReason>(i));
      s.dropped[i] = table_.Declare(kSelfSinkDropped, s.entity, {{"queue", "snapshot"}, {"reason", reason}});
      s.events_dropped[i] =
          table_.Declare(kSelfSinkDropped, s.entity, {{"queue", "event"}, {"reason", reason}});
    }
  }
  s.seen = update_;
  const SinkStats stats = sink.runner ? sink.runner->stats() : SinkStats();
  writer_.Set(s.up, stats.up ? 1 : 0);
  if (sink.queued()) {
    writer_.Set(s.length, stats.queued);
    writer_.Set(s.capacity, SinkRunner::kQueueDepth);
    writer_.Set(s.event_length, stats.events_queued);
    writer_.Set(s.event_capacity, SinkRunner::kEventQueueDepth);
  }
  if (stats.delivered != 0) writer_.Set(s.duration, Seconds(stats.duration));
  if (stats.last_success_unix_ns != 0) writer_.Set(s.last_success, Seconds(stats.last_success_unix_ns));
  for (size_t i = 0; i < kDropReasons; ++i) {
    if (!sink.queued() && static_cast<DropReason>(i) != DropReason::kRejected) continue;
    writer_.Set(s.dropped[i], stats.dropped[i]);
    writer_.Set(s.events_dropped[i], stats.events_dropped[i]);
  }
  if (sink.runner) {
    if (const auto rollups = sink.runner->rollup_stats()) s.rollups.Write(*rollups, s.entity, writer_);
  }
  if (!delivery || !delivery->ReadStats(sink.name, delivery_)) return;
  // Of a sink that sends, its receiver has the last word.
  writer_.Set(s.up, stats.up && delivery_.up ? 1 : 0);
  if (delivery_.last_success_unix_ns != 0)
    writer_.Set(s.last_success, Seconds(delivery_.last_success_unix_ns));
  s.delivery.Write(delivery_, s.entity, writer_);
}

template <class Of>
void SelfMetrics::RetireGone(std::map<std::string, std::unique_ptr<Of>, std::less<>>& known) {
  for (auto at = known.begin(); at != known.end();) {
    if (at->second->seen == update_) {
      ++at;
      continue;
    }
    table_.Retire(at->second->entity);
    at = known.erase(at);
  }
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
  if (++update_ == 1) {
    started_unix_ns_ = input.now.unix_ns;
    DeclareOwn();
  }
  writer_.Begin(input.now);
  writer_.Set(tick_duration_, Seconds(input.tick_duration));
  writer_.Set(tick_late_, input.late_ticks);
  writer_.Set(ready_, input.ready ? 1 : 0);
  writer_.Set(simulated_, input.simulated ? 1 : 0);
  writer_.Set(build_info_, 1);
  UpdateTargetInfo(input.resource);
  writer_.Set(start_time_, Seconds(started_unix_ns_));
  writer_.Set(series_limit_, budget_.limit());
  writer_.Set(text_replaced_, ReplacedUtf8Bytes());
  writer_.Set(memory_limit_, input.memory_limit);
  LogCounts logs = CurrentLogCounts();
  for (size_t i = 0; i < std::size(kLevels); ++i) {
    writer_.Set(log_written_[i], logs.written[i + 1] + (i == 0 ? logs.written[0] : 0));
    writer_.Set(log_suppressed_[i], logs.suppressed[i + 1] + (i == 0 ? logs.suppressed[0] : 0));
  }
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
