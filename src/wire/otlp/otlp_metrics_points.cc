// The numbers of data points, and the exemplars behind them.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>

#include "base/parse.h"
#include "base/result.h"
#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/otlp_metrics.h"
#include "wire/otlp/otlp_metrics_writer.h"

namespace gpulens {
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

// A number counted from `since`. One that is less than it was began anew.
void PutNumber(const OtlpFamily& family, Cell cell, const Cell* since, char* at) noexcept {
  if (family.as_int) {
    const bool grew = since && since->i <= cell.i;
    return PutFixed(at, grew ? cell.i - since->i : cell.i);
  }
  const double now = Reported(family, cell), before = since ? Reported(family, *since) : 0;
  PutFixed(at, since && before <= now ? now - before : now);
}

// The bytes of an id in hexadecimal; false when it is none of that size.
template <size_t kBytes>
bool ReadId(std::string_view text, std::array<char, kBytes>& out) {
  if (text.size() != 2 * kBytes) return false;
  for (size_t i = 0; i < kBytes; ++i) {
    const auto byte = ParseInt<uint8_t>(text.substr(2 * i, 2), 16);
    if (!byte) return false;
    out[i] = static_cast<char>(*byte);
  }
  return true;
}

void AppendExemplar(const Exemplar& exemplar, double scale, std::string& out) {
  if (exemplar.unix_ns > 0) AppendFixed(out, kExemplarTime, static_cast<uint64_t>(exemplar.unix_ns));
  AppendFixed(out, kExemplarDouble, exemplar.value * scale);
  for (auto [key, value] : exemplar.attributes) {
    std::array<char, 8> span;
    std::array<char, 16> trace;
    const auto* text = std::get_if<std::string_view>(&value);
    if (text && key == "span_id" && ReadId(*text, span))
      AppendBytes(out, kSpanId, {span.data(), span.size()});
    else if (text && key == "trace_id" && ReadId(*text, trace))
      AppendBytes(out, kTraceId, {trace.data(), trace.size()});
    else AppendAttribute(out, kExemplarAttributes, key, value);
  }
}

// Those of the cells from `cell` on; they lie in the order of their cells.
std::span<const Exemplar> ExemplarsOf(const Frame& frame, uint32_t cell, uint32_t cells) noexcept {
  auto before = [](const Exemplar& one, uint32_t at) { return one.cell < at; };
  const auto first = std::lower_bound(frame.exemplars.begin(), frame.exemplars.end(), cell, before);
  return {first, std::lower_bound(first, frame.exemplars.end(), cell + cells, before)};
}

// A page shows its last one for as long as there is no other: it is told once. One without a time is told
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
    AppendBytes(point_, FieldsOf(family.form).exemplars, exemplar_);
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
    case OtlpFamily::kNumber:
      return PutNumber(family, frame.cells[point.cell], since.cells,
                       end - (family.has_start ? 2 : 1) * kFixedBytes - 8);
    case OtlpFamily::kSummary: return PutSummary(family, point, frame, end - 2 * kFixedBytes);
    case OtlpFamily::kHistogram:
    case OtlpFamily::kExponential:
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

// A histogram of which anything fell began anew.
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
  if (family.form == OtlpFamily::kHistogram) {
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
