#include "wire/remote_write/remote_write_in.h"

#include <algorithm>
#include <tuple>

#include "base/hash.h"
#include "base/parse.h"
#include "base/text.h"
#include "wire/otlp/otlp_fields.h"

namespace gpulens {

using namespace remote_write;
using remote_write::Label;
using remote_write::NumbersOf;
using remote_write::SeriesAbout;
using remote_write::SeriesSample;

namespace {

// Approximate size of a point and of a metric without their texts.
constexpr uint64_t kPerPoint = 48, kPerMetric = 192;
// Size of a bound and a count of an explicit histogram.
constexpr uint64_t kPerBound = 16;

const Status& NotRemoteWrite() {
  static const Status kStatus{Code::kInvalidArgument, "the request is not a remote write message"};
  return kStatus;
}

}  // namespace

std::string RemoteWriteOutcome::Text() const {
  if (refused == 0) return {};
  const std::string text = std::to_string(refused) + " of " + std::to_string(refused + samples + histograms) +
                           " samples were not written";
  return text + CountsText<RemoteWriteFault>(faults);
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

// Reads symbols or metadata, which series refer to, wherever they are.
Status RemoteWriteIn::ReadHead(std::string_view request) {
  const bool first = version_ == RemoteWriteVersion::k1;
  const uint32_t wanted = first ? uint32_t{kMetadata1} : uint32_t{kSymbols};
  ProtoCursor cursor(request);
  for (ProtoField field; cursor.Next(field);) {
    if (field.number != wanted) continue;
    if (field.wire != WireType::kBytes || (first && !Learn(field.bytes))) return NotRemoteWrite();
    if (!first && !reader_.AddSymbol(field.bytes))
      return {Code::kExhausted, "the request has more than " +
                                    std::to_string(remote_write::LabelReader::kMostSymbols) + " symbols"};
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
    if (!otlp::IsText(text)) text = {};
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
    else if (label.name == "otel_scope_name" && label.value != remote_write::kOwnScope)
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
  } else if (const RemoteWriteTypes::Entry* entry = types_.Find(item.name)) {
    item.type = entry->type;
    item.help = entry->help;
    item.unit = entry->unit;
    item.family = entry->family;
  }
}

// Reads everything but labels. Refuses points that cannot be passed on one by one, or, with bad labels, all.
bool RemoteWriteIn::CountParts(std::string_view series, RemoteWriteFault of_labels, SeriesAbout& about,
                               Parts& parts) {
  const auto numbers = NumbersOf(version_);
  const bool second = version_ == RemoteWriteVersion::k2;
  ProtoCursor cursor(series);
  ProtoField field;
  SeriesSample sample;
  RemoteWriteFault unused = RemoteWriteFault::kNone;
  while (cursor.Next(field)) {
    const bool message = field.wire == WireType::kBytes;
    if (field.number == kSamples) {
      if (!message || !ReadSample(field.bytes, sample)) return false;
      const RemoteWriteFault fault = of_labels != RemoteWriteFault::kNone ? of_labels
                                     : !remote_write::IsTime(sample.ms)   ? RemoteWriteFault::kNoTime
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
  else if (fault == RemoteWriteFault::kNone && !remote_write::IsTime(histogram_.ms()))
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
// are compared for each metric and not for each series. Were two hashes equal, a metric would be there twice.
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

// Senders send exemplars as series of their own, next to that with the sample. One whose sample is not in the
// same request is left out.
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

// Writes what was planned as OTLP.

using otlp::AppendBytes;
using otlp::AppendFixed;
using otlp::AppendNumber;
using remote_write::Label;
using remote_write::NumbersOf;
using remote_write::SeriesSample;

namespace {

constexpr size_t kTraceIdSize = 16, kSpanIdSize = 8;

// Excludes what is in resource, scope or metric, or has a meaning of its own.
bool IsAttribute(const Label& label) noexcept {
  const std::string_view name = label.name;
  // A scope with the name of kOwnScope stays an attribute.
  if (name == "otel_scope_name") return label.value == remote_write::kOwnScope;
  return name != "__name__" && name != "job" && name != "instance" && name != "otel_scope_version";
}

void AppendLength(std::string& out, uint32_t field, size_t size) {
  AppendVarint(out, field << 3 | 2);
  AppendVarint(out, size);
}

// A KeyValue with a text, which is known to be UTF-8.
void AppendPair(std::string& out, uint32_t field, std::string_view key, std::string_view value) {
  const size_t inner = 1 + VarintSize(value.size()) + value.size();
  AppendLength(out, field, 2 + VarintSize(key.size()) + key.size() + VarintSize(inner) + inner);
  AppendBytes(out, otlp::kKey, key);
  AppendLength(out, otlp::kValue, inner);
  AppendBytes(out, otlp::kString, value);
}

uint64_t Ns(int64_t ms) noexcept { return static_cast<uint64_t>(ms) * 1'000'000; }

// Reads an id; false for other text and for zeros alone, which are not an id.
bool ReadId(std::string_view hex, size_t size, char* out) noexcept {
  return FromHex(hex, out, size) && std::any_of(out, out + size, [](char c) { return c != 0; });
}

}  // namespace

// The field of Metric that holds the points of a form.
uint32_t RemoteWriteIn::DataOf(Form form) noexcept {
  constexpr uint32_t kData[] = {otlp::kGauge, otlp::kSum, otlp::kSum, otlp::kExponentialHistogram,
                                otlp::kHistogram};
  return kData[static_cast<size_t>(form)];
}

otlp::ItemFields RemoteWriteIn::FieldsOf(Form form) noexcept {
  return otlp::FieldsOf(otlp::PointShape(DataOf(form)));
}

Status RemoteWriteIn::Write(std::string& out) {
  next_loose_ = 0;
  const Item* before = nullptr;
  for (uint32_t place = 0; place < order_.size(); ++place) {
    const Item& item = items_[order_[place]];
    Enter(out, item, before);
    WriteItem(out, item, place);
    Leave(out, item, place + 1 < order_.size() ? &items_[order_[place + 1]] : nullptr);
    before = &item;
    // The planned size is an estimate.
    if (out.size() > 2 * limits_.bytes)
      return {Code::kExhausted,
              "as OTLP the request has more than " + std::to_string(limits_.bytes) + " bytes"};
  }
  return Ok();
}

RemoteWriteIn::Shared RemoteWriteIn::Compare(const Item& item, const Item* other) noexcept {
  const bool resource = other && other->job == item.job && other->instance == item.instance;
  const bool scope = resource && other->scope == item.scope && other->scope_version == item.scope_version;
  return {resource, scope, scope && other->name == item.name && other->form == item.form};
}

// Opens what this item does not share with the one before.
void RemoteWriteIn::Enter(std::string& out, const Item& item, const Item* before) {
  otlp::Nesting nesting(out);
  const auto [same_resource, same_scope, same_metric] = Compare(item, before);
  if (!same_resource) {
    place_.resource = nesting.Open(otlp::kResourceList);
    const size_t resource = nesting.Open(otlp::kResource);
    if (!item.job.empty()) AppendPair(out, otlp::kResourceAttributes, "service.name", item.job);
    if (!item.instance.empty())
      AppendPair(out, otlp::kResourceAttributes, "service.instance.id", item.instance);
    nesting.Close(resource);
  }
  if (!same_scope) {
    place_.scope = nesting.Open(otlp::kScopeList);
    const size_t scope = nesting.Open(otlp::kScope);
    AppendBytes(out, otlp::kScopeName, item.scope.empty() ? remote_write::kOwnScope : item.scope);
    if (!item.scope_version.empty()) AppendBytes(out, otlp::kScopeVersion, item.scope_version);
    nesting.Close(scope);
  }
  if (same_metric) return;
  place_.metric = nesting.Open(otlp::kItems);
  AppendBytes(out, otlp::kName, item.name);
  if (!item.help.empty()) AppendBytes(out, otlp::kDescription, item.help);
  OtlpUnitOf(item.unit, unit_);
  if (!unit_.empty()) AppendBytes(out, otlp::kUnit, unit_);
  place_.data = nesting.Open(DataOf(item.form));
}

// Closes what the next item does not share with this one.
void RemoteWriteIn::Leave(std::string& out, const Item& item, const Item* next) {
  otlp::Nesting nesting(out);
  const auto [same_resource, same_scope, same_metric] = Compare(item, next);
  if (same_metric) return;
  if (item.form != Form::kGauge) AppendNumber(out, otlp::kTemporality, otlp::kCumulative);
  if (item.form == Form::kCounter) AppendNumber(out, otlp::kMonotonic, 1);
  nesting.Close(place_.data);
  AppendPair(out, otlp::kMetricMetadata, remote_write::kTypeKey, PrometheusTypeName(item.type));
  AppendPair(out, otlp::kMetricMetadata, remote_write::kFamilyKey, item.family);
  if (!item.unit.empty()) AppendPair(out, otlp::kMetricMetadata, remote_write::kUnitKey, item.unit);
  nesting.Close(place_.metric);
  if (same_scope) return;
  nesting.Close(place_.scope);
  if (!same_resource) nesting.Close(place_.resource);
}

void RemoteWriteIn::EncodeAttributes(const Item& item) {
  RemoteWriteFault unused = RemoteWriteFault::kNone;
  attributes_.clear();
  // It was read before, so it can be read.
  static_cast<void>(reader_.Read(item.series, labels_, unused));
  const uint32_t field = FieldsOf(item.form).attributes;
  for (const Label& label : labels_)
    if (IsAttribute(label)) AppendPair(attributes_, field, label.name, label.value);
}

void RemoteWriteIn::AppendExemplar(std::string_view message, uint32_t field) {
  SeriesSample value;
  RemoteWriteFault fault = RemoteWriteFault::kNone;
  if (!ReadExemplar(message, value) || !reader_.Read(message, other_labels_, fault)) return;
  if (fault != RemoteWriteFault::kNone) return;
  exemplar_.clear();
  if (remote_write::IsTime(value.ms)) AppendFixed(exemplar_, otlp::kExemplarTime, Ns(value.ms));
  AppendFixed(exemplar_, otlp::kExemplarDouble, value.value);
  for (const Label& label : other_labels_) {
    char id[kTraceIdSize];
    if (label.name == "trace_id" && ReadId(label.value, kTraceIdSize, id))
      AppendBytes(exemplar_, otlp::kTraceId, {id, kTraceIdSize});
    else if (label.name == "span_id" && ReadId(label.value, kSpanIdSize, id))
      AppendBytes(exemplar_, otlp::kSpanId, {id, kSpanIdSize});
    else AppendPair(exemplar_, otlp::kExemplarAttributes, label.name, label.value);
  }
  AppendBytes(exemplars_, field, exemplar_);
  ++exemplar_count_;
}

void RemoteWriteIn::GatherExemplars(std::string_view series, uint32_t field) {
  const uint32_t wanted = remote_write::NumbersOf(version_).exemplars;
  ProtoCursor cursor(series);
  for (ProtoField part; cursor.Next(part);)
    if (part.number == wanted) AppendExemplar(part.bytes, field);
}

void RemoteWriteIn::WriteItem(std::string& out, const Item& item, uint32_t place) {
  EncodeAttributes(item);
  const bool exponential = item.form == Form::kExponential, bounded = item.form == Form::kExplicit;
  const uint32_t field = FieldsOf(item.form).exemplars;
  exemplars_.clear();
  exemplar_count_ = 0;
  if (item.exemplars) GatherExemplars(item.series, field);
  for (; next_loose_ < loose_.size() && loose_[next_loose_].to == place; ++next_loose_)
    GatherExemplars(loose_[next_loose_].series, field);

  const bool number = !exponential && !bounded;
  const uint32_t wanted =
      number ? uint32_t{remote_write::kSamples} : remote_write::NumbersOf(version_).histograms;
  ProtoCursor cursor(item.series);
  ProtoField part;
  uint32_t left = item.points;
  while (left != 0 && cursor.Next(part)) {
    if (part.number != wanted) continue;
    bool ended = false, no_value = false;
    if (number) {
      SeriesSample sample;
      if (!ReadSample(part.bytes, sample) || !remote_write::IsTime(sample.ms)) continue;
      if (sample.start_ms == 0) sample.start_ms = item.created_ms;
      ended = no_value = remote_write::IsStaleMarker(sample.value);
      WriteNumber(item, sample);
    } else {
      RemoteWriteFault fault = RemoteWriteFault::kNone;
      if (!histogram_.Read(part.bytes, fault) || fault != RemoteWriteFault::kNone ||
          !remote_write::IsTime(histogram_.ms()) || histogram_.custom() != bounded)
        continue;
      ended = histogram_.ended();
      no_value = !WriteHistogram(item, part.bytes);
    }
    if (no_value) AppendNumber(point_, FieldsOf(item.form).flags, otlp::kNoRecordedValue);
    // A series that ended has no value that an exemplar could be of.
    FinishPoint(out, --left == 0 && !ended);
    ++(number ? outcome_->samples : outcome_->histograms);
  }
}

void RemoteWriteIn::Times(int64_t start_ms, int64_t ms) {
  point_.clear();
  if (remote_write::IsStart(start_ms, ms)) AppendFixed(point_, otlp::kStartTime, Ns(start_ms));
  AppendFixed(point_, otlp::kTime, Ns(ms));
}

void RemoteWriteIn::WriteNumber(const Item& item, const SeriesSample& sample) {
  // A series of unknown type may be a counter.
  Times(item.type == remote_write::Type::kGauge ? 0 : sample.start_ms, sample.ms);
  if (!remote_write::IsStaleMarker(sample.value)) AppendFixed(point_, otlp::kAsDouble, sample.value);
}

void RemoteWriteIn::WriteExponential() {
  const NativeHistogram& from = histogram_;
  AppendFixed(point_, otlp::kExponentialCount, from.count());
  AppendFixed(point_, otlp::kExponentialSum, from.sum());
  AppendNumber(point_, otlp::kScale, otlp::ZigZag(from.schema()));
  AppendFixed(point_, otlp::kZeroCount, from.zero_count());
  const auto buckets = [this](uint32_t field, const NativeHistogram::Buckets& side) {
    if (side.counts.empty()) return;
    part_.clear();
    size_t size = 0;
    for (uint64_t count : side.counts) size += VarintSize(count);
    AppendNumber(part_, otlp::kOffset, otlp::ZigZag(side.offset));
    AppendLength(part_, otlp::kCounts, size);
    for (uint64_t count : side.counts) AppendVarint(part_, count);
    AppendBytes(point_, field, part_);
  };
  buckets(otlp::kPositive, from.positive());
  buckets(otlp::kNegative, from.negative());
  if (from.zero_threshold() != 0) AppendFixed(point_, otlp::kZeroThreshold, from.zero_threshold());
}

// False: the point has no value, or none that OTLP can represent.
bool RemoteWriteIn::WriteHistogram(const Item& item, std::string_view message) {
  Times(histogram_.start_ms() != 0 ? histogram_.start_ms() : item.created_ms, histogram_.ms());
  if (histogram_.ended()) return false;
  if (limits_.carry_histograms && (histogram_.lossy() || histogram_.hinted()))
    AppendBytes(point_, remote_write::kNativeField, message);
  if (histogram_.lossy()) return false;
  if (histogram_.custom()) WriteExplicit();
  else WriteExponential();
  return true;
}

void RemoteWriteIn::WriteExplicit() {
  const NativeHistogram& from = histogram_;
  AppendFixed(point_, otlp::kHistogramCount, from.count());
  AppendFixed(point_, otlp::kHistogramSum, from.sum());
  AppendLength(point_, otlp::kBucketCounts, 8 * from.counts().size());
  point_.append(reinterpret_cast<const char*>(from.counts().data()), 8 * from.counts().size());
  if (from.bounds().empty()) return;
  AppendLength(point_, otlp::kExplicitBounds, 8 * from.bounds().size());
  point_.append(reinterpret_cast<const char*>(from.bounds().data()), 8 * from.bounds().size());
}

void RemoteWriteIn::FinishPoint(std::string& out, bool with_exemplars) {
  point_ += attributes_;
  if (with_exemplars && exemplar_count_ != 0) {
    point_ += exemplars_;
    outcome_->exemplars += exemplar_count_;
  }
  AppendBytes(out, otlp::kPoints, point_);
}

}  // namespace gpulens
