#include "pricing/price_table.h"

#include <algorithm>

#include "base/parse.h"
#include "pricing/price_table_impl.h"

namespace gpulens::pricing {
namespace {

using price_table_internal::kAnyName;
using price_table_internal::kEveryDay;
using price_table_internal::kMinutesPerDay;
using price_table_internal::kMostNameBytes;
using price_table_internal::Model;
using price_table_internal::NameHash;
using price_table_internal::Tables;

constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr int64_t kSecondsPerDay = 86'400;

int64_t FloorDivide(int64_t a, int64_t b) noexcept { return a / b - (a % b < 0 ? 1 : 0); }

bool AreDigits(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Whether eight digits are a day of 2000 to 2099.
bool IsDay(std::string_view digits) noexcept {
  if (digits.size() != 8 || !AreDigits(digits) || !digits.starts_with("20")) return false;
  const auto month = ParseInt<unsigned>(digits.substr(4, 2)), day = ParseInt<unsigned>(digits.substr(6));
  return *month >= 1 && *month <= 12 && *day >= 1 && *day <= 31;
}

// The name without a date at its end; empty: it has none.
std::string_view WithoutDate(std::string_view name) noexcept {
  if (name.size() > 9) {
    const char before = name[name.size() - 9];
    if ((before == '-' || before == '@') && IsDay(name.substr(name.size() - 8)))
      return name.substr(0, name.size() - 9);
  }
  if (name.size() > 11) {
    const std::string_view date = name.substr(name.size() - 11);
    if (date[0] != '-' || date[5] != '-' || date[8] != '-') return {};
    const char digits[] = {date[1], date[2], date[3], date[4], date[6], date[7], date[9], date[10]};
    if (IsDay({digits, sizeof digits})) return name.substr(0, name.size() - 11);
  }
  return {};
}

// Whether minutes [from, to] of a day of the set have a minute of the row's hours.
bool TouchesDay(const PriceRow& row, int64_t day, int64_t from, int64_t to) noexcept {
  // 1970-01-01 was a Thursday.
  const int64_t weekday = ((day + 3) % 7 + 7) % 7;
  if (!(row.weekdays >> weekday & 1)) return false;
  if (row.hour_count == 0) return true;
  for (size_t i = 0; i < row.hour_count; ++i) {
    if (row.hours[i].from <= to && row.hours[i].to > from) return true;
  }
  return false;
}

}  // namespace

std::string_view PriceTierName(PriceTier tier) noexcept {
  constexpr std::string_view kNames[kPriceTiers] = {"standard", "batch", "flex", "priority", "fast"};
  return kNames[static_cast<size_t>(tier)];
}

std::optional<PriceTier> ParsePriceTier(std::string_view name) noexcept {
  for (size_t i = 0; i < kPriceTiers; ++i) {
    if (PriceTierName(static_cast<PriceTier>(i)) == name) return static_cast<PriceTier>(i);
  }
  return std::nullopt;
}

std::optional<PriceTier> ServedTier(std::string_view name) noexcept {
  struct Served {
    std::string_view name;
    PriceTier tier;
  };
  static constexpr Served kServed[] = {
      {"", PriceTier::kStandard},
      {"auto", PriceTier::kStandard},
      {"default", PriceTier::kStandard},
      {"on_demand", PriceTier::kStandard},
      {"TRAFFIC_TYPE_UNSPECIFIED", PriceTier::kStandard},
      {"ON_DEMAND", PriceTier::kStandard},
      {"ON_DEMAND_FLEX", PriceTier::kFlex},
      {"ON_DEMAND_PRIORITY", PriceTier::kPriority},
  };
  for (const Served& served : kServed) {
    if (served.name == name) return served.tier;
  }
  return ParsePriceTier(name);
}

std::string PriceRowText(PriceRowId id) {
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[id.file >> shift & 15];
  return text + ":" + std::to_string(id.line);
}

std::optional<PriceRowId> ParsePriceRow(std::string_view text) noexcept {
  if (text.size() < 18 || text[16] != ':') return std::nullopt;
  const auto file = ParseInt<uint64_t>(text.substr(0, 16), 16);
  const auto line = ParseInt<uint32_t>(text.substr(17));
  if (!file || !line) return std::nullopt;
  return PriceRowId{.file = *file, .line = *line};
}

bool PriceRow::InForceWithin(int64_t from_ns, int64_t to_ns) const noexcept {
  const int64_t begin = FloorDivide(from_ns, kNanosPerSecond), end = FloorDivide(to_ns, kNanosPerSecond);
  const int64_t first = std::max(begin, from_s), last = std::min(end, to_s - 1);
  if (first > last) return false;
  if (hour_count == 0 && weekdays == kEveryDay) return true;
  const int64_t first_day = FloorDivide(first, kSecondsPerDay), last_day = FloorDivide(last, kSecondsPerDay);
  for (int64_t day = first_day; day <= std::min(last_day, first_day + 8); ++day) {
    const int64_t from = day == first_day ? (first - day * kSecondsPerDay) / 60 : 0;
    const int64_t to = day == last_day ? (last - day * kSecondsPerDay) / 60 : kMinutesPerDay - 1;
    if (TouchesDay(*this, day, from, to)) return true;
  }
  return false;
}

bool PriceRow::InForce(int64_t unix_ns) const noexcept { return InForceWithin(unix_ns, unix_ns); }

bool PriceRow::InForceThroughout(int64_t from_ns, int64_t to_ns) const noexcept {
  if (from_ns == to_ns) return InForce(from_ns);
  return hour_count == 0 && weekdays == kEveryDay && FloorDivide(from_ns, kNanosPerSecond) >= from_s &&
         FloorDivide(to_ns, kNanosPerSecond) < to_s;
}

std::string_view ModelPrices::provider() const noexcept {
  return tables_ ? std::string_view(tables_->models[model_].provider) : std::string_view();
}

std::string_view ModelPrices::model() const noexcept {
  return tables_ ? std::string_view(tables_->models[model_].name) : std::string_view();
}

std::span<const PriceRow> ModelPrices::rows() const noexcept {
  if (!tables_) return {};
  const Model& model = tables_->models[model_];
  return {tables_->rows.data() + model.first, model.count};
}

const PriceRow* ModelPrices::RowAt(int64_t unix_ns) const noexcept {
  for (const PriceRow& row : rows()) {
    if (row.InForce(unix_ns)) return &row;
  }
  return nullptr;
}

std::span<const PriceRow::Step> ModelPrices::Steps(const PriceRow& row, PriceTier tier) const noexcept {
  const auto i = static_cast<size_t>(tier);
  if (row.step_count[i] == 0) return {};
  return {tables_->steps.data() + row.first_step[i], row.step_count[i]};
}

const ClassPrices& ModelPrices::Prices(const PriceRow::Step& step) const noexcept {
  return tables_->prices[step.prices];
}

ModelPrices PriceTable::FindExact(std::string_view provider, std::string_view model,
                                  PriceMatch match) const noexcept {
  const size_t mask = tables_->slots.size() - 1;
  for (size_t at = NameHash(provider, model) & mask; tables_->slots[at] != 0; at = (at + 1) & mask) {
    const uint32_t index = tables_->slots[at] - 1;
    const Model& found = tables_->models[index];
    if (found.name == model && found.provider == provider) return {tables_.get(), index, match};
  }
  return {};
}

ModelPrices PriceTable::FindName(std::string_view provider, std::string_view model,
                                 PriceMatch match) const noexcept {
  if (!tables_ || provider == kAnyName || model == kAnyName || model.size() > kMostNameBytes + 16) return {};
  for (; !model.empty(); model = WithoutDate(model)) {
    if (const ModelPrices found = FindExact(provider, model, match)) return found;
  }
  return {};
}

ModelPrices PriceTable::Find(std::string_view provider, std::string_view answer_model,
                             std::string_view sent_model) const noexcept {
  if (const ModelPrices found = FindName(provider, answer_model, PriceMatch::kAnswer)) return found;
  if (sent_model == answer_model || IsAlias(sent_model)) return {};
  return FindName(provider, sent_model, PriceMatch::kSent);
}

ModelPrices PriceTable::FindEstimate(std::string_view provider, std::string_view sent_model) const noexcept {
  return FindName(provider, sent_model, PriceMatch::kSent);
}

ModelPrices PriceTable::Default(std::string_view provider) const noexcept {
  if (!tables_) return {};
  if (const ModelPrices found = FindExact(provider, kAnyName, PriceMatch::kDefault)) return found;
  return FindExact(kAnyName, kAnyName, PriceMatch::kDefault);
}

bool PriceTable::IsAlias(std::string_view model) noexcept {
  constexpr std::string_view kLatest = "latest", kBetween = "-:@";
  const auto is_edge = [&](size_t at) {
    return at >= model.size() || kBetween.find(model[at]) != kBetween.npos;
  };
  for (size_t at = model.find(kLatest); at != model.npos; at = model.find(kLatest, at + 1)) {
    if ((at == 0 || is_edge(at - 1)) && is_edge(at + kLatest.size())) return true;
  }
  return false;
}

std::span<const PriceTable::Source> PriceTable::sources() const noexcept {
  return tables_ ? std::span<const Source>(tables_->sources) : std::span<const Source>();
}

size_t PriceTable::models() const noexcept { return tables_ ? tables_->models.size() : 0; }

ModelPrices PriceTable::ModelAt(size_t index) const noexcept {
  if (index >= models()) return {};
  return {tables_.get(), static_cast<uint32_t>(index), PriceMatch::kAnswer};
}

size_t PriceTable::bytes() const noexcept {
  if (!tables_) return 0;
  size_t bytes = sizeof(Tables) + tables_->rows.capacity() * sizeof(PriceRow) +
                 tables_->steps.capacity() * sizeof(PriceRow::Step) +
                 tables_->slots.capacity() * sizeof(uint32_t) +
                 tables_->prices.capacity() * sizeof(ClassPrices);
  for (const Model& model : tables_->models)
    bytes += sizeof model + model.provider.size() + model.name.size();
  return bytes;
}

}  // namespace gpulens::pricing
