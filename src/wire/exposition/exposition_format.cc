#include "wire/exposition/exposition_format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "base/parse.h"
#include "base/text.h"

namespace gpulens {
namespace {

constexpr std::string_view kWords[kNameEscapings] = {"allow-utf-8", "underscores", "dots", "values"};

// Places that a byte may have in a legacy name.
enum NameByte : uint8_t { kNever, kAfterTheFirst, kColonByte, kAnywhere };

constexpr std::array<NameByte, 256> MakeNameBytes() {
  std::array<NameByte, 256> bytes{};
  for (int c = 'a'; c <= 'z'; ++c) bytes[static_cast<size_t>(c)] = kAnywhere;
  for (int c = 'A'; c <= 'Z'; ++c) bytes[static_cast<size_t>(c)] = kAnywhere;
  for (int c = '0'; c <= '9'; ++c) bytes[static_cast<size_t>(c)] = kAfterTheFirst;
  bytes['_'] = kAnywhere;
  bytes[':'] = kColonByte;
  return bytes;
}
constexpr std::array<NameByte, 256> kNameBytes = MakeNameBytes();

bool IsLegacy(char c, bool first, bool colon) noexcept {
  const NameByte byte = kNameBytes[static_cast<unsigned char>(c)];
  return byte == kAnywhere || (byte == kColonByte && colon) || (byte == kAfterTheFirst && !first);
}

bool IsLegacyName(std::string_view name, bool colon) noexcept {
  if (name.empty() || !IsLegacy(name[0], true, colon)) return false;
  return std::all_of(name.begin() + 1, name.end(), [colon](char c) { return IsLegacy(c, false, colon); });
}

// The code point of a valid sequence.
uint32_t CodePoint(std::string_view sequence) noexcept {
  const auto lead = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return lead;
  uint32_t point = lead & (0x7Fu >> sequence.size());
  for (char c : sequence.substr(1)) point = point << 6 | (static_cast<unsigned char>(c) & 0x3Fu);
  return point;
}

void AppendHexPoint(std::string& out, uint32_t point) {
  char digits[8];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, point, 16);
  out += '_';
  out.append(digits, end);
  out += '_';
}

std::string EscapeName(std::string_view name, NameEscaping escaping, bool colon) {
  if (escaping == NameEscaping::kUtf8 || name.empty() || IsLegacyName(name, colon)) return std::string(name);
  const bool underscores = escaping == NameEscaping::kUnderscores, dots = escaping == NameEscaping::kDots;
  std::string out = escaping == NameEscaping::kValues ? "U__" : "";
  bool first = true;
  for (size_t length; !name.empty(); name.remove_prefix(length), first = false) {
    length = std::max<size_t>(1, Utf8Length(name));
    const char c = name[0];
    if (c == '_' && !underscores) out += "__";
    else if (IsLegacy(c, first, colon)) out += c;
    else if (underscores) out += '_';
    else if (dots) out += c == '.' ? "_dot_" : "__";
    else if (Utf8Length(name) == 0) out += "_FFFD_";
    else AppendHexPoint(out, CodePoint(name.substr(0, length)));
  }
  return out;
}

}  // namespace

std::string_view NameEscapingWord(NameEscaping escaping) noexcept {
  return kWords[static_cast<size_t>(escaping)];
}

std::optional<NameEscaping> FindNameEscaping(std::string_view word) noexcept {
  const auto* found = std::ranges::find(kWords, word);
  if (found == std::end(kWords)) return std::nullopt;
  return static_cast<NameEscaping>(found - std::begin(kWords));
}

bool IsLegacyMetricName(std::string_view name) noexcept { return IsLegacyName(name, true); }
bool IsLegacyLabelName(std::string_view name) noexcept { return IsLegacyName(name, false); }

std::string EscapeMetricName(std::string_view name, NameEscaping escaping) {
  return EscapeName(name, escaping, true);
}
std::string EscapeLabelName(std::string_view name, NameEscaping escaping) {
  return EscapeName(name, escaping, false);
}

namespace {

struct Offer {
  ExpositionFormat format;
  std::string_view type, version;
  std::string_view content_types[kNameEscapings];
};

// The best first: it wins among equal q-values.
constexpr Offer kOffers[] = {
    {ExpositionFormat::kOpenMetrics100,
     "application/openmetrics-text",
     "1.0.0",
     {"application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=allow-utf-8",
      "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores",
      "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=dots",
      "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=values"}},
    {ExpositionFormat::kText100,
     "text/plain",
     "1.0.0",
     {"text/plain; version=1.0.0; charset=utf-8; escaping=allow-utf-8",
      "text/plain; version=1.0.0; charset=utf-8; escaping=underscores",
      "text/plain; version=1.0.0; charset=utf-8; escaping=dots",
      "text/plain; version=1.0.0; charset=utf-8; escaping=values"}},
    {ExpositionFormat::kText004,
     "text/plain",
     "0.0.4",
     {"", "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
      "text/plain; version=0.0.4; charset=utf-8; escaping=dots",
      "text/plain; version=0.0.4; charset=utf-8; escaping=values"}},
};
constexpr const Offer& kOpenMetricsOffer = kOffers[0];
constexpr const Offer& kDefaultOffer = kOffers[2];

// One element of an Accept list.
struct AcceptRange {
  std::string_view type = {}, version = {};
  NameEscaping escaping = NameEscaping::kUnderscores;
  double q = 1;
};

AcceptRange ParseRange(std::string_view element) noexcept {
  AcceptRange range;
  range.type = Trim(TakeUntil(element, ';'));
  while (!element.empty()) {
    std::string_view value = Trim(TakeUntil(element, ';'));
    std::string_view key = Trim(TakeUntil(value, '='));
    value = Trim(value);
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
      value = value.substr(1, value.size() - 2);
    if (EqualsIgnoringCase(key, "version")) range.version = value;
    if (EqualsIgnoringCase(key, "escaping"))
      range.escaping = FindNameEscaping(value).value_or(NameEscaping::kUnderscores);
    if (EqualsIgnoringCase(key, "q")) range.q = ParseDouble(value).value_or(0);
  }
  return range;
}

// Degree to which a range names an offer.
enum Fit : int { kNone, kAnything, kAnyOfType, kNoVersion, kExact };

Fit FitOf(const AcceptRange& range, const Offer& offer) noexcept {
  // A wildcard alone (a browser, curl) is no request for the newest: it gets the default.
  const bool is_default = offer.format == kDefaultOffer.format;
  if (range.type == "*/*") return is_default ? kAnything : kNone;
  if (EqualsIgnoringCase(range.type, "text/*"))
    return is_default && range.version.empty() ? kAnyOfType : kNone;
  if (!EqualsIgnoringCase(range.type, offer.type)) return kNone;
  if (range.version == offer.version) return kExact;
  // Without a version the oldest is meant; OpenMetrics 0.0.1 is what 1.0.0 was called before.
  const bool oldest = is_default || offer.type != kDefaultOffer.type;
  return oldest && (range.version.empty() || range.version == "0.0.1") ? kNoVersion : kNone;
}

bool IsNewerOpenMetrics(const AcceptRange& range) noexcept {
  return EqualsIgnoringCase(range.type, kOpenMetricsOffer.type) && !range.version.empty() &&
         range.version[0] >= '1' && range.version[0] <= '9' && range.version != kOpenMetricsOffer.version;
}

// The element of an Accept list that names an offer most exactly, the first of them.
struct OfferMatch {
  Fit fit = kNone;
  AcceptRange range{.q = 0};
};

OfferMatch AnswerFor(const Offer& offer, std::string_view accept) noexcept {
  OfferMatch best;
  while (!accept.empty()) {
    const AcceptRange range = ParseRange(TakeUntil(accept, ','));
    const Fit fit = FitOf(range, offer);
    if (fit > best.fit) best = {fit, range};
  }
  return best;
}

// Returns the element of the highest q for a newer OpenMetrics; its q is 0 when there is none.
AcceptRange NewerOpenMetrics(std::string_view accept) noexcept {
  AcceptRange best{.q = 0};
  while (!accept.empty()) {
    const AcceptRange range = ParseRange(TakeUntil(accept, ','));
    if (IsNewerOpenMetrics(range) && range.q > best.q) best = range;
  }
  return best;
}

}  // namespace

Negotiated Negotiate(std::string_view accept) noexcept {
  const Offer* chosen = &kDefaultOffer;
  OfferMatch best;
  for (const Offer& offer : kOffers) {
    const OfferMatch answer = AnswerFor(offer, accept);
    if (answer.range.q > best.range.q) {
      best = answer;
      chosen = &offer;
    }
  }
  if (best.fit < kNoVersion) {
    const AcceptRange newer = NewerOpenMetrics(accept);
    if (newer.q > 0 && newer.q >= best.range.q) {
      best.range = newer;
      chosen = &kOpenMetricsOffer;
    }
  }
  const PageForm form(chosen->format, best.range.escaping);
  return {form, chosen->content_types[static_cast<size_t>(form.escaping)]};
}

}  // namespace gpulens
