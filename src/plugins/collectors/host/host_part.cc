#include "plugins/collectors/host/host_part.h"

#include <algorithm>

#include "base/text.h"

namespace gpulens {
namespace {

constexpr int64_t kRetry = 60'000'000'000;
// Tolerance for runs that come a little early.
constexpr int64_t kSlack = 250'000'000;

bool IsQuiet(Code code) noexcept { return code == Code::kUnavailable || code == Code::kPermissionDenied; }

}  // namespace

Status HostPart::Collect(FrameWriter& out) {
  int64_t now = out.read_at().boot_ns;
  if (due_ns_ != 0 && now + kSlack < due_ns_) {
    for (Series series : good_) out.Keep(series);
    return last_;
  }
  good_.clear();
  any_ = false;
  if (!pace_.needs.empty() && !host_.files.Exists(pace_.needs.c_str())) {
    if (!pace_.essential) return Later(now + kRetry, Ok());
    return Later(now, {Code::kUnavailable, "no " + pace_.needs + " below " + host_.files.root() + "/"});
  }
  Status status = Read(out);
  if (!IsQuiet(status.code) || pace_.essential) return Later(now + pace_.every.count(), std::move(status));
  return Later(now + (any_ ? pace_.every.count() : kRetry), Ok());
}

Status HostPart::Later(int64_t due_ns, Status status) {
  due_ns_ = due_ns;
  last_ = std::move(status);
  return last_;
}

void HostPart::Declare(SeriesTable& table, HostSeries& series, const EntityRef& on) {
  int64_t start = series.since_ == HostSeries::Since::kBoot ? host_.boot_unix_ns : 0;
  series.series_ = table.Declare(*series.desc_, on, series.extra_, {.start_unix_ns = start});
  series.declared_ = true;
}

void HostPart::Note(Series series) {
  any_ = true;
  if (pace_.every.count() != 0) good_.push_back(series);
}

void HostPart::Refuse(FrameWriter& out, HostSeries& series, const EntityRef& on, Validation why) {
  if (!series.declared_) Declare(out.table(), series, on);
  if (series.series_) out.Reject(series.series_, why);
}

uint64_t Counter32::Carry(uint64_t raw, bool went_on) noexcept {
  constexpr uint64_t kRange = uint64_t{1} << 32, kQuarter = kRange / 4;
  if (raw < last_) {
    bool wrapped = went_on && last_ < kRange && last_ >= kRange - kQuarter && raw < kQuarter;
    carried_ = wrapped ? carried_ + kRange : 0;
  }
  last_ = raw;
  return carried_ + raw;
}

bool MatchesAny(const std::vector<std::string>& patterns, std::string_view name) noexcept {
  return std::ranges::any_of(patterns,
                             [&](const std::string& pattern) { return MatchesStars(pattern, name, '?'); });
}

}  // namespace gpulens
