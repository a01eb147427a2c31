#include "quality/quality_events.h"

#include <charconv>
#include <cmath>

#include "plugins/event_queue.h"

namespace gpulens {
namespace {

constexpr int64_t kQuiet = 600'000'000'000;

// A slot is used by one series after another; its generation tells them apart.
uint64_t KeyOf(const FrameWriter::Rejection& rejection) {
  uint64_t series = uint64_t{rejection.series.slot} << 32 | rejection.series.generation;
  return series * kValidations + static_cast<uint64_t>(rejection.why);
}

Event MakeEvent(const SeriesInfo& info, const FrameWriter::Rejection& rejection, Instant at) {
  Event event;
  event.at = at;
  event.name = "gpulens.quality";
  event.entity = info.entity;
  event.attributes =
      AttributeSet({{"gpulens.metric", info.desc->name}, {"gpulens.reason", ValidationName(rejection.why)}});
  event.body = std::string(info.desc->name);
  if (!std::isnan(rejection.value)) {
    char text[32];
    auto [end, error] = std::to_chars(text, text + sizeof text, rejection.value);
    event.body += " " + std::string(text, end);
    if (!info.desc->unit.empty()) event.body += " " + std::string(info.desc->unit);
  }
  event.body += " was rejected: " + std::string(ValidationName(rejection.why));
  return event;
}

}  // namespace

void QualityEvents::Report(const FrameWriter& run, EventQueue& queue) {
  for (const FrameWriter::Rejection& rejection : run.rejections()) {
    // What was never there is no bad reading.
    if (rejection.why == Validation::kNotSupported || !run.table().Live(rejection.series)) continue;
    int64_t now = run.begun_at().boot_ns;
    auto at = reported_ns_.find(KeyOf(rejection));
    if (at != reported_ns_.end() && now - at->second < kQuiet) continue;
    if (at == reported_ns_.end() && reported_ns_.size() >= kMaxKnown) {
      std::erase_if(reported_ns_, [&](const auto& item) { return now - item.second >= kQuiet; });
      if (reported_ns_.size() >= kMaxKnown) continue;
    }
    reported_ns_[KeyOf(rejection)] = now;
    queue.Report(MakeEvent(run.table().InfoAt(rejection.series.slot), rejection, run.begun_at()));
  }
}

}  // namespace gpulens
