#include "cli/slurm/record_maker.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/parse.h"
#include "sources/slurm/parse/words.h"

namespace gpulens {
namespace {

// What a user wrote may be a whole script.
constexpr size_t kMostText = 16384;
constexpr double kMebibyte = 1024.0 * 1024, kExact = 9007199254740992.0;

// The attributes of one record, with the texts they point to.
class Attributes {
 public:
  void Text(std::string_view key, std::string_view value) {
    std::string clean = slurm::CleanText(value.substr(0, kMostText));
    list_.push_back({key, std::string_view(texts_.emplace_back(std::move(clean)))});
  }
  void Number(std::string_view key, std::optional<double> value) {
    if (!value) return;
    const bool whole = std::floor(*value) == *value && std::abs(*value) < kExact;
    if (whole) {
      list_.push_back({key, static_cast<int64_t>(*value)});
    } else {
      list_.push_back({key, *value});
    }
  }
  // Of a quantity that has fractions: never sometimes one type, sometimes the other.
  void Fraction(std::string_view key, std::optional<double> value) {
    if (value) list_.push_back({key, *value});
  }
  // A number whose key is put together.
  void Under(std::string key, std::optional<double> value) {
    if (value) Number(texts_.emplace_back(std::move(key)), value);
  }
  AttributeSet Make() const { return AttributeSet(std::span<const AttributeSet::Attribute>(list_)); }

 private:
  std::deque<std::string> texts_;
  std::vector<AttributeSet::Attribute> list_;
};

void AddTres(Attributes& out, const std::string& key, std::string_view value) {
  out.Text(key, value);
  for (const auto& [name, number] : slurm::ParseTres(value)) {
    const std::string part = slurm::SnakeCase(name);
    if (!part.empty()) out.Under(key + "." + part, number);
  }
}

void AddTime(Attributes& out, std::string_view key, std::string_view value, bool utc) {
  const std::optional<int64_t> seconds = slurm::ParseTime(value);
  if (!seconds) return;
  out.Text(key, utc ? std::string(Trim(value)) + "Z" : std::string(Trim(value)));
}

// Slurm's words for no limit are an answer in a column of text and no number in any other.
std::optional<double> Minutes(std::string_view value) {
  if (auto span = slurm::ParseSpan(value)) return span;
  std::optional<uint32_t> minutes = ParseInt<uint32_t>(value);
  return minutes ? std::optional(*minutes * 60.0) : std::nullopt;
}

std::optional<double> Real(std::string_view value) {
  std::optional<double> number = ParseDouble(value);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::optional<double> Whole(std::string_view value) {
  std::optional<int64_t> number = ParseInt<int64_t>(value);
  return number ? std::optional(static_cast<double>(*number)) : std::nullopt;
}

void AddValue(Attributes& out, const std::string& key, ColumnType type, std::string_view value, bool utc) {
  switch (type) {
    case ColumnType::kText: out.Text(key, value); break;
    case ColumnType::kInt: out.Number(key, Whole(value)); break;
    case ColumnType::kReal: out.Fraction(key, Real(value)); break;
    case ColumnType::kCount: out.Number(key, slurm::ParseCount(value)); break;
    case ColumnType::kSpan: out.Fraction(key, slurm::ParseSpan(value)); break;
    case ColumnType::kMinutes: out.Fraction(key, Minutes(value)); break;
    case ColumnType::kSize: out.Number(key, slurm::ParseSize(value)); break;
    case ColumnType::kMebibytes: out.Number(key, slurm::ParseSize(value, kMebibyte)); break;
    case ColumnType::kTres: AddTres(out, key, value); break;
    case ColumnType::kGres:
      out.Text(key, value);
      out.Under(key + ".gpu", slurm::GresCount(value, "gpu"));
      break;
    case ColumnType::kTime: AddTime(out, key, value, utc); break;
  }
}

ColumnType TypeOf(const RecordKind& kind, std::string_view name) {
  auto found = std::ranges::find(kind.typed, name, &RecordColumn::name);
  return found == kind.typed.end() ? ColumnType::kText : found->type;
}

}  // namespace

RecordMaker::RecordMaker(const RecordKind& kind, std::span<const std::string> columns, RecordContext context)
    : kind_(kind), context_(std::move(context)) {
  for (const std::string& column : columns) {
    // Names from a configuration have dots of their own.
    std::string name = column.find('.') == std::string::npos ? slurm::SnakeCase(column) : column;
    if (name == "partition" || name == "partition_name") partition_ = columns_.size();
    if (!context_.time_column.empty() && name == context_.time_column) time_ = columns_.size();
    const ColumnType type = TypeOf(kind, name);
    columns_.push_back({name.empty() ? std::string() : std::string(kind.desc->prefix) + name, type});
  }
}

Event RecordMaker::Make(std::span<const std::string_view> values, Instant now) const {
  Attributes out;
  std::string_view partition;
  std::optional<int64_t> at;
  for (size_t i = 0; i < columns_.size() && i < values.size(); ++i) {
    if (columns_[i].key.empty() || slurm::IsAbsent(values[i])) continue;
    AddValue(out, columns_[i].key, columns_[i].type, values[i], context_.utc);
    if (partition_ == i) partition = values[i];
    if (time_ == i && context_.utc) at = slurm::ParseTime(values[i]);
  }
  if (!context_.cluster.empty()) {
    out.Text(kRecordCluster, context_.cluster);
    if (partition.ends_with('*')) partition.remove_suffix(1);
    if (context_.derive_cluster && !partition.empty())
      out.Text(kRecordDerivedCluster, context_.cluster + "." + std::string(partition));
  }
  Event event;
  event.at = now;
  // Of what was long ago only the time of day is known, not that of this boot.
  if (at) event.at.unix_ns = *at * 1'000'000'000;
  event.name = kind_.desc->name;
  event.attributes = out.Make();
  event.severity = EventSeverity::kInfo;
  return event;
}

}  // namespace gpulens
