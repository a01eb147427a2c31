#include "store/charges/charge_record.h"

#include <algorithm>

#include "base/parse.h"
#include "base/text.h"

namespace gpulens {
namespace {

constexpr std::array<std::string_view, kChargeOutcomes> kOutcomeNames = {
    "complete", "cancelled", "upstream_failed", "refused", "unsettled"};
constexpr std::array<std::string_view, kCountedBys> kCountedByNames = {
    "nothing", "usage", "tokenized", "events", "calibrated", "partial", "recovered", "unsettled"};

template <class Enum, size_t size>
bool ParseName(const std::array<std::string_view, size>& names, std::string_view text, Enum& out) noexcept {
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) return false;
  out = static_cast<Enum>(found - names.begin());
  return true;
}

bool IsControl(char c) noexcept { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

void CleanText(std::string& text) {
  std::string room;
  if (!IsUtf8(text)) text = std::string(ValidUtf8(text, room));
  for (char& c : text) {
    if (IsControl(c)) c = ' ';
  }
  if (text.size() <= kMostChargeText) return;
  text.resize(kMostChargeText);
  while (!text.empty() && !IsUtf8(text)) text.pop_back();  // no half of a character
}

}  // namespace

RequestId MakeRequestId(int64_t unix_ms, uint64_t high, uint64_t low) noexcept {
  RequestId id;
  for (size_t i = 0; i < 6; ++i) id[i] = static_cast<uint8_t>(unix_ms >> (8 * (5 - i)));
  id[6] = static_cast<uint8_t>(0x70 | (high & 0x0f));
  id[7] = static_cast<uint8_t>(high >> 8);
  for (size_t i = 0; i < 8; ++i) id[8 + i] = static_cast<uint8_t>(low >> (8 * i));
  id[8] = static_cast<uint8_t>(0x80 | (id[8] & 0x3f));
  return id;
}

int64_t UnixMsOf(const RequestId& id) noexcept {
  int64_t ms = 0;
  for (size_t i = 0; i < 6; ++i) ms = ms << 8 | id[i];
  return ms;
}

std::string RequestIdText(const RequestId& id) {
  std::string hex;
  AppendHex(hex, {reinterpret_cast<const char*>(id.data()), id.size()});
  for (const size_t at : {size_t{20}, size_t{16}, size_t{12}, size_t{8}}) hex.insert(at, 1, '-');
  return hex;
}

bool ParseRequestId(std::string_view text, RequestId& out) noexcept {
  if (text.size() != 36) return false;
  char digits[32];
  size_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash != (text[i] == '-')) return false;
    if (!dash) digits[count++] = text[i];
  }
  RequestId id;
  if (!FromHex({digits, sizeof digits}, reinterpret_cast<char*>(id.data()), id.size())) return false;
  out = id;
  return true;
}

std::string_view Name(ChargeOutcome outcome) noexcept { return kOutcomeNames[static_cast<size_t>(outcome)]; }
std::string_view Name(CountedBy by) noexcept { return kCountedByNames[static_cast<size_t>(by)]; }
bool Parse(std::string_view text, ChargeOutcome& out) noexcept { return ParseName(kOutcomeNames, text, out); }
bool Parse(std::string_view text, CountedBy& out) noexcept { return ParseName(kCountedByNames, text, out); }

void Clean(ChargeRecord& record) {
  for (std::string* text :
       {&record.key, &record.tenant, &record.profile, &record.region, &record.provider,
        &record.model_requested, &record.model_answered, &record.api, &record.operation, &record.tier,
        &record.currency, &record.price_version, &record.upstream_request_id})
    CleanText(*text);
  if (record.budgets.size() > kMostBudgets) record.budgets.resize(kMostBudgets);
  for (std::string& budget : record.budgets) CleanText(budget);
  std::erase(record.budgets, "");
  for (int64_t& units : record.usage.units) units = std::clamp<int64_t>(units, 0, kMostChargeUnits);
  // The last attempt is the one that answered.
  if (record.attempts.size() > kMostAttempts)
    record.attempts.erase(record.attempts.begin(), record.attempts.end() - kMostAttempts);
  for (ChargeAttempt& attempt : record.attempts) {
    CleanText(attempt.provider);
    CleanText(attempt.result);
  }
}

std::string BudgetsText(const std::vector<std::string>& budgets) {
  std::string text;
  for (const std::string& budget : budgets) (text += text.empty() ? "" : "\n") += budget;
  return text;
}

std::vector<std::string> ParseBudgets(std::string_view text) {
  std::vector<std::string> budgets;
  while (!text.empty()) {
    budgets.emplace_back(TakeUntil(text, '\n'));
    if (budgets.back().empty()) budgets.pop_back();
  }
  return budgets;
}

}  // namespace gpulens
