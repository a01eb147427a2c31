// The request of the last tick, kept: where the next one has the same points, only their times and numbers
// are put in place.
#include <algorithm>

#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/otlp_metrics.h"
#include "wire/otlp/otlp_metrics_writer.h"

namespace gpulens {

using namespace otlp;

void OtlpMetrics::Record(const Reporting& reporting, const OtlpFamily& family, uint32_t p, size_t end) {
  const auto number = static_cast<uint32_t>(&family - reporting.text.families.data());
  if (image_.runs.empty() || image_.runs.back().frame != reporting.number ||
      image_.runs.back().family != number)
    image_.runs.push_back({reporting.number, number, static_cast<uint32_t>(image_.patches.size()), 0});
  ++image_.runs.back().count;
  image_.patches.push_back({static_cast<uint32_t>(end), p, reporting.text.points[p].cell});
}

// The same frames with the same layouts, qualities and states, all read since, and nothing that a point is
// longer for.
bool OtlpMetrics::ImageFits(const Snapshot& snapshot) const noexcept {
  if (!image_.kept || !PlanFits(snapshot)) return false;
  for (size_t i = 0; i < snapshot.frames.size(); ++i) {
    const Frame& frame = *snapshot.frames[i].frame;
    const auto source = sources_.find(snapshot.frames[i].source);
    if (source == sources_.end() || !frame.age_ms.empty() || !frame.exemplars.empty()) return false;
    if (source->second.now.read_unix_ns == frame.read_at.unix_ns || frame.quality != image_.qualities[i])
      return false;
    const OtlpLayout& text = *plan_[i].text;
    const std::vector<uint8_t>& shown = source->second.now.shown;
    for (uint32_t slot = 0; slot < text.only_if_set.size(); ++slot) {
      if (text.only_if_set[slot] && text.Shows(frame, slot) != (shown[slot] != 0)) return false;
    }
  }
  return true;
}

Status OtlpMetrics::ReportImage(const Snapshot& snapshot, const Take& take) {
  for (const Image::Run& run : image_.runs) {
    const Frame& frame = *snapshot.frames[run.frame].frame;
    const OtlpLayout& text = TextOf(frame.layout);
    const OtlpFamily& family = text.families[run.family];
    const std::span<const Image::Patch> patches(image_.patches.data() + run.first, run.count);
    const bool plain =
        family.form == OtlpFamily::kNumber && !family.int_cells && family.scale == 1 && !family.whole;
    if (!plain) {
      const Reporting reporting{frame, text, plan_[run.frame], SourceOf(snapshot.frames[run.frame].source)};
      for (const Image::Patch& patch : patches)
        PutNumbers(reporting, family, patch.point, request_.data() + patch.end);
      continue;
    }
    const int64_t unix_ns = frame.read_at.unix_ns;
    const size_t back = (family.has_start ? 2 : 1) * kFixedBytes + 8;
    const Cell* const cells = frame.cells.data();
    char* const bytes = request_.data();
    for (const Image::Patch& patch : patches) {
      PutFixed(bytes + patch.end - 8, unix_ns);
      PutFixed(bytes + patch.end - back, cells[patch.cell].d);
    }
  }
  for (size_t i = 0; i < plan_.size(); ++i) {
    const Frame& frame = *snapshot.frames[i].frame;
    Remember(frame, plan_[i], TextOf(frame.layout), SourceOf(snapshot.frames[i].source).next);
  }
  points_ = image_.patches.size();
  texts_.Forget();
  return points_ == 0 ? Ok() : take(request_, static_cast<uint32_t>(points_));
}

}  // namespace gpulens
