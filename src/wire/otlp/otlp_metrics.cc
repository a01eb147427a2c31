#include "wire/otlp/otlp_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_set>
#include <utility>

#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/otlp_metrics_writer.h"
#include "wire/otlp/otlp_schema.h"

namespace gpulens {

using namespace otlp;

OtlpMetrics::OtlpMetrics(SeriesNamer namer, const Options& options)
    : namer_(std::move(namer)), options_(options) {}

const OtlpLayout& OtlpMetrics::TextOf(const Ref<const Layout>& layout) {
  return texts_.Of(layout, [this](const Layout& one) { return NameOtlp(one, namer_, options_.style); });
}

// Its scope is the collector, "gpulens.scrape": targets differ by attributes.
OtlpMetrics::Source& OtlpMetrics::SourceOf(std::string_view name) {
  auto at = sources_.find(name);
  if (at != sources_.end()) return at->second;
  Source& source = sources_[std::string(name)];
  std::string scope_name = "gpulens.", scope;
  scope_name += name.substr(0, name.find('/'));
  AppendText(scope, kScopeName, scope_name);
  AppendText(scope, kScopeVersion, options_.scope_version);
  AppendBytes(source.scope, kScope, scope);
  AppendText(source.scope, kSchemaUrlField, kSchemaUrl);
  return source;
}

void OtlpMetrics::Plan(const Snapshot& snapshot) {
  if (!planned_.HasResource(snapshot)) {
    std::string attributes;
    AppendAttributes(attributes, kResourceAttributes, snapshot.resource);
    resource_bytes_.clear();
    AppendBytes(resource_bytes_, kResource, attributes);
    AppendText(resource_bytes_, kSchemaUrlField, kSchemaUrl);
  }
  planned_.Set(snapshot);
  if (namer_.Refresh(snapshot)) {
    former_ = std::exchange(texts_, {});
    ++naming_;
  }
  plan_.clear();
  for (const SnapshotEntry& entry : snapshot.frames) {
    const Ref<const Layout>& layout = entry.frame->layout;
    plan_.push_back({&TextOf(layout), {}});
  }
  DropDuplicates(snapshot);
}

// Drops all but one of equal series: the native one is exported, and of equals the earlier. Only families of
// two frames are compared.
void OtlpMetrics::DropDuplicates(const Snapshot& snapshot) {
  duplicates_ = 0;
  std::map<std::string_view, uint32_t> frames_with;
  for (const Planned& planned : plan_) {
    std::unordered_set<std::string_view> own;
    for (const OtlpFamily& family : planned.text->families) own.insert(family.name);
    for (std::string_view name : own) ++frames_with[name];
  }
  std::unordered_set<std::string> seen;
  std::string key;
  for (Precedence precedence : {Precedence::kNative, Precedence::kPassThrough}) {
    for (size_t i = 0; i < plan_.size(); ++i) {
      if (snapshot.frames[i].precedence != precedence) continue;
      const OtlpLayout& text = *plan_[i].text;
      for (const OtlpFamily& family : text.families) {
        if (frames_with[family.name] < 2) continue;
        for (uint32_t p = family.first; p < family.first + family.count; ++p) {
          const OtlpPoint& point = text.points[p];
          key = family.name;
          key += '\0';
          key.append(text.arena, point.attributes, point.values - point.attributes);
          if (seen.insert(key).second) continue;
          plan_[i].dropped.resize(text.points.size());
          plan_[i].dropped[p] = 1;
          ++duplicates_;
        }
      }
    }
  }
}

Status OtlpMetrics::Encode(const Snapshot& snapshot, const Take& take) {
  if (std::exchange(uncommitted_, false)) Owe();
  const Take counted = [&](std::string_view request, uint32_t points) {
    Status taken = take(request, points);
    uncommitted_ |= taken.ok();
    return taken;
  };
  return EncodeNew(snapshot, counted);
}

Status OtlpMetrics::EncodeNew(const Snapshot& snapshot, const Take& take) {
  if (ImageFits(snapshot)) return ReportImage(snapshot, take);
  const bool choices = options_.style.delta_counters || options_.style.delta_histograms;
  image_.kept = image_.made = false;
  image_.recording = options_.keep_request && !choices && requests_ == 1;
  image_.patches.clear();
  image_.runs.clear();
  requests_ = 0;
  if (!planned_.Fits(snapshot)) Plan(snapshot);
  for (auto& [name, source] : sources_) source.touched = false;
  tick_unix_ns_ = snapshot.closed_at.unix_ns;
  if (begun_unix_ns_ == 0) begun_unix_ns_ = tick_unix_ns_;
  pending_.clear();
  if (choices) FollowLayouts(snapshot);
  former_ = {};
  Writer writer(request_, resource_bytes_, options_, take);
  for (uint32_t i = 0; i < plan_.size(); ++i) {
    Source& source = SourceOf(snapshot.frames[i].source);
    source.touched = true;
    RETURN_IF_ERROR(Report(snapshot, i, source, writer));
  }
  for (auto& [name, source] : sources_) {
    if (source.touched) continue;
    writer.BeginScope(source.scope);
    RETURN_IF_ERROR(ReportEnds(snapshot, source, nullptr, writer));
    source.next = {};
  }
  RETURN_IF_ERROR(Flush(writer));
  points_ = writer.total();
  // A request with what is sent only once (a flag, an exemplar, a stale reading) cannot be repeated.
  image_.made = image_.recording && requests_ == 1 && points_ == image_.patches.size();
  if (image_.made) {
    image_.qualities.resize(snapshot.frames.size());
    for (size_t i = 0; i < snapshot.frames.size(); ++i)
      image_.qualities[i] = snapshot.frames[i].frame->quality;
  }
  texts_.Forget();
  return Ok();
}

void OtlpMetrics::Commit() {
  uncommitted_ = false;
  for (auto& [name, source] : sources_) {
    std::swap(source.now, source.next);
    source.owed.clear();
  }
  image_.kept |= std::exchange(image_.made, false);
  std::erase_if(sources_, [](const auto& item) { return !item.second.now.layout; });
}

// Later deltas are relative to this request.
Status OtlpMetrics::Flush(Writer& writer) {
  requests_ += writer.points() != 0;
  RETURN_IF_ERROR(writer.Flush());
  for (const Pending& one : pending_) {
    std::copy_n(one.cells, one.count, one.bases->cells.begin() + one.base);
    one.bases->reported_unix_ns[one.base] = one.unix_ns;
  }
  pending_.clear();
  return Ok();
}

void OtlpMetrics::Remember(const Frame& frame, const Planned& planned, const OtlpLayout& text,
                           Reported& next) {
  next.layout = frame.layout;
  next.read_unix_ns = frame.read_at.unix_ns;
  next.age_ms = frame.age_ms;
  next.shown.resize(frame.quality.size());
  for (size_t slot = 0; slot < next.shown.size(); ++slot)
    next.shown[slot] = text.Shows(frame, static_cast<uint32_t>(slot));
  // A series that another source exports is not ended by this one.
  for (size_t p = 0; p < planned.dropped.size(); ++p) {
    if (planned.dropped[p]) next.shown[text.points[p].slot] = 0;
  }
}

// When the reading that the receiver has of a slot was made, as far as that is known. Ages are cut to
// milliseconds: the time of one reading may come out up to one later from another frame.
int64_t OtlpMetrics::Reported::ReadingUnixNs(uint64_t layout_id, uint32_t slot) const noexcept {
  if (!layout) return std::numeric_limits<int64_t>::min();
  const bool known = layout->id() == layout_id && slot < age_ms.size() && shown[slot];
  return read_unix_ns - (known ? int64_t{age_ms[slot]} * kNsOfMs : 0);
}

// The points of one frame that its receiver has not seen.
Status OtlpMetrics::Report(const Snapshot& snapshot, uint32_t number, Source& source, Writer& writer) {
  const Frame& frame = *snapshot.frames[number].frame;
  Reporting reporting{frame, TextOf(frame.layout), plan_[number], source, number};
  if (source.now.layout) reporting.reported_unix_ns = source.now.read_unix_ns;
  Remember(frame, reporting.planned, reporting.text, source.next);
  writer.BeginScope(source.scope);
  RETURN_IF_ERROR(ReportEnds(snapshot, source, &frame, writer));
  // A tick that leaves one out is no pattern for the next.
  image_.recording &= frame.read_at.unix_ns != reporting.reported_unix_ns && frame.age_ms.empty();
  if (frame.read_at.unix_ns == reporting.reported_unix_ns) return Ok();
  for (const OtlpFamily& family : reporting.text.families)
    RETURN_IF_ERROR(ReportFamily(reporting, family, writer));
  return Ok();
}

Status OtlpMetrics::ReportFamily(const Reporting& reporting, const OtlpFamily& family, Writer& writer) {
  const auto& [frame, text, planned, source, number, reported_at] = reporting;
  const bool examples = !frame.exemplars.empty() && FieldsOf(PointShape(family.data)).exemplars != 0;
  auto fresh = [&](uint32_t p) {
    const uint32_t slot = text.points[p].slot;
    const Quality quality = frame.quality[slot];
    if (!planned.dropped.empty() && planned.dropped[p]) return false;
    if (!text.Shows(frame, slot)) return false;
    // A reading that was already exported is not exported again.
    if ((quality == Quality::kStale || frame.AgeMs(slot) != 0) &&
        ReadUnixNs(frame, slot) < source.now.ReadingUnixNs(frame.layout->id(), slot) + kNsOfMs)
      return false;
    return !family.delta || BeginsDelta(reporting, p);
  };
  auto alone = [&](uint32_t p) { return examples && HasExemplar(reporting, p); };
  writer.BeginFamily(family);
  const uint32_t end = family.first + family.count;
  for (uint32_t p = family.first; p < end;) {
    if (!fresh(p)) {
      ++p;
      continue;
    }
    if (alone(p)) {
      RETURN_IF_ERROR(ReportWithExemplars(reporting, family, p++, writer));
      continue;
    }
    const uint32_t begin = p;
    size_t room = writer.Room(text.points[p].end - text.points[p].begin);
    if (room == 0) {
      RETURN_IF_ERROR(Flush(writer));
      room = writer.Room(text.points[p].end - text.points[p].begin);
    }
    for (++p; p < end && p - begin < room && fresh(p) && !alone(p);) ++p;
    const uint32_t from = text.points[begin].begin;
    std::string& out = writer.Open();
    const size_t at = out.size();
    out.append(text.arena, from, text.points[p - 1].end - from);
    for (uint32_t i = begin; i < p; ++i) {
      const size_t place = at + (text.points[i].end - from);
      PutNumbers(reporting, family, i, out.data() + place);
      if (image_.recording) Record(reporting, family, i, place);
    }
    writer.Count(p - begin);
  }
  return Ok();
}

using namespace otlp;

void OtlpMetrics::Writer::BeginScope(std::string_view scope) noexcept {
  CloseScope();
  scope_ = scope;
}

void OtlpMetrics::Writer::BeginFamily(const OtlpFamily& family) noexcept {
  CloseFamily();
  family_ = &family;
}

size_t OtlpMetrics::Writer::Room(size_t bytes) const noexcept {
  const size_t points = options_.max_points - std::min<size_t>(points_, options_.max_points);
  const size_t size = resource_at_ == 0 ? 0 : request_.size();
  const size_t left = options_.max_bytes - std::min(size, options_.max_bytes);
  const size_t room = std::min(points, left / std::max<size_t>(bytes, 1));
  return points_ == 0 ? std::max<size_t>(room, 1) : room;
}

std::string& OtlpMetrics::Writer::Open() {
  if (resource_at_ == 0) {
    request_.clear();
    resource_at_ = nesting_.Open(kResourceList);
    request_ += resource_;
  }
  if (scope_at_ == 0) {
    scope_at_ = nesting_.Open(kScopeList);
    request_ += scope_;
  }
  if (metric_at_ == 0) {
    metric_at_ = nesting_.Open(kItems);
    request_ += family_->head;
    data_at_ = nesting_.Open(family_->data);
  }
  return request_;
}

void OtlpMetrics::Writer::CloseFamily() noexcept {
  if (metric_at_ == 0) return;
  request_ += family_->tail;
  nesting_.Close(data_at_);
  nesting_.Close(metric_at_);
  metric_at_ = data_at_ = 0;
}

void OtlpMetrics::Writer::CloseScope() noexcept {
  CloseFamily();
  if (scope_at_ != 0) nesting_.Close(scope_at_);
  scope_at_ = 0;
}

Status OtlpMetrics::Writer::Flush() {
  CloseScope();
  if (resource_at_ != 0) nesting_.Close(resource_at_);
  resource_at_ = 0;
  const uint32_t points = std::exchange(points_, 0);
  total_ += points;
  return points == 0 ? Ok() : take_(request_, points);
}

// The image: the request of the last tick. If the next tick has the same points, only their times and numbers
// are replaced.

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
  if (!image_.kept || !planned_.Fits(snapshot)) return false;
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
        family.form == OtlpFamily::Form::kNumber && !family.int_cells && family.scale == 1 && !family.whole;
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

// Numbers of data points, and their exemplars.
namespace {

using namespace otlp;

uint64_t Whole(double value) noexcept {
  return value >= 1 && value < 0x1p63 ? static_cast<uint64_t>(std::llround(value)) : 0;
}

double Reported(const OtlpFamily& family, Cell cell) noexcept {
  double value = family.int_cells ? static_cast<double>(cell.i) : cell.d;
  if (family.scale != 1) value *= family.scale;
  return family.whole ? std::round(value) : value;
}

// Writes a number relative to `since`. One that fell was reset.
void PutNumber(const OtlpFamily& family, Cell cell, const Cell* since, char* at) noexcept {
  if (family.as_int) {
    const bool grew = since && since->i <= cell.i;
    return PutFixed(at, grew ? cell.i - since->i : cell.i);
  }
  const double now = Reported(family, cell), before = since ? Reported(family, *since) : 0;
  PutFixed(at, since && before <= now ? now - before : now);
}

void AppendExemplar(const Exemplar& exemplar, double scale, std::string& out) {
  if (exemplar.unix_ns > 0) AppendFixed(out, kExemplarTime, static_cast<uint64_t>(exemplar.unix_ns));
  AppendFixed(out, kExemplarDouble, exemplar.value * scale);
  for (auto [key, value] : exemplar.attributes) {
    std::array<char, 8> span;
    std::array<char, 16> trace;
    const auto* text = std::get_if<std::string_view>(&value);
    if (text && key == "span_id" && FromHex(*text, span.data(), span.size()))
      AppendBytes(out, kSpanId, {span.data(), span.size()});
    else if (text && key == "trace_id" && FromHex(*text, trace.data(), trace.size()))
      AppendBytes(out, kTraceId, {trace.data(), trace.size()});
    else AppendAttribute(out, kExemplarAttributes, key, value);
  }
}

// A page shows its last exemplar until there is another: it is exported once. One without a time is exported
// with each reading.
bool IsNew(const Exemplar& exemplar, int64_t reported_unix_ns) noexcept {
  return exemplar.unix_ns <= 0 || exemplar.unix_ns > reported_unix_ns;
}

}  // namespace

bool OtlpMetrics::HasExemplar(const Reporting& reporting, uint32_t p) noexcept {
  const OtlpPoint& point = reporting.text.points[p];
  const auto all = ExemplarsOf(reporting.frame, point.cell, (*reporting.frame.layout)[point.slot].cells());
  return std::any_of(all.begin(), all.end(),
                     [&](const Exemplar& one) { return IsNew(one, reporting.reported_unix_ns); });
}

Status OtlpMetrics::ReportWithExemplars(const Reporting& reporting, const OtlpFamily& family, uint32_t p,
                                        Writer& writer) {
  const OtlpPoint& point = reporting.text.points[p];
  const auto all = ExemplarsOf(reporting.frame, point.cell, (*reporting.frame.layout)[point.slot].cells());
  point_.assign(reporting.text.arena, point.attributes, point.end - point.attributes);
  PutNumbers(reporting, family, p, point_.data() + point_.size());
  for (const Exemplar& one : all) {
    if (!IsNew(one, reporting.reported_unix_ns)) continue;
    exemplar_.clear();
    AppendExemplar(one, family.scale, exemplar_);
    AppendBytes(point_, FieldsOf(PointShape(family.data)).exemplars, exemplar_);
  }
  if (writer.Room(point_.size()) == 0) RETURN_IF_ERROR(Flush(writer));
  AppendBytes(writer.Open(), kPoints, point_);
  writer.Count(1);
  return Ok();
}

// Writes the numbers of a point that ends at `end`.
void OtlpMetrics::PutNumbers(const Reporting& reporting, const OtlpFamily& family, uint32_t p, char* end) {
  const Frame& frame = reporting.frame;
  const OtlpPoint& point = reporting.text.points[p];
  const int64_t unix_ns = ReadUnixNs(frame, point.slot);
  PutFixed(end - 8, unix_ns);
  Since since;
  if (family.delta) {
    since = SinceOf(reporting, p);
    PutFixed(end - kFixedBytes - 8, since.unix_ns);
    pending_.push_back({&reporting.source.bases, frame.cells.data() + point.cell, reporting.text.bases[p],
                        (*frame.layout)[point.slot].cells(), unix_ns});
  }
  switch (family.form) {
    case OtlpFamily::Form::kNumber:
      return PutNumber(family, frame.cells[point.cell], since.cells,
                       end - (family.has_start ? 2 : 1) * kFixedBytes - 8);
    case OtlpFamily::Form::kSummary: return PutSummary(family, point, frame, end - 2 * kFixedBytes);
    case OtlpFamily::Form::kHistogram:
    case OtlpFamily::Form::kExponential:
      return PutHistogram(reporting, family, point, since.cells, end - 2 * kFixedBytes);
  }
}

// A bucket that cannot be read is as empty, its observations in the next one.
void OtlpMetrics::ReadCounts(const Shape& shape, std::span<const Cell> cells, bool int_cells, Counts& out) {
  CopyNumbers(cells, int_cells ? Number::kInt : Number::kDouble, numbers_);
  ReadBuckets(shape, numbers_, buckets_);
  out.count = Whole(buckets_.count);
  out.sum = buckets_.sum.value_or(0);
  out.upto.clear();
  uint64_t before = 0;
  size_t read = 0;
  ForEachBound(shape, [&](double bound) {
    const bool is_read = read < buckets_.bounds.size() && buckets_.bounds[read] == bound;
    if (is_read) before = std::clamp(Whole(buckets_.counts[read++]), before, out.count);
    out.upto.push_back(before);
  });
}

// A histogram of which any count fell was reset.
void OtlpMetrics::SubtractBase(const Shape& shape, const OtlpFamily& family, const Cell* cells) {
  ReadCounts(shape, {cells, shape.cells()}, family.int_cells, before_);
  bool fell = counts_.count < before_.count;
  for (size_t i = 0; i < counts_.upto.size(); ++i) fell |= counts_.upto[i] < before_.upto[i];
  if (fell) return;
  for (size_t i = 0; i < counts_.upto.size(); ++i) counts_.upto[i] -= before_.upto[i];
  counts_.count -= before_.count;
  counts_.sum -= before_.sum;
}

// The bytes are there already.
void OtlpMetrics::PutHistogram(const Reporting& reporting, const OtlpFamily& family, const OtlpPoint& point,
                               const Cell* since, char* end) {
  const Shape& shape = *(*reporting.frame.layout)[point.slot].shape;
  ReadCounts(shape, {reporting.frame.cells.data() + point.cell, shape.cells()}, family.int_cells, counts_);
  if (since) SubtractBase(shape, family, since);
  PutFixed(end - 8, counts_.count);
  end -= kFixedBytes;
  if (shape.has_sum) {
    PutFixed(end - 8, counts_.sum * family.scale);
    end -= kFixedBytes;
  }
  // Bucket counts are differences; what lies above the last bound is the rest.
  reported_.clear();
  uint64_t before = 0;
  for (uint64_t upto : counts_.upto) {
    upto = std::clamp(upto, before, counts_.count);
    reported_.push_back(upto - before);
    before = upto;
  }
  reported_.push_back(counts_.count - before);
  if (family.form == OtlpFamily::Form::kHistogram) {
    std::memcpy(end - 8 * reported_.size(), reported_.data(), 8 * reported_.size());
    return;
  }
  const ExponentialForm& form = reporting.text.forms[point.form];
  spread_.resize(form.buckets);
  PutFixed(end - 8, SpreadCounts(form, reported_, spread_));
  end -= kFixedBytes + kWideVarint * form.buckets;
  for (uint64_t count : spread_) {
    PutWideVarint(end, count);
    end += kWideVarint;
  }
}

void OtlpMetrics::PutSummary(const OtlpFamily& family, const OtlpPoint& point, const Frame& frame,
                             char* end) {
  const Shape& shape = *(*frame.layout)[point.slot].shape;
  const std::span<const Cell> cells(frame.cells.data() + point.cell, shape.cells());
  CopyNumbers(cells, family.int_cells ? Number::kInt : Number::kDouble, numbers_);
  PutFixed(end - 8, shape.has_count ? Whole(numbers_[shape.count_cell()]) : 0);
  end -= kFixedBytes;
  PutFixed(end - 8, shape.has_sum ? numbers_[shape.sum_cell()] * family.scale : 0.0);
  end -= kFixedBytes;
  // Each quantile is a field of 2 + 18 bytes, its value at the end.
  constexpr size_t kQuantileBytes = 2 + 2 * kFixedBytes;
  for (size_t i = shape.bounds.size(); i-- > 0; end -= kQuantileBytes)
    PutFixed(end - 8, numbers_[i] * family.scale);
}

}  // namespace gpulens
