#include "wire/negotiation.h"

#include "base/parse.h"

namespace gpulens {
namespace {

struct Offer {
  ExpositionFormat format;
  std::string_view type, version, content_type;
};

// The best first: it wins among equal q-values.
constexpr Offer kOffers[] = {
    {ExpositionFormat::kOpenMetrics100, "application/openmetrics-text", "1.0.0",
     "application/openmetrics-text; version=1.0.0; charset=utf-8"},
    {ExpositionFormat::kText100, "text/plain", "1.0.0", "text/plain; version=1.0.0; charset=utf-8"},
    {ExpositionFormat::kText004, "text/plain", "0.0.4", "text/plain; version=0.0.4; charset=utf-8"},
};
constexpr Offer kDefault = kOffers[2];

// One element of an Accept list.
struct Range {
  std::string_view type, version;
  double q = 1;
};

Range ParseRange(std::string_view element) noexcept {
  Range range;
  range.type = Trim(TakeUntil(element, ';'));
  while (!element.empty()) {
    std::string_view value = Trim(TakeUntil(element, ';'));
    std::string_view key = Trim(TakeUntil(value, '='));
    value = Trim(value);
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
      value = value.substr(1, value.size() - 2);
    if (EqualsIgnoringCase(key, "version")) range.version = value;
    if (EqualsIgnoringCase(key, "q")) range.q = ParseDouble(value).value_or(0);
  }
  return range;
}

// How exactly a range names an offer; 0: not at all.
int Fit(const Range& range, const Offer& offer) noexcept {
  if (range.type == "*/*") return 1;
  if (EqualsIgnoringCase(range.type, "text/*"))
    return offer.type == "text/plain" && range.version.empty() ? 2 : 0;
  if (EqualsIgnoringCase(range.type, "application/*")) return offer.type.starts_with("application/") ? 2 : 0;
  if (!EqualsIgnoringCase(range.type, offer.type)) return 0;
  if (range.version == offer.version) return 4;
  // Without a version the oldest is meant; OpenMetrics 0.0.1 is what 1.0.0 was called before.
  bool plain = offer.version == "0.0.4" || offer.type != "text/plain";
  return plain && (range.version.empty() || range.version == "0.0.1") ? 3 : 0;
}

// A wildcard alone (a browser, curl) does not ask for the newest: it gets the default.
double QualityOf(const Offer& offer, std::string_view accept) noexcept {
  int best_fit = 0;
  double quality = 0;
  while (!accept.empty()) {
    Range range = ParseRange(TakeUntil(accept, ','));
    int fit = Fit(range, offer);
    if (fit > 0 && fit < 3 && offer.format != kDefault.format) fit = 0;
    if (fit <= best_fit) continue;
    best_fit = fit;
    quality = range.q;
  }
  return quality;
}

}  // namespace

Negotiated Negotiate(std::string_view accept) noexcept {
  const Offer* chosen = &kDefault;
  double best = 0;
  for (const Offer& offer : kOffers) {
    double quality = QualityOf(offer, accept);
    if (quality > best) {
      best = quality;
      chosen = &offer;
    }
  }
  return {chosen->format, chosen->content_type};
}

}  // namespace gpulens
