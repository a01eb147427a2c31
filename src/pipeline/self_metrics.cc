#include "pipeline/self_metrics.h"

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

// Of the names of the rows below; the collector `self`, scrapes and readers write the other rows.
constexpr std::string_view kPrefixes[] = {
    "gpulens.analyzer.", "gpulens.build.",  "gpulens.collector.", "gpulens.enricher.",
    "gpulens.log.",      "gpulens.memory.", "gpulens.ready",      "gpulens.receiver.",
    "gpulens.sample",    "gpulens.series",  "gpulens.simulated",  "gpulens.sink.",
    "gpulens.start.",    "gpulens.text.",   "gpulens.tick.",      "target.info"};

}  // namespace

std::vector<const MetricDesc*> SelfMetricRows() {
  std::vector<const MetricDesc*> rows(std::begin(kSelfRows), std::end(kSelfRows));
  std::erase_if(rows, [](const MetricDesc* row) {
    return std::ranges::none_of(kPrefixes, [row](auto prefix) { return row->name.starts_with(prefix); });
  });
  return rows;
}

SelfMetrics::SelfMetrics(SeriesBudget& budget)
    : budget_(budget), table_(SeriesTable::Options{.budget = &budget}), writer_(table_, kTtl, "gpulens") {}

template <class Of>
Of& SelfMetrics::Find(ByName<Of>& known, std::string_view type, std::string_view name, bool& added) {
  auto at = known.find(name);
  added = at == known.end();
  if (added) at = known.try_emplace(std::string(name)).first;
  at->second.seen = update_;
  if (added) at->second.entity = MakeRef<Entity>(std::string(type), AttributeSet({{type, name}}));
  return at->second;
}

void SelfMetrics::DeclareErrors(const MetricDesc& desc, const EntityRef& entity,
                                std::span<Series, kCodes> errors) {
  for (size_t i = 1; i < kCodes; ++i)
    errors[i] = table_.Declare(desc, entity, {{"code", CodeName(static_cast<Code>(i))}});
}

void SelfMetrics::SetErrors(std::span<const Series, kCodes> errors,
                            const std::array<uint64_t, kCodes>& counts) {
  for (size_t i = 1; i < kCodes; ++i) writer_.Set(errors[i], counts[i]);
}

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
  bool added = false;
  OfCollector& c = Find(collectors_, "collector", instance.name(), added);
  if (added) {
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
    for (size_t i = 1; i < kVerdicts; ++i) {
      std::string_view reason = ValidationName(static_cast<Validation>(i));
      c.rejected[i] = table_.Declare(kSelfSamples, c.entity, {{"result", "rejected"}, {"reason", reason}});
    }
    DeclareErrors(kSelfCollectorErrors, c.entity, c.errors);
    for (size_t i = 0; i < kSeriesRefusals; ++i) {
      std::string_view reason = SeriesRefusalName(static_cast<SeriesRefusal>(i));
      c.refused[i] = table_.Declare(kSelfSeriesRefused, c.entity, {{"reason", reason}});
    }
  }
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
  for (size_t i = 1; i < kVerdicts; ++i) writer_.Set(c.rejected[i], stats.samples.rejected[i]);
  SetErrors(c.errors, stats.errors);
  for (size_t i = 0; i < kSeriesRefusals; ++i) writer_.Set(c.refused[i], stats.refused[i]);
}

void SelfMetrics::UpdateAnalyzer(const AnalyzerView& analyzer) {
  bool added = false;
  OfAnalyzer& a = Find(analyzers_, "analyzer", analyzer.name, added);
  if (added) {
    a.duration = table_.Declare(kSelfAnalyzerDuration, a.entity);
    DeclareErrors(kSelfAnalyzerErrors, a.entity, a.errors);
  }
  writer_.Set(a.duration, Seconds(analyzer.stats.duration));
  SetErrors(a.errors, analyzer.stats.errors);
}

void SelfMetrics::UpdateEnricher(const EnricherSet::View& enricher) {
  bool added = false;
  OfEnricher& e = Find(enrichers_, "enricher", enricher.name, added);
  if (added) {
    e.up = table_.Declare(kSelfEnricherUp, e.entity);
    DeclareErrors(kSelfEnricherErrors, e.entity, e.errors);
    e.missing = table_.Declare(kSelfEnricherMissing, e.entity);
  }
  writer_.Set(e.up, enricher.up ? 1 : 0);
  SetErrors(e.errors, enricher.errors);
  writer_.Set(e.missing, enricher.missing);
}

void SelfMetrics::UpdateSink(const SinkView& sink, Delivery* delivery) {
  bool added = false;
  OfSink& s = Find(sinks_, "sink", sink.name, added);
  if (added) {
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
      // Without a queue, only rejections are possible.
      if (!sink.queued() && static_cast<DropReason>(i) != DropReason::kRejected) continue;
      std::string_view reason = DropReasonName(static_cast<DropReason>(i));
      s.dropped[i] = table_.Declare(kSelfSinkDropped, s.entity, {{"queue", "snapshot"}, {"reason", reason}});
      s.events_dropped[i] =
          table_.Declare(kSelfSinkDropped, s.entity, {{"queue", "event"}, {"reason", reason}});
    }
  }
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
