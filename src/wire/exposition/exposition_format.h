// The three text formats a Prometheus endpoint may answer with, and how its Content-Type names them.
// The protobuf format is not among them: it is never requested.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpulens {

enum class ExpositionFormat : uint8_t {
  kText004,         // text/plain; version=0.0.4: classic. Timestamps are integers of milliseconds.
  kText100,         // text/plain; version=1.0.0: the same with names in quotes.
  kOpenMetrics100,  // application/openmetrics-text: seconds, exemplars, units, "# EOF" at the end.
};

// Returns the format that a Content-Type names: kText004 for an empty one, as old exporters send none;
// nullopt for a type other than an exposition (HTML, JSON, protobuf).
std::optional<ExpositionFormat> DetectExpositionFormat(std::string_view content_type) noexcept;

// Escaping schemes of Prometheus 3, for names with characters that older versions do not allow.
enum class NameEscaping : uint8_t {
  kUtf8,         // allow-utf-8: the name as it is, in quotes
  kUnderscores,  // underscores: each other character is `_`
  kDots,         // dots: `.` is `_dot_`, `_` and each other character is `__`
  kValues,       // values: `U__`, then each other character as its code point in hex, `_2e_`; reversible
};
inline constexpr size_t kNameEscapings = 4;

// "allow-utf-8", "underscores", … as Accept and Content-Type have them. Static storage.
std::string_view NameEscapingWord(NameEscaping escaping) noexcept;
std::optional<NameEscaping> FindNameEscaping(std::string_view word) noexcept;

// [a-zA-Z_:][a-zA-Z0-9_:]*, and the same without the colon: names that need neither quotes nor escaping.
bool IsLegacyMetricName(std::string_view name) noexcept;
bool IsLegacyLabelName(std::string_view name) noexcept;

// A name that is not legacy, escaped as client_golang escapes it; `name` is UTF-8. A legacy name and one
// under kUtf8 stay as they are, and so does the empty one, which no scheme can write.
std::string EscapeMetricName(std::string_view name, NameEscaping escaping);
// The same for a label, where the colon is no legacy character: client_golang leaves it, and no program can
// read that page.
std::string EscapeLabelName(std::string_view name, NameEscaping escaping);

// The form of a page. Text 0.0.4 has no quoted names: kUtf8 is kUnderscores there.
struct PageForm {
  constexpr PageForm(ExpositionFormat page_format,
                     NameEscaping name_escaping = NameEscaping::kUnderscores) noexcept
      : format(page_format),
        escaping(page_format == ExpositionFormat::kText004 && name_escaping == NameEscaping::kUtf8
                     ? NameEscaping::kUnderscores
                     : name_escaping) {}

  ExpositionFormat format;
  NameEscaping escaping;

  friend constexpr bool operator==(PageForm, PageForm) noexcept = default;
};

// The format and escaping that a scraper gets.
struct Negotiated {
  PageForm form = ExpositionFormat::kText004;
  std::string_view content_type;  // states format and escaping; static storage
};

// `accept` as in RFC 9110 (several fields joined by ", "): q-values, wildcards, parameters. Among formats of
// equal q the newer wins, as scrapers list what they would rather have. A scraper that accepts none of ours
// gets text 0.0.4, as one without an Accept header does: every Prometheus reads it, and a page helps a person
// more than a 406. One that names a newer OpenMetrics than ours, and nothing else of ours, gets our
// OpenMetrics.
//
// Names are escaped as the chosen element's `escaping` requests, and by underscores where that is missing or
// unknown: a reader without a word of escaping may refuse the whole page for one quoted name.
Negotiated Negotiate(std::string_view accept) noexcept;

}  // namespace gpulens
