// One text to the value of one option, checked against the option's row. Pure, thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/value_parse.h"
#include "plugins/config.h"

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
// Whether no value of the map under this key is ever shown: any header field may hold a key.
bool IsSecretMap(std::string_view key);
// "…", or nothing for nothing.
std::string MaskSecret(std::string_view secret);
// A URL without its password and its query, and without its path when that is secret; any other text as it
// is.
std::string MaskUrl(std::string_view url, bool secret_path = false);
// Whether a text that may be a URL, also one that is written wrong, may have a password or a query in it.
bool MayHoldSecret(std::string_view url) noexcept;

}  // namespace gpulens
