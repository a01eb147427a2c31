// How a page writes names of metrics and labels that are not of the characters Prometheus has always
// allowed: the escaping schemes of Prometheus 3, and the form of a page that a scraper asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "wire/exposition/exposition_format.h"

namespace gpulens {

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
// The same for a label, where the colon is no legacy character: client_golang leaves it, and nobody can read
// that page.
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

}  // namespace gpulens
