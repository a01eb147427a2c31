#include "wire/remote_write/remote_write_in.h"

#include <algorithm>
#include <tuple>

#include "base/hash.h"
#include "wire/otlp/otlp_message.h"
#include "wire/remote_write/remote_write_fields.h"
#include "wire/remote_write/remote_write_marks.h"

namespace gpulens {

using namespace remote_write;
using remote_write_in::Label;
using remote_write_in::NumbersOf;
using remote_write_in::Sample;
using remote_write_in::SeriesAbout;

namespace {

// What a point and what a metric cost beside their texts, roughly.
constexpr uint64_t kPerPoint = 48, kPerMetric = 192;
// Of an explicit histogram: a bound and a count.
constexpr uint64_t kPerBound = 16;

const Status& NotRemoteWrite() {
  static const Status kStatus{Code::kInvalidArgument, "the request is not a remote write message"};
  return kStatus;
}

}  // namespace

std::string RemoteWriteOutcome::Text() const {
  if (refused == 0) return {};
  std::string text = std::to_string(refused) + " of " + std::to_string(refused + samples + histograms) +
                     " samples were not written";
  std::string_view before = ": ";
  for (size_t i = 1; i < kRemoteWriteFaults; ++i) {
    if (faults[i] == 0) continue;
    text += before;
    text += TextOf(static_cast<RemoteWriteFault>(i));
    text += " (" + std::to_string(faults[i]) + ")";
    before = ", ";
  }
  return text;
}

void RemoteWriteIn::Refuse(RemoteWriteFault fault) {
  ++outcome_->refused;
  ++outcome_->faults[static_cast<size_t>(fault)];
}

Status RemoteWriteIn::Convert(std::string_view request, RemoteWriteVersion version, std::string& out,
                              RemoteWriteOutcome& outcome) {
  outcome = {};
  outcome_ = &outcome;
  out.clear();
  version_ = version;
  items_.clear();
  loose_.clear();
  expanded_ = 0;
  reader_.Begin(version, limits_.bytes);
  if (Status read = ReadHead(request); !read.ok()) return read;
  if (Status planned = Plan(request); !planned.ok()) return planned;
  reader_.LiftLimit();
  Order();
  PlaceLoose();
  return Write(out);
}

// All that series refer to, wherever it stands.
Status RemoteWriteIn::ReadHead(std::string_view request) {
  const bool first = version_ == RemoteWriteVersion::k1;
  const uint32_t wanted = first ? uint32_t{kMetadata1} : uint32_t{kSymbols};
  ProtoCursor cursor(request);
  ProtoField field;
  while (cursor.Next(field)) {
    if (field.number != wanted) continue;
    if (field.wire != WireType::kBytes || (first && !Learn(field.bytes))) return NotRemoteWrite();
    if (!first && !reader_.AddSymbol(field.bytes))
      return {Code::kExhausted, "the request has more than " +
                                    std::to_string(remote_write_in::LabelReader::kMostSymbols) + " symbols"};
  }
  return cursor.broken() ? NotRemoteWrite() : Ok();
}

bool RemoteWriteIn::Learn(std::string_view metadata) {
  ProtoCursor cursor(metadata);
  ProtoField field;
  std::string_view texts[kUnit + 1];
  uint64_t type = 0;
  while (cursor.Next(field)) {
    if (field.number == kType1) {
      if (field.wire != WireType::kVarint) return false;
      type = field.value;
    } else if (field.number == kFamilyName || field.number == kHelp || field.number == kUnit) {
      if (field.wire != WireType::kBytes) return false;
      texts[field.number] = field.bytes;
    }
  }
  if (cursor.broken()) return false;
  for (std::string_view& text : texts)
    if (!otlp_in::IsText(text)) text = {};
  types_.Learn(texts[kFamilyName], TypeOfNumber(type), texts[kHelp], texts[kUnit]);
  return true;
}

Status RemoteWriteIn::Plan(std::string_view request) {
  ProtoCursor cursor(request);
  ProtoField field;
  const uint32_t wanted =
      version_ == RemoteWriteVersion::k1 ? uint32_t{kTimeSeries1} : uint32_t{kTimeSeries2};
  uint32_t count = 0;
  while (cursor.Next(field)) {
    if (field.number != wanted) continue;
    if (field.wire != WireType::kBytes) return NotRemoteWrite();
    if (count++ == limits_.series)
      return {Code::kExhausted, "the request has more than " + std::to_string(limits_.series) + " series"};
    if (Status planned = PlanSeries(field.bytes); !planned.ok()) return planned;
    if (reader_.exhausted() || expanded_ + reader_.spent() > limits_.bytes)
      return {Code::kExhausted,
              "as OTLP the request has more than " + std::to_string(limits_.bytes) + " bytes"};
  }
  return Ok();
}

Status RemoteWriteIn::PlanSeries(std::string_view series) {
  RemoteWriteFault fault = RemoteWriteFault::kNone;
  SeriesAbout about;
  Parts parts;
  Item item;
  const uint64_t before = reader_.spent();
  if (!reader_.Read(series, labels_, fault)) return NotRemoteWrite();
  const uint64_t label_bytes = reader_.spent() - before;
  for (const Label& label : labels_) {
    if (label.name == "__name__") item.name = label.value;
    else if (label.name == "job") item.job = label.value;
    else if (label.name == "instance") item.instance = label.value;
    else if (label.name == "otel_scope_name" && label.value != remote_write_in::kOwnScope)
      item.scope = label.value;
    else if (label.name == "otel_scope_version") item.scope_version = label.value;
  }
  if (fault == RemoteWriteFault::kNone && item.name.empty()) fault = RemoteWriteFault::kNoName;
  if (!CountParts(series, fault, about, parts)) return NotRemoteWrite();
  const uint64_t points = uint64_t{parts.samples} + parts.exponential + parts.bounded;
  if (fault != RemoteWriteFault::kNone) return Ok();
  item.series = series;
  item.created_ms = about.created_ms;
  Describe(item, about);
  // The first point's labels are counted already.
  expanded_ += points * kPerPoint + kPerMetric + item.help.size() + item.family.size() + 2 * item.unit.size();
  if (points > 1) expanded_ += (points - 1) * label_bytes;
  item.exemplars = parts.exemplars != 0;
  const auto push = [&](Form form, uint32_t count) {
    if (count == 0) return;
    item.form = form;
    item.points = count;
    items_.push_back(item);
    item.exemplars = false;
  };
  const FloatKind kind = FloatKindOf(item.type, item.name);
  push(kind == FloatKind::kCounter ? Form::kCounter
       : kind == FloatKind::kState ? Form::kState
                                   : Form::kGauge,
       parts.samples);
  push(Form::kExponential, parts.exponential);
  push(Form::kExplicit, parts.bounded);
  if (points == 0 && parts.exemplars != 0) loose_.push_back({series, 0});
  return Ok();
}

void RemoteWriteIn::Describe(Item& item, const SeriesAbout& about) const {
  if (version_ == RemoteWriteVersion::k2) {
    item.type = TypeOfNumber(about.type);
    item.help = reader_.Symbol(about.help);
    item.unit = reader_.Symbol(about.unit);
  } else if (const RemoteWriteTypes::Entry* told = types_.Find(item.name)) {
    item.type = told->type;
    item.help = told->help;
    item.unit = told->unit;
    item.family = told->family;
  }
}

// Reads all that is not labels. What cannot be passed on is refused: one by one, or, with bad labels, all.
bool RemoteWriteIn::CountParts(std::string_view series, RemoteWriteFault of_labels, SeriesAbout& about,
                               Parts& parts) {
  const auto numbers = NumbersOf(version_);
  const bool second = version_ == RemoteWriteVersion::k2;
  ProtoCursor cursor(series);
  ProtoField field;
  Sample sample;
  RemoteWriteFault unused = RemoteWriteFault::kNone;
  while (cursor.Next(field)) {
    const bool message = field.wire == WireType::kBytes;
    if (field.number == kSamples) {
      if (!message || !ReadSample(field.bytes, sample)) return false;
      const RemoteWriteFault fault = of_labels != RemoteWriteFault::kNone  ? of_labels
                                     : !remote_write_in::IsTime(sample.ms) ? RemoteWriteFault::kNoTime
                                                                           : RemoteWriteFault::kNone;
      if (fault == RemoteWriteFault::kNone) ++parts.samples;
      else Refuse(fault);
    } else if (field.number == numbers.histograms) {
      if (!message || !CountHistogram(field.bytes, of_labels, parts)) return false;
    } else if (field.number == numbers.exemplars) {
      if (!message || !ReadExemplar(field.bytes, sample) || !reader_.Read(field.bytes, other_labels_, unused))
        return false;
      expanded_ += kPerPoint;
      ++parts.exemplars;
    } else if (second && field.number == kMetadata2) {
      if (!message || !ReadMetadata2(field.bytes, about)) return false;
    } else if (second && field.number == kCreated2) {
      if (field.wire != WireType::kVarint) return false;
      about.created_ms = static_cast<int64_t>(field.value);
    }
  }
  return !cursor.broken();
}

bool RemoteWriteIn::CountHistogram(std::string_view message, RemoteWriteFault of_labels, Parts& parts) {
  RemoteWriteFault fault = RemoteWriteFault::kNone;
  if (!histogram_.Read(message, fault)) return false;
  if (of_labels != RemoteWriteFault::kNone) fault = of_labels;
  else if (fault == RemoteWriteFault::kNone && !remote_write_in::IsTime(histogram_.ms()))
    fault = RemoteWriteFault::kNoTime;
  if (fault != RemoteWriteFault::kNone) return Refuse(fault), true;
  ++(histogram_.custom() ? parts.bounded : parts.exponential);
  if (limits_.carry_histograms && (histogram_.lossy() || histogram_.hinted())) expanded_ += message.size();
  if (histogram_.custom()) {
    expanded_ += kPerBound * histogram_.counts().size();
  } else {
    for (const auto* side : {&histogram_.positive(), &histogram_.negative()})
      for (uint64_t count : side->counts) expanded_ += VarintSize(count);
  }
  return true;
}

uint64_t RemoteWriteIn::HashOfMetric(const Item& item) noexcept {
  const HashKey& key = ProcessHashKey();
  uint64_t hash = static_cast<uint64_t>(item.form);
  for (std::string_view text : {item.job, item.instance, item.scope, item.scope_version, item.name})
    hash = HashBytes(text, hash, key);
  return hash;
}

// Metrics by their texts, their series as they came. Series of one metric are found by hash, so that texts
// are compared for each metric and not for each series. Were two hashes equal, a metric would stand twice.
void RemoteWriteIn::Order() {
  hashed_.clear();
  for (uint32_t i = 0; i < items_.size(); ++i) hashed_.push_back({HashOfMetric(items_[i]), i});
  std::sort(hashed_.begin(), hashed_.end(), &IsBefore);
  metrics_.clear();
  for (uint32_t i = 0; i < hashed_.size(); ++i)
    if (i == 0 || hashed_[i].hash != hashed_[i - 1].hash) metrics_.push_back(i);
  std::sort(metrics_.begin(), metrics_.end(), [this](uint32_t a, uint32_t b) {
    return IsLess(items_[hashed_[a].place], items_[hashed_[b].place]);
  });
  order_.clear();
  for (uint32_t first : metrics_)
    for (size_t i = first; i < hashed_.size() && hashed_[i].hash == hashed_[first].hash; ++i)
      order_.push_back(hashed_[i].place);
}

bool RemoteWriteIn::IsBefore(const Hashed& a, const Hashed& b) noexcept {
  return a.hash != b.hash ? a.hash < b.hash : a.place < b.place;
}

bool RemoteWriteIn::IsLess(const Item& a, const Item& b) noexcept {
  const auto key = [](const Item& item) {
    return std::tie(item.job, item.instance, item.scope, item.scope_version, item.name, item.form);
  };
  return key(a) < key(b);
}

uint64_t RemoteWriteIn::HashOfLabels(std::string_view series) {
  RemoteWriteFault unused = RemoteWriteFault::kNone;
  const HashKey& key = ProcessHashKey();
  uint64_t hash = 0;
  if (!reader_.Read(series, other_labels_, unused)) return hash;
  for (const Label& label : other_labels_)
    hash = HashBytes(label.value, HashBytes(label.name, hash, key), key);
  return hash;
}

// Senders tell exemplars as series of their own, beside that with the sample. One whose sample is not in the
// same request has no point to stand on.
void RemoteWriteIn::PlaceLoose() {
  if (loose_.empty()) return;
  hashed_.clear();
  for (uint32_t place = 0; place < order_.size(); ++place)
    hashed_.push_back({HashOfLabels(items_[order_[place]].series), place});
  std::sort(hashed_.begin(), hashed_.end(), &IsBefore);
  size_t placed = 0;
  for (const Loose& loose : loose_) {
    const uint64_t hash = HashOfLabels(loose.series);
    // The last of them has the last sample.
    auto at = std::upper_bound(hashed_.begin(), hashed_.end(), hash,
                               [](uint64_t wanted, const Hashed& one) { return wanted < one.hash; });
    if (at == hashed_.begin() || (--at)->hash != hash) continue;
    RemoteWriteFault unused = RemoteWriteFault::kNone;
    if (!reader_.Read(items_[order_[at->place]].series, labels_, unused) || labels_ != other_labels_)
      continue;
    loose_[placed++] = {loose.series, at->place};
  }
  loose_.resize(placed);
  // In the order of the request, and without the memory that a stable sort takes.
  std::sort(loose_.begin(), loose_.end(), [](const Loose& a, const Loose& b) {
    return a.to != b.to ? a.to < b.to : a.series.data() < b.series.data();
  });
}

}  // namespace gpulens
