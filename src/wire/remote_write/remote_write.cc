#include "wire/remote_write/remote_write.h"

#include <algorithm>
#include <cmath>
#include <protozero/pbf_writer.hpp>
#include <utility>

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

}  // namespace

RemoteWrite::RemoteWrite(SeriesNamer namer, Options options)
    : namer_(std::move(namer)), options_(std::move(options)) {}

void RemoteWrite::SetVersion(RemoteWriteVersion version) {
  if (options_.version == version) return;
  options_.version = version;
  texts_ = {};
  planned_.Clear();
  metadata_.clear();
}

void RemoteWrite::Begin(const Take& take) {
  if (std::exchange(open_, true)) Doubt();
  for (auto& [name, source] : sources_) source.touched = source.resent = false;
  take_ = &take;
  samples_ = 0;
  handed_.clear();
  request_.Begin(options_.version);
}

// Samples that were sent and not committed may have arrived or not: they are sent again, and ended if gone.
void RemoteWrite::Doubt() {
  leaving_plan_ = 0;
  for (auto& [name, source] : sources_) {
    source.now.doubtful = true;
    if (!source.resent || !source.next.text) continue;
    for (size_t l = 0; l < source.base.size(); ++l) {
      const Mark &before = source.base[l], &mark = source.next.lines[l];
      source.base[l] = {before.boot_ms, std::max(before.unix_ms, mark.unix_ms), before.shown || mark.shown};
    }
    std::swap(source.now.text, source.next.text);
    std::swap(source.now.lines, source.base);
    source.now.exemplars.clear();
    source.now.run = UINT64_MAX;
  }
}

Status RemoteWrite::Encode(const Snapshot& snapshot, const Take& take) {
  if (!planned_.Fits(snapshot)) Plan(snapshot);
  Begin(take);
  for (const SnapshotEntry& entry : snapshot.frames) {
    auto at = sources_.find(entry.source);
    if (at == sources_.end()) at = sources_.try_emplace(std::string(entry.source)).first;
    at->second.touched = true;
    TextOf(entry.frame->layout);  // it is in use
  }
  leaving_.clear();
  if (std::exchange(leaving_plan_, plan_number_) != plan_number_) FindLeaving(snapshot);
  for (Owed& end : owed_) RETURN_IF_ERROR(ReportOwed(end, snapshot.closed_at));
  for (size_t i = 0; i < plan_.size(); ++i)
    RETURN_IF_ERROR(Report(snapshot.frames[i], plan_[i], sources_.find(snapshot.frames[i].source)->second));
  for (auto& [name, source] : sources_) {
    if (source.touched) continue;
    source.next = {};
    if (source.now.text) RETURN_IF_ERROR(ReportEnded(source.now, snapshot.closed_at));
  }
  RETURN_IF_ERROR(SettleHanded(snapshot));
  RETURN_IF_ERROR(Hand());
  RETURN_IF_ERROR(ReportMetadata(snapshot.closed_at));
  texts_.Forget();
  return Ok();
}

Status RemoteWrite::EncodeEnd(Instant now, const Take& take) {
  Begin(take);
  for (Owed& end : owed_) RETURN_IF_ERROR(ReportOwed(end, now));
  for (auto& [name, source] : sources_) {
    if (!source.now.text) continue;
    source.next = source.now;
    source.base = source.now.lines;
    source.resent = true;
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
  owed_.clear();
  open_ = false;
  std::erase_if(sources_, [](const auto& item) { return !item.second.now.text; });
}

// The samples of one frame that its receiver has not seen, and the ends of what it no longer has.
Status RemoteWrite::Report(const SnapshotEntry& entry, const Planned& planned, Source& source) {
  const Frame& frame = *entry.frame;
  Reported &now = source.now, &next = source.next;
  const bool same = now.text == planned.text;
  if (same && now.plan == plan_number_ && now.run == frame.run && now.read_boot_ns == frame.read_at.boot_ns) {
    next = now;
    return Ok();
  }
  if (same) {
    source.base = now.lines;
    next.exemplars = now.exemplars;
  } else {
    source.base.assign(planned.text->lines.size(), {});
    next.exemplars.clear();
    if (now.text) RETURN_IF_ERROR(Carry(now, planned.text, source, frame.read_at));
  }
  next.text = planned.text;
  next.plan = plan_number_;
  next.run = frame.run;
  next.read_boot_ns = frame.read_at.boot_ns;
  next.lines = source.base;
  source.resent = true;
  next.doubtful = false;
  FindFresh(frame, planned, now.doubtful, next);
  FindExemplars(frame, next);
  for (uint32_t line : ended_)
    RETURN_IF_ERROR(PutEnd(*next.text, next.text->lines[line], next.lines[line], frame.read_at));
  return options_.version == RemoteWriteVersion::k1 ? PutFresh1(frame, *next.text)
                                                    : PutFresh2(frame, *next.text);
}

namespace {

// Whether the frame is of a target that did not answer.
bool TargetIsDown(const Frame& frame, const RemoteWriteLayout& text) noexcept {
  if (!text.up_slot || frame.quality[*text.up_slot] != Quality::kOk) return false;
  const SeriesInfo& up = (*frame.layout)[*text.up_slot];
  const Cell cell = frame.cells[up.first_cell];
  return up.desc->number == Number::kInt ? cell.i == 0 : cell.d == 0;
}

}  // namespace

void RemoteWrite::FindFresh(const Frame& frame, const Planned& planned, bool doubtful, Reported& next) {
  const std::vector<RemoteWriteLine>& lines = next.text->lines;
  fresh_.assign(lines.size(), kNotNow);
  ended_.clear();
  const bool down = TargetIsDown(frame, *next.text);
  const int64_t boot_ms = MsOf(frame.read_at.boot_ns), unix_ms = MsOf(frame.read_at.unix_ns);
  for (uint32_t l = 0; l < lines.size(); ++l) {
    Mark& mark = next.lines[l];
    if (planned.IsDropped(l)) {
      if (!mark.shown) continue;
      handed_.push_back({next.text, l, mark});
      Remember(*next.text, lines[l], mark);
      mark.shown = false;
      continue;
    }
    const Quality quality = frame.quality[lines[l].slot];
    const bool not_read = down && quality == Quality::kStale && !mark.dated;
    const bool unset = lines[l].flags & RemoteWriteLine::kOnlyIfSet && frame.cells[lines[l].cell].i == 0;
    if (quality == Quality::kAbsent || not_read || unset) {
      if (mark.shown) ended_.push_back(l);
      continue;
    }
    const int64_t age = frame.AgeMs(lines[l].slot);
    // Ages are in whole milliseconds, so the time of one and the same reading comes out up to one apart.
    const bool late = mark.shown ? doubtful && unix_ms - age < mark.unix_ms
                                 : Recall(*next.text, lines[l], mark) && unix_ms - age <= mark.unix_ms;
    if (late) mark.boot_ms = std::max(mark.boot_ms, boot_ms - age);  // and stays so
    if (late || boot_ms - age <= mark.boot_ms + 1) continue;
    fresh_[l] = unix_ms - age;
    mark = {boot_ms - age, fresh_[l], true, age != 0};
  }
}

void RemoteWrite::FindExemplars(const Frame& frame, Reported& next) {
  exemplars_.clear();
  next_exemplar_ = 0;
  if (frame.exemplars.empty()) return;
  const std::vector<RemoteWriteLine>& lines = next.text->lines;
  next.exemplars.resize(lines.size());
  for (uint32_t l = 0; l < lines.size(); ++l) {
    if (fresh_[l] == kNotNow) continue;
    const bool native = lines[l].flags & RemoteWriteLine::kNative;
    const ExemplarSeries series{.line = l,
                                .cell = lines[l].cell,
                                .cells = native ? (*frame.layout)[lines[l].slot].cells() : 1,
                                .sample_ms = fresh_[l],
                                .scale = next.text->families[lines[l].family].scale};
    FindNewExemplars(frame, series, next.exemplars[l], exemplars_);
  }
}

bool RemoteWrite::HasExemplar(uint32_t line) const noexcept {
  return next_exemplar_ < exemplars_.size() && exemplars_[next_exemplar_].line == line;
}

// Appends after the sample of the line in data_.
void RemoteWrite::AppendExemplars(uint32_t line) {
  for (; HasExemplar(line); ++next_exemplar_)
    AppendExemplar(exemplars_[next_exemplar_], options_.version, request_, data_);
}

// Runs of lines are copied, and numbers and times put in their places.
Status RemoteWrite::PutFresh1(const Frame& frame, const RemoteWriteLayout& text) {
  const std::vector<RemoteWriteLine>& lines = text.lines;
  for (size_t l = 0; l < lines.size();) {
    if (fresh_[l] == kNotNow) {
      ++l;
      continue;
    }
    if (HasExemplar(static_cast<uint32_t>(l))) {
      const RemoteWriteLine& line = lines[l];
      SetSample(data_, ValueOf(frame, text.families[line.family], line), fresh_[l], 0);
      AppendExemplars(static_cast<uint32_t>(l++));
      request_.AppendSeries(text, line, data_);
      if (!Fits()) RETURN_IF_ERROR(Hand());
      continue;
    }
    const size_t first = l, from = l == 0 ? 0 : lines[l - 1].end;
    const size_t most = options_.max_samples - request_.samples();
    for (++l; l < lines.size() && fresh_[l] != kNotNow && l - first < most; ++l) {
      if (request_.bytes() + lines[l].end - from > options_.max_bytes) break;
      if (HasExemplar(static_cast<uint32_t>(l))) break;
    }
    const size_t bytes = lines[l - 1].end - from;
    char* const at = request_.AppendFields(std::string_view(text.arena).substr(from, bytes),
                                           static_cast<uint32_t>(l - first));
    for (size_t i = first; i < l; ++i)
      PutSample(at + (lines[i].end - from), ValueOf(frame, text.families[lines[i].family], lines[i]),
                fresh_[i]);
    const bool cut = l < lines.size() && fresh_[l] != kNotNow && !HasExemplar(static_cast<uint32_t>(l));
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
    AppendExemplars(l);
    request_.AppendSeries(text, line, data_);
    if (!Fits()) RETURN_IF_ERROR(Hand());
  }
  return Ok();
}

// Writes buckets as one sample, each count relative to the bucket before.
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

// The plan: which series of a snapshot are sent, and their texts. Made again when layouts or the resource
// change.

using namespace remote_write;

const RemoteWrite::Layouts& RemoteWrite::TextOf(const Ref<const Layout>& layout) {
  return texts_.Of(layout, [this](const Layout& one) {
    const bool arena = options_.version == RemoteWriteVersion::k1;
    return std::make_shared<RemoteWriteLayout>(NameRemoteWrite(
        one, namer_, {arena, !arena && options_.native_histograms, labels_, options_.target_up}));
  });
}

void RemoteWrite::Plan(const Snapshot& snapshot) {
  if (!planned_.HasResource(snapshot)) {
    labels_ = options_.labels ? options_.labels(snapshot.resource) : RemoteWriteLabels();
    texts_ = {};
  }
  planned_.Set(snapshot);
  if (namer_.Refresh(snapshot)) texts_ = {};
  plan_.clear();
  ++plan_number_;
  ForgetFormer(snapshot.closed_at);
  symbols_.Clear();
  reported_keys_.clear();
  reported_keys_known_ = false;
  for (const SnapshotEntry& entry : snapshot.frames) {
    const Ref<const Layout>& layout = entry.frame->layout;
    plan_.push_back({TextOf(layout), {}});
    symbols_.Add(*plan_.back().text);
  }
  DropDuplicates(snapshot);
  PlanMetadata();
}

// Equal for equal series, whichever layouts they are of, until the next plan.
std::string RemoteWrite::KeyOf(const RemoteWriteLayout& text, const RemoteWriteLine& line) const {
  std::string key;
  key.reserve(4 * line.refs);
  for (uint32_t i = line.first_ref; i < line.first_ref + line.refs; ++i) {
    const uint32_t symbol = text.global[text.refs[i]];
    key.append(reinterpret_cast<const char*>(&symbol), sizeof symbol);
  }
  return key;
}

// Drops all but one of equal series, keeping the native one, and of equals the earlier: a receiver refuses a
// request that gives one series two values. Only names of two frames are compared.
void RemoteWrite::DropDuplicates(const Snapshot& snapshot) {
  duplicates_ = 0;
  std::vector<uint32_t> frames_with(symbols_.size()), last(symbols_.size(), UINT32_MAX);
  for (uint32_t i = 0; i < plan_.size(); ++i) {
    const RemoteWriteLayout& text = *plan_[i].text;
    for (const RemoteWriteLine& line : text.lines) {
      const uint32_t name = text.global[line.name];
      if (std::exchange(last[name], i) != i) ++frames_with[name];
    }
  }
  std::unordered_set<std::string> seen;
  for (Precedence precedence : {Precedence::kNative, Precedence::kPassThrough}) {
    for (size_t i = 0; i < plan_.size(); ++i) {
      if (snapshot.frames[i].precedence != precedence) continue;
      const RemoteWriteLayout& text = *plan_[i].text;
      for (size_t l = 0; l < text.lines.size(); ++l) {
        const RemoteWriteLine& line = text.lines[l];
        if (frames_with[text.global[line.name]] < 2 || seen.insert(KeyOf(text, line)).second) continue;
        plan_[i].dropped.resize(text.lines.size());
        plan_[i].dropped[l] = 1;
        ++duplicates_;
      }
    }
  }
}

void RemoteWrite::PlanMetadata() {
  std::string fields, body;
  std::vector<size_t> ends;
  std::unordered_set<std::string_view> described;
  for (const Planned& planned : plan_) {
    if (options_.version != RemoteWriteVersion::k1) break;
    const RemoteWriteLayout& text = *planned.text;
    for (const RemoteWriteFamily& family : text.families) {
      const std::string_view name = text.Symbol(family.name), help = text.Symbol(family.help),
                             unit = text.Symbol(family.unit);
      if (!described.insert(name).second) continue;
      body.clear();
      protozero::pbf_writer one(body);
      if (family.type != Type::kUnknown) one.add_enum(kType1, static_cast<int32_t>(family.type));
      one.add_string(kFamilyName, name.data(), name.size());
      if (!help.empty()) one.add_string(kHelp, help.data(), help.size());
      if (!unit.empty()) one.add_string(kUnit, unit.data(), unit.size());
      protozero::pbf_writer(fields).add_message(kMetadata1, body);
      ends.push_back(fields.size());
    }
  }
  if (fields == metadata_) return;
  metadata_ = std::move(fields);
  metadata_ends_ = std::move(ends);
  metadata_boot_ns_.reset();
}

Status RemoteWrite::ReportMetadata(Instant now) {
  const bool due =
      !metadata_boot_ns_ || now.boot_ns - *metadata_boot_ns_ >= options_.metadata_interval.count();
  if (!due || metadata_.empty()) return Ok();
  size_t begin = 0, end = 0;
  for (size_t next : metadata_ends_) {
    if (end != begin && next - begin > options_.max_bytes) {
      RETURN_IF_ERROR((*take_)(std::string_view(metadata_).substr(begin, end - begin), 0));
      begin = end;
    }
    end = next;
  }
  RETURN_IF_ERROR((*take_)(std::string_view(metadata_).substr(begin), 0));
  metadata_boot_ns_ = now.boot_ns;
  return Ok();
}

bool RemoteWrite::ReportedElsewhere(const std::string& key) {
  if (!std::exchange(reported_keys_known_, true)) {
    for (const Planned& planned : plan_) {
      for (size_t l = 0; l < planned.text->lines.size(); ++l) {
        if (!planned.IsDropped(l)) reported_keys_.insert(KeyOf(*planned.text, planned.text->lines[l]));
      }
    }
  }
  return reported_keys_.contains(key);
}

// Series that end or change their source.

using namespace remote_write;

// Carries the marks of a source's lines over a change of its texts, to the same series.
Status RemoteWrite::Carry(const Reported& from, const Layouts& to, Source& source, Instant now) {
  if (!from.exemplars.empty()) source.next.exemplars.resize(to->lines.size());
  symbols_.Add(*from.text);
  std::unordered_map<std::string, uint32_t> places;
  for (uint32_t l = 0; l < to->lines.size(); ++l) places.emplace(KeyOf(*to, to->lines[l]), l);
  const size_t first = owed_.size();
  for (uint32_t l = 0; l < from.lines.size(); ++l) {
    const std::string key = KeyOf(*from.text, from.text->lines[l]);
    auto at = places.find(key);
    if (at != places.end()) {
      source.base[at->second] = from.lines[l];
      if (l < from.exemplars.size()) source.next.exemplars[at->second] = from.exemplars[l];
    } else if (from.lines[l].shown) {
      owed_.push_back({from.text, l, from.lines[l]});
    }
  }
  for (size_t i = first; i < owed_.size(); ++i) RETURN_IF_ERROR(ReportOwed(owed_[i], now));
  return Ok();
}

// Ends it, unless another frame has the series: that is settled at the end of the Encode.
Status RemoteWrite::ReportOwed(Owed& end, Instant now) {
  const RemoteWriteLine& line = end.text->lines[end.line];
  symbols_.Add(*end.text);
  if (!ReportedElsewhere(KeyOf(*end.text, line))) return PutEnd(*end.text, line, end.mark, now);
  handed_.push_back(end);
  return Ok();
}

// A series that another frame has without a value has ended, too.
Status RemoteWrite::SettleHanded(const Snapshot& snapshot) {
  if (handed_.empty()) return Ok();
  std::unordered_map<std::string, Mark*> holders;
  for (size_t i = 0; i < plan_.size(); ++i) {
    Reported& reported = sources_.find(snapshot.frames[i].source)->second.next;
    for (size_t l = 0; l < reported.lines.size(); ++l) {
      if (!plan_[i].IsDropped(l))
        holders.emplace(KeyOf(*reported.text, reported.text->lines[l]), &reported.lines[l]);
    }
  }
  for (Owed& end : handed_) {
    const RemoteWriteLine& line = end.text->lines[end.line];
    auto at = holders.find(KeyOf(*end.text, line));
    if (at != holders.end() && at->second->shown) continue;
    RETURN_IF_ERROR(PutEnd(*end.text, line, end.mark, snapshot.closed_at));
    if (at != holders.end()) *at->second = end.mark;
  }
  return Ok();
}

Status RemoteWrite::ReportEnded(Reported& reported, Instant now) {
  for (uint32_t l = 0; l < reported.lines.size(); ++l) {
    if (!reported.lines[l].shown) continue;
    Owed end{reported.text, l, reported.lines[l]};
    const Status status = ReportOwed(end, now);
    reported.lines[l].unix_ms = end.mark.unix_ms;  // in case it is not committed
    RETURN_IF_ERROR(status);
  }
  return Ok();
}

// After the last sample, whatever the clock did since.
Status RemoteWrite::PutEnd(const RemoteWriteLayout& text, const RemoteWriteLine& line, Mark& mark,
                           Instant now) {
  Recall(text, line, mark);
  mark.unix_ms = std::max(mark.unix_ms + 1, MsOf(now.unix_ns));
  mark.boot_ms = MsOf(now.boot_ns);
  mark.shown = false;
  Remember(text, line, mark);
  SetSample(data_, StaleMarker(), mark.unix_ms, 0);
  request_.AppendSeries(text, line, data_);
  return Fits() ? Ok() : Hand();
}

namespace {

// Longer than any collector needs to come back.
constexpr int64_t kRememberedMs = 10 * 60 * 1000;
constexpr size_t kMostRemembered = 100'000;

std::string NameOf(const RemoteWriteLayout& text, const RemoteWriteLine& line) {
  std::string name;
  for (uint32_t i = line.first_ref; i < line.first_ref + line.refs; ++i) {
    name += text.Symbol(text.refs[i]);
    name += '\0';
  }
  return name;
}

}  // namespace

void RemoteWrite::Remember(const RemoteWriteLayout& text, const RemoteWriteLine& line, const Mark& mark) {
  if (former_.size() >= kMostRemembered) return;
  Mark& known = former_[NameOf(text, line)];
  known = {std::max(known.boot_ms, mark.boot_ms), std::max(known.unix_ms, mark.unix_ms), false};
}

// Another source may go on with a series, or begin it again, with a reading from before its end: a receiver
// refuses a whole request for that.
bool RemoteWrite::Recall(const RemoteWriteLayout& text, const RemoteWriteLine& line, Mark& mark) const {
  if (former_.empty() && leaving_.empty()) return false;
  bool found = false;
  const std::string name = NameOf(text, line);
  for (const auto* marks : {&former_, &leaving_}) {
    auto at = marks->find(name);
    if (at == marks->end()) continue;
    mark.boot_ms = std::max(mark.boot_ms, at->second.boot_ms);
    mark.unix_ms = std::max(mark.unix_ms, at->second.unix_ms);
    found = true;
  }
  return found;
}

// With a new plan, the new owner of a series may be sent before or after the former one: collects the marks
// of all series that change hands.
void RemoteWrite::FindLeaving(const Snapshot& snapshot) {
  auto leave = [this](const Reported& reported, size_t line) {
    const Mark& mark = reported.lines[line];
    if (!mark.shown) return;
    Mark& known = leaving_[NameOf(*reported.text, reported.text->lines[line])];
    known = {std::max(known.boot_ms, mark.boot_ms), std::max(known.unix_ms, mark.unix_ms), false};
  };
  for (size_t i = 0; i < plan_.size(); ++i) {
    const Reported& reported = sources_.find(snapshot.frames[i].source)->second.now;
    for (size_t l = 0; l < reported.lines.size(); ++l) {
      if (reported.text != plan_[i].text || plan_[i].IsDropped(l)) leave(reported, l);
    }
  }
  for (const auto& [name, source] : sources_) {
    for (size_t l = 0; !source.touched && l < source.now.lines.size(); ++l) leave(source.now, l);
  }
}

void RemoteWrite::ForgetFormer(Instant now) {
  const int64_t oldest = MsOf(now.boot_ns) - kRememberedMs;
  std::erase_if(former_, [&](const auto& item) { return item.second.boot_ms < oldest; });
}

}  // namespace gpulens
