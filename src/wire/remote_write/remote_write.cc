#include "wire/remote_write/remote_write.h"

#include <algorithm>
#include <cmath>
#include <protozero/pbf_writer.hpp>

#include "base/result.h"

namespace gpulens {
namespace {

using namespace remote_write;

double ValueOf(const Frame& frame, const RemoteWriteFamily& family, const RemoteWriteLine& line) noexcept {
  const Cell cell = frame.cells[line.cell];
  double value = line.flags & RemoteWriteLine::kInt ? static_cast<double>(cell.i) : cell.d;
  if (line.flags & RemoteWriteLine::kScaled) value *= family.scale;
  if (line.flags & RemoteWriteLine::kWhole) value = std::round(value);
  return AsReading(value);
}

int64_t Whole(double value) noexcept {
  return value >= 1 && value < 0x1p62 ? static_cast<int64_t>(std::llround(value)) : 0;
}

// A field of samples; `out` is cleared.
void SetSample(std::string& out, double value, int64_t ms, int64_t start_ms) {
  constexpr char kHead[] = {kSamples << 3 | 2, 0, kValue << 3 | 1};
  out.assign(kHead, sizeof kHead);
  out.append(8, '\0');
  out += static_cast<char>(kTimestamp << 3);
  out.append(kMsBytes, '\0');
  PutSample(out.data() + out.size(), value, ms);
  if (start_ms != 0) {
    out += static_cast<char>(kStartTimestamp << 3);
    out.append(kMsBytes, '\0');
    PutMs(out.data() + out.size() - kMsBytes, start_ms);
  }
  out[1] = static_cast<char>(out.size() - 2);
}

}  // namespace

RemoteWrite::RemoteWrite(Speller speller, Options options)
    : speller_(std::move(speller)), options_(std::move(options)) {}

void RemoteWrite::SetVersion(RemoteWriteVersion version) {
  if (options_.version == version) return;
  options_.version = version;
  texts_ = {};
  resource_.reset();
  metadata_.clear();
}

Status RemoteWrite::Encode(const Snapshot& snapshot, const Take& take) {
  if (!PlanFits(snapshot)) Plan(snapshot);
  take_ = &take;
  samples_ = 0;
  request_.Begin(options_.version);
  for (auto& [name, source] : sources_) source.touched = false;
  for (size_t i = 0; i < plan_.size(); ++i) {
    const SnapshotEntry& entry = snapshot.frames[i];
    auto at = sources_.find(entry.source);
    if (at == sources_.end()) at = sources_.try_emplace(std::string(entry.source)).first;
    at->second.touched = true;
    TextOf(entry.frame->layout);  // it is in use
    RETURN_IF_ERROR(Tell(entry, plan_[i], at->second));
  }
  for (auto& [name, source] : sources_) {
    if (source.touched) continue;
    if (source.now.text) RETURN_IF_ERROR(TellEnded(source.now, snapshot.closed_at));
    source.next = {};
  }
  RETURN_IF_ERROR(Hand());
  RETURN_IF_ERROR(TellMetadata(snapshot.closed_at));
  texts_.Forget();
  return Ok();
}

Status RemoteWrite::EncodeEnd(Instant now, const Take& take) {
  take_ = &take;
  samples_ = 0;
  request_.Begin(options_.version);
  for (auto& [name, source] : sources_) {
    if (!source.now.text) continue;
    source.next = source.now;
    symbols_.Add(*source.next.text);
    for (size_t l = 0; l < source.next.lines.size(); ++l) {
      if (source.next.lines[l].shown)
        RETURN_IF_ERROR(PutEnd(*source.next.text, source.next.text->lines[l], source.next.lines[l], now));
    }
  }
  return Hand();
}

void RemoteWrite::Commit() {
  for (auto& [name, source] : sources_) std::swap(source.now, source.next);
  std::erase_if(sources_, [](const auto& item) { return !item.second.now.text; });
}

// The samples of one frame that its receiver has not seen, and the ends of what it no longer has.
Status RemoteWrite::Tell(const SnapshotEntry& entry, const Planned& planned, Source& source) {
  const Frame& frame = *entry.frame;
  Told &now = source.now, &next = source.next;
  const bool same = now.text == planned.text;
  if (same && now.run == frame.run && now.read_boot_ns == frame.read_at.boot_ns) {
    next = now;
    return Ok();
  }
  if (same) {
    carried_ = now.lines;
  } else {
    carried_.assign(planned.text->lines.size(), {});
    if (now.text) RETURN_IF_ERROR(Carry(now, planned.text, frame.read_at));
  }
  next.text = planned.text;
  next.run = frame.run;
  next.read_boot_ns = frame.read_at.boot_ns;
  std::swap(next.lines, carried_);
  FindFresh(frame, planned, next);
  for (uint32_t line : ended_)
    RETURN_IF_ERROR(PutEnd(*next.text, next.text->lines[line], next.lines[line], frame.read_at));
  return options_.version == RemoteWriteVersion::k1 ? PutFresh1(frame, *next.text)
                                                    : PutFresh2(frame, *next.text);
}

// What was known of a source's lines before its texts changed, to those that are the same series now.
Status RemoteWrite::Carry(Told& from, const Layouts& to, Instant now) {
  symbols_.Add(*from.text);
  std::unordered_map<std::string, uint32_t> places;
  for (uint32_t l = 0; l < to->lines.size(); ++l) places.emplace(KeyOf(*to, to->lines[l]), l);
  for (size_t l = 0; l < from.lines.size(); ++l) {
    const RemoteWriteLine& line = from.text->lines[l];
    const std::string key = KeyOf(*from.text, line);
    auto at = places.find(key);
    if (at != places.end()) {
      carried_[at->second] = from.lines[l];
    } else if (from.lines[l].shown && !ToldElsewhere(key)) {
      Mark mark = from.lines[l];
      RETURN_IF_ERROR(PutEnd(*from.text, line, mark, now));
    }
  }
  return Ok();
}

Status RemoteWrite::TellEnded(const Told& told, Instant now) {
  symbols_.Add(*told.text);
  for (size_t l = 0; l < told.lines.size(); ++l) {
    const RemoteWriteLine& line = told.text->lines[l];
    if (!told.lines[l].shown || ToldElsewhere(KeyOf(*told.text, line))) continue;
    Mark mark = told.lines[l];
    RETURN_IF_ERROR(PutEnd(*told.text, line, mark, now));
  }
  return Ok();
}

// Behind what was told last, whatever the clock did since.
Status RemoteWrite::PutEnd(const RemoteWriteLayout& text, const RemoteWriteLine& line, Mark& mark,
                           Instant now) {
  mark.unix_ms = std::max(mark.unix_ms + 1, MsOf(now.unix_ns));
  mark.boot_ms = MsOf(now.boot_ns);
  mark.shown = false;
  SetSample(data_, StaleMarker(), mark.unix_ms, 0);
  request_.AppendSeries(text, line, data_);
  return Fits() ? Ok() : Hand();
}

void RemoteWrite::FindFresh(const Frame& frame, const Planned& planned, Told& next) {
  const std::vector<RemoteWriteLine>& lines = next.text->lines;
  fresh_.assign(lines.size(), kNotNow);
  ended_.clear();
  const int64_t boot_ms = MsOf(frame.read_at.boot_ns), unix_ms = MsOf(frame.read_at.unix_ns);
  for (uint32_t l = 0; l < lines.size(); ++l) {
    Mark& mark = next.lines[l];
    if (planned.IsDropped(l)) {
      mark.shown = false;  // another frame goes on with it
      continue;
    }
    const Quality quality = frame.quality[lines[l].slot];
    if (quality == Quality::kAbsent) {
      if (mark.shown) ended_.push_back(l);
      continue;
    }
    const int64_t age = quality == Quality::kStale ? frame.AgeMs(lines[l].slot) : 0;
    // Ages are in whole milliseconds, so the time of one and the same reading comes out up to one apart.
    if (boot_ms - age <= mark.boot_ms + 1) continue;
    fresh_[l] = unix_ms - age;
    mark = {boot_ms - age, fresh_[l], true};
  }
}

// Runs of lines are copied as they stand, and numbers and times put in their places.
Status RemoteWrite::PutFresh1(const Frame& frame, const RemoteWriteLayout& text) {
  const std::vector<RemoteWriteLine>& lines = text.lines;
  for (size_t l = 0; l < lines.size();) {
    if (fresh_[l] == kNotNow) {
      ++l;
      continue;
    }
    const size_t first = l, from = l == 0 ? 0 : lines[l - 1].end;
    const size_t most = options_.max_samples - request_.samples();
    for (++l; l < lines.size() && fresh_[l] != kNotNow && l - first < most; ++l) {
      if (request_.bytes() + lines[l].end - from > options_.max_bytes) break;
    }
    const size_t bytes = lines[l - 1].end - from;
    char* const at = request_.AppendFields(std::string_view(text.arena).substr(from, bytes),
                                           static_cast<uint32_t>(l - first));
    for (size_t i = first; i < l; ++i)
      PutSample(at + (lines[i].end - from), ValueOf(frame, text.families[lines[i].family], lines[i]),
                fresh_[i]);
    const bool cut = l < lines.size() && fresh_[l] != kNotNow;
    if (cut || !Fits()) RETURN_IF_ERROR(Hand());
  }
  return Ok();
}

Status RemoteWrite::PutFresh2(const Frame& frame, const RemoteWriteLayout& text) {
  for (uint32_t l = 0; l < text.lines.size(); ++l) {
    if (fresh_[l] == kNotNow) continue;
    const RemoteWriteLine& line = text.lines[l];
    if (line.flags & RemoteWriteLine::kNative) PutHistogram(frame, text, l);
    else SetSample(data_, ValueOf(frame, text.families[line.family], line), fresh_[l], line.start_ms);
    request_.AppendSeries(text, line, data_);
    if (!Fits()) RETURN_IF_ERROR(Hand());
  }
  return Ok();
}

// Buckets as one sample, its counts told as what they differ from the bucket before.
void RemoteWrite::PutHistogram(const Frame& frame, const RemoteWriteLayout& text, uint32_t l) {
  const RemoteWriteLine& line = text.lines[l];
  const double scale = text.families[line.family].scale;
  const Shape& shape = *(*frame.layout)[line.slot].shape;
  CopyNumbers({frame.cells.data() + line.cell, shape.cells()},
              line.flags & RemoteWriteLine::kInt ? Number::kInt : Number::kDouble, numbers_);
  ReadBuckets(shape, numbers_, buckets_);
  const int64_t count = Whole(buckets_.count);
  deltas_.clear();
  int64_t upto = 0, before = 0;
  auto add = [&](int64_t now_upto) {
    const int64_t own = std::clamp(now_upto, upto, count) - upto;
    deltas_.push_back(own - before);
    before = own;
    upto += own;
  };
  for (double cumulative : buckets_.counts) add(Whole(cumulative));
  add(count);
  numbers_.assign(buckets_.bounds.begin(), buckets_.bounds.end());
  for (double& bound : numbers_) bound *= scale;

  data_.clear();
  protozero::pbf_writer series(data_), histogram(series, kHistograms);
  histogram.add_uint64(kCountInt, static_cast<uint64_t>(count));
  histogram.add_double(kSum, AsReading(buckets_.sum.value_or(std::nan("")) * scale));
  histogram.add_sint32(kSchema, kCustomBounds);
  span_.clear();
  protozero::pbf_writer(span_).add_uint32(kSpanLength, static_cast<uint32_t>(deltas_.size()));
  histogram.add_message(kPositiveSpans, span_);
  histogram.add_packed_sint64(kPositiveDeltas, deltas_.begin(), deltas_.end());
  histogram.add_int64(kHistogramTimestamp, fresh_[l]);
  if (!numbers_.empty()) histogram.add_packed_double(kCustomValues, numbers_.begin(), numbers_.end());
  if (line.start_ms != 0) histogram.add_int64(kHistogramStart, line.start_ms);
}

bool RemoteWrite::Fits() const noexcept {
  return request_.samples() < options_.max_samples && request_.bytes() < options_.max_bytes;
}

// Hands the request on and begins another one.
Status RemoteWrite::Hand() {
  const uint32_t samples = request_.samples();
  samples_ += samples;
  Status status = samples == 0 ? Ok() : (*take_)(request_.Finish(), samples);
  request_.Begin(options_.version);
  return status;
}

}  // namespace gpulens
