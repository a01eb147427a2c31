// One text to the value of one option, checked against the option's row. Pure, thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/config/text/value_parse.h"
#include "pipeline/config.h"

namespace gpulens {

// A scalar option, or one element of a kTexts.
ValueCheck ConvertText(const OptionSpec& spec, std::string_view text, Config::Value& out);
// One pair of a kTextMap: whether the name of an attribute in it can be written by every output and is not
// reserved by Prometheus, which refuses a whole page for one such name.
ValueCheck CheckPair(const OptionSpec& spec, std::string_view key, std::string_view text);
// The value of an option that is not set and has no default: false, 0, "", empty.
Config::Value EmptyValue(const OptionSpec& spec);
bool IsScalar(OptionType type) noexcept;
// "a duration", "a list of texts".
std::string_view TypeName(OptionType type) noexcept;
// "at least 10ms", "1 to 65536"; empty without bounds.
std::string RangeText(const OptionSpec& spec);
std::vector<std::string_view> KeysOf(std::span<const OptionSpec> options);

// Said of a text that `config print` has masked.
inline constexpr std::string_view kHiddenSecret = "expected a secret, got one that config print has hidden";
inline constexpr std::string_view kHiddenHint = "write the whole secret here";
// Whether what stands under this key is never shown: passwords and tokens, not files that hold them.
bool IsSecretKey(std::string_view key);
// "…3f9a": enough to tell two secrets apart, of those long enough to stay secret.
std::string MaskSecret(std::string_view secret);
// A URL with a password before its "@" without it; any other text as it is.
std::string MaskUrl(std::string_view url);

}  // namespace gpulens
