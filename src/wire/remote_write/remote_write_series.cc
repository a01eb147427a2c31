#include "wire/remote_write/remote_write_series.h"

#include <algorithm>
#include <protozero/pbf_writer.hpp>

#include "wire/otlp/otlp_schema.h"

namespace gpulens::remote_write {

using namespace remote_write;
using otlp::IsText;

namespace {

constexpr int64_t kLastTimeMs = INT64_MAX / 1'000'000;

void Blame(RemoteWriteFault& fault, RemoteWriteFault with) noexcept {
  if (fault == RemoteWriteFault::kNone) fault = with;
}

bool ByName(const Label& a, const Label& b) noexcept { return a.name < b.name; }

// Field numbers of a value and its times.
struct ValueAndTime {
  uint32_t value, time, start;
};
bool ReadValue(std::string_view message, const ValueAndTime& at, SeriesSample& out) noexcept {
  out = {};
  ProtoCursor cursor(message);
  for (ProtoField field; cursor.Next(field);) {
    if (field.number == at.value) {
      if (field.wire != WireType::kFixed64) return false;
      out.value = AsFixed<double>(field.bytes);
    } else if (field.number == at.time || field.number == at.start) {
      if (field.wire != WireType::kVarint) return false;
      (field.number == at.time ? out.ms : out.start_ms) = static_cast<int64_t>(field.value);
    }
  }
  return !cursor.broken();
}

}  // namespace

SeriesNumbers NumbersOf(RemoteWriteVersion version) noexcept {
  if (version == RemoteWriteVersion::k1) return {kExemplars1, kHistograms1};
  return {kExemplars2, kHistograms};
}

bool LabelReader::AddSymbol(std::string_view text) {
  if (symbols_.size() == kMostSymbols) return false;
  symbols_.push_back({text.data(), static_cast<uint32_t>(text.size()), IsText(text)});
  return true;
}

std::string_view LabelReader::Symbol(uint64_t number) const noexcept {
  if (number >= symbols_.size() || !symbols_[number].good) return {};
  return {symbols_[number].data, symbols_[number].size};
}

void LabelReader::Add(Labels& out, std::string_view name, std::string_view value, RemoteWriteFault& fault) {
  // Size of a label without its text, in both forms.
  constexpr size_t kPerLabel = 12;
  spent_ += name.size() + value.size() + kPerLabel;
  if (exhausted()) return;
  if (name.empty()) return Blame(fault, RemoteWriteFault::kEmptyLabel);
  if (value.empty()) return;
  if (out.size() == kMostLabels) return Blame(fault, RemoteWriteFault::kTooManyLabels);
  out.push_back({name, value});
}

bool LabelReader::ReadLabel(std::string_view message, Labels& out, RemoteWriteFault& fault) {
  ProtoCursor cursor(message);
  ProtoField field;
  std::string_view name, value;
  while (cursor.Next(field)) {
    if (field.number != kLabelName && field.number != kLabelValue) continue;
    if (field.wire != WireType::kBytes) return false;
    (field.number == kLabelName ? name : value) = field.bytes;
  }
  if (cursor.broken()) return false;
  if (!IsText(name) || !IsText(value)) Blame(fault, RemoteWriteFault::kNoText);
  else Add(out, name, value, fault);
  return true;
}

void LabelReader::TakeRef(uint64_t ref, Labels& out, RemoteWriteFault& fault) {
  std::string_view text;
  if (ref >= symbols_.size()) Blame(fault, RemoteWriteFault::kNoSymbol);
  else if (!symbols_[ref].good) Blame(fault, RemoteWriteFault::kNoText);
  else text = {symbols_[ref].data, symbols_[ref].size};
  if (!half_) name_ = text;
  else if (fault == RemoteWriteFault::kNone) Add(out, name_, text, fault);
  half_ = !half_;
}

bool LabelReader::Read(std::string_view message, Labels& out, RemoteWriteFault& fault) {
  out.clear();
  fault = RemoteWriteFault::kNone;
  half_ = false;
  ProtoCursor cursor(message);
  for (ProtoField field; cursor.Next(field);) {
    if (field.number != kLabels) continue;
    if (version_ == RemoteWriteVersion::k1) {
      if (field.wire != WireType::kBytes || !ReadLabel(field.bytes, out, fault)) return false;
    } else if (!ForEachVarint(field, [&](uint64_t ref) { TakeRef(ref, out, fault); })) {
      return false;
    }
  }
  if (cursor.broken()) return false;
  if (half_) Blame(fault, RemoteWriteFault::kOddRefs);
  if (fault != RemoteWriteFault::kNone || exhausted()) return true;
  // Senders have to sort; those that do not mean the same.
  if (!std::is_sorted(out.begin(), out.end(), ByName)) std::sort(out.begin(), out.end(), ByName);
  for (size_t i = 1; i < out.size(); ++i)
    if (out[i].name == out[i - 1].name) Blame(fault, RemoteWriteFault::kTwice);
  return true;
}

bool ReadSample(std::string_view message, SeriesSample& out) noexcept {
  return ReadValue(message, {kValue, kTimestamp, kStartTimestamp}, out);
}

bool ReadExemplar(std::string_view message, SeriesSample& out) noexcept {
  return ReadValue(message, {kExemplarValue, kExemplarTimestamp, 0}, out);
}

bool ReadMetadata2(std::string_view message, SeriesAbout& out) noexcept {
  ProtoCursor cursor(message);
  for (ProtoField field; cursor.Next(field);) {
    if (field.number != kType2 && field.number != kHelpRef && field.number != kUnitRef) continue;
    if (field.wire != WireType::kVarint) return false;
    (field.number == kType2 ? out.type : field.number == kHelpRef ? out.help : out.unit) = field.value;
  }
  return !cursor.broken();
}

bool IsTime(int64_t ms) noexcept { return ms > 0 && ms <= kLastTimeMs; }
bool IsStart(int64_t start_ms, int64_t ms) noexcept { return start_ms > 0 && start_ms <= ms; }

}  // namespace gpulens::remote_write

namespace gpulens {
namespace {

using remote_write::Type;

constexpr bool Bit(uint32_t types, Type type) noexcept {
  return (types >> static_cast<uint32_t>(type) & 1) != 0;
}
constexpr uint32_t Of(Type type) noexcept { return 1u << static_cast<uint32_t>(type); }

struct TypeSuffix {
  std::string_view text;
  uint32_t types;  // of families whose series may have it
};
constexpr uint32_t kDistributions = Of(Type::kHistogram) | Of(Type::kSummary);
constexpr TypeSuffix kSuffixes[] = {
    {"_total", Of(Type::kCounter)},
    {"_bucket", Of(Type::kHistogram) | Of(Type::kGaugeHistogram)},
    {"_count", kDistributions},
    {"_sum", kDistributions},
    {"_gcount", Of(Type::kGaugeHistogram)},
    {"_gsum", Of(Type::kGaugeHistogram)},
    {"_created", kDistributions | Of(Type::kCounter)},
    {"_info", Of(Type::kInfo)},
};
// A node of the map and two texts, roughly.
constexpr size_t kPerName = 160;

}  // namespace

void RemoteWriteTypes::Learn(std::string_view family, Type type, std::string_view help,
                             std::string_view unit) {
  if (family.empty()) return;
  auto at = entries_.find(family);
  if (at != entries_.end() && at->second.type == type && at->second.help == help && at->second.unit == unit)
    return;
  const size_t bytes = kPerName + family.size() + help.size() + unit.size();
  if (bytes > kMostBytes) return;
  if (entries_.size() >= kMostNames || bytes_ + bytes > kMostBytes) {
    entries_.clear();
    bytes_ = 0;
    at = entries_.end();
  }
  if (at == entries_.end()) {
    at = entries_.emplace(std::string(family), Entry()).first;
    at->second.family = at->first;
  }
  // The former texts of a name still count: the sum is an upper bound.
  bytes_ += bytes;
  at->second.type = type;
  at->second.help = help;
  at->second.unit = unit;
}

const RemoteWriteTypes::Entry* RemoteWriteTypes::Get(std::string_view family) const noexcept {
  const auto at = entries_.find(family);
  return at == entries_.end() ? nullptr : &at->second;
}

const RemoteWriteTypes::Entry* RemoteWriteTypes::Find(std::string_view series) const noexcept {
  if (entries_.empty()) return nullptr;
  if (const Entry* found = Get(series)) return found;
  for (const TypeSuffix& suffix : kSuffixes) {
    if (!series.ends_with(suffix.text)) continue;
    const Entry* found = Get(series.substr(0, series.size() - suffix.text.size()));
    if (found && Bit(suffix.types, found->type)) return found;
  }
  return nullptr;
}

bool ToRemoteWrite1(std::string_view request, std::string& out) {
  using namespace remote_write;
  LabelReader reader;
  Labels labels;
  std::string body, part;
  RemoteWriteFault fault = RemoteWriteFault::kNone;
  const auto append_labels = [&](std::string_view message, uint32_t field, std::string& to) {
    if (!reader.Read(message, labels, fault) || fault != RemoteWriteFault::kNone) return false;
    for (const Label& label : labels) AppendLabel(to, field, label.name, label.value);
    return true;
  };
  const auto append_series = [&](std::string_view message) {
    body.clear();
    if (!append_labels(message, kLabels, body)) return false;
    ProtoCursor series(message);
    for (ProtoField field; series.Next(field);) {
      const bool sample = field.number == kSamples, exemplar = field.number == kExemplars2;
      if (field.wire != WireType::kBytes || (!sample && !exemplar && field.number != kHistograms)) continue;
      SeriesSample value;
      part.clear();
      if (sample ? !ReadSample(field.bytes, value)
                 : !exemplar || !ReadExemplar(field.bytes, value) ||
                       !append_labels(field.bytes, kExemplarLabels, part))
        return false;
      protozero::pbf_writer writer(part);
      writer.add_double(sample ? uint32_t{kValue} : uint32_t{kExemplarValue}, value.value);
      writer.add_int64(sample ? uint32_t{kTimestamp} : uint32_t{kExemplarTimestamp}, value.ms);
      protozero::pbf_writer(body).add_message(sample ? uint32_t{kSamples} : uint32_t{kExemplars1}, part);
    }
    protozero::pbf_writer(out).add_message(kTimeSeries1, body);
    return !series.broken();
  };
  out.clear();
  reader.Begin(RemoteWriteVersion::k2, UINT64_MAX);
  // The symbols may follow what refers to them.
  ProtoCursor symbols(request), all(request);
  ProtoField field;
  bool good = true;
  while (good && symbols.Next(field))
    good = field.wire == WireType::kBytes &&
           (field.number == kSymbols ? reader.AddSymbol(field.bytes) : field.number == kTimeSeries2);
  good = good && !symbols.broken();
  while (good && all.Next(field)) good = field.number == kSymbols || append_series(field.bytes);
  if (!good) out.clear();
  return good;
}

}  // namespace gpulens
