#include "config/convert.h"

#include <algorithm>
#include <chrono>

#include "base/text.h"
#include "config/diagnostic.h"
#include "config/renamed.h"

namespace gpulens {
namespace {

bool IsUnbounded(double bound) noexcept { return bound <= -1e299 || bound >= 1e299; }

std::string BoundText(OptionType type, double bound) {
  if (type == OptionType::kTime) return FormatTimeValue(Duration(static_cast<int64_t>(bound * 1e9)));
  if (type == OptionType::kSize) return FormatSizeValue(static_cast<int64_t>(bound));
  if (type == OptionType::kInt) return std::to_string(static_cast<int64_t>(bound));
  return FormatDoubleValue(bound);
}

ValueCheck CheckRange(const OptionSpec& spec, std::string_view text, double value) {
  bool below = value<spec.min, above = value> spec.max;
  if (!below && !above) return std::nullopt;
  bool time = spec.type == OptionType::kTime;
  std::string how = below ? (time ? "short" : "small") : time ? "long" : "large";
  return ValueError{std::string(text) + " is too " + how, RangeText(spec), 0, 0};
}

ValueCheck CheckWord(const OptionSpec& spec, std::string_view text) {
  if (spec.allowed.empty()) return std::nullopt;
  if (std::find(spec.allowed.begin(), spec.allowed.end(), text) != spec.allowed.end()) return std::nullopt;
  std::vector<std::string_view> allowed(spec.allowed.begin(), spec.allowed.end());
  std::string hint = spec.key == "names" ? RenamedValueHint(text) : "";
  if (hint.empty()) hint = WordHint(text, allowed);
  return ValueError{QuotedText(text) + " is not one of the allowed values", std::move(hint), 0, 0};
}

template <class T>
ValueCheck Number(const OptionSpec& spec, std::string_view text, ValueCheck (*parse)(std::string_view, T&),
                  Config::Value& out) {
  T value{};
  if (ValueCheck wrong = parse(text, value)) return wrong;
  out = value;
  if constexpr (std::is_same_v<T, Duration>) {
    return CheckRange(spec, text, std::chrono::duration<double>(value).count());
  } else {
    return CheckRange(spec, text, static_cast<double>(value));
  }
}

ValueCheck CheckAttributeName(std::string_view name) {
  constexpr std::string_view kHint = "letters, digits, dots and underscores, like site or rack.row";
  constexpr std::string_view kBounds[] = {"le", "quantile"};
  auto wrong = [kHint](std::string problem) {
    return ValueError{std::move(problem), std::string(kHint), 0, 0};
  };
  if (name.empty()) return wrong("an attribute without a name");
  const bool control = std::any_of(name.begin(), name.end(),
                                   [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  if (control || !IsUtf8(name)) return wrong(QuotedText(name) + " is not a valid attribute name");
  if (name.starts_with("__"))
    return wrong(QuotedText(name) + " is reserved: Prometheus reserves names that begin with __");
  if (std::ranges::find(kBounds, name) != std::end(kBounds))
    return wrong(QuotedText(name) + " is reserved for the bounds of histograms and summaries");
  return std::nullopt;
}

}  // namespace

ValueCheck CheckPair(const OptionSpec& spec, std::string_view key, std::string_view text) {
  if (spec.map_of == MapOf::kAttributes) {
    if (ValueCheck wrong = CheckAttributeName(key)) return wrong;
    if (!IsUtf8(text)) return ValueError{QuotedText(key) + " has bytes that are not UTF-8", "", 0, 0};
  }
  return spec.map_of == MapOf::kRenames ? CheckAttributeName(text) : std::nullopt;
}

bool IsScalar(OptionType type) noexcept {
  return type != OptionType::kTexts && type != OptionType::kTextMap && type != OptionType::kGroup &&
         type != OptionType::kGroups;
}

std::string_view TypeName(OptionType type) noexcept {
  switch (type) {
    case OptionType::kBool: return "true or false";
    case OptionType::kInt: return "a whole number";
    case OptionType::kDouble: return "a number";
    case OptionType::kTime: return "a duration";
    case OptionType::kSize: return "a size";
    case OptionType::kText: return "a text";
    case OptionType::kUrl: return "a URL";
    case OptionType::kTexts: return "a list of texts";
    case OptionType::kTextMap: return "a map of texts";
    case OptionType::kGroup: return "a map of options";
    case OptionType::kGroups: return "a list of maps";
  }
  return "";
}

ValueCheck ConvertText(const OptionSpec& spec, std::string_view text, Config::Value& out) {
  switch (spec.type) {
    case OptionType::kBool: {
      bool value = false;
      ValueCheck wrong = ParseBoolValue(text, value);
      if (!wrong) out = value;
      return wrong;
    }
    case OptionType::kInt: return Number<int64_t>(spec, text, ParseIntValue, out);
    case OptionType::kDouble: return Number<double>(spec, text, ParseDoubleValue, out);
    case OptionType::kTime: return Number<Duration>(spec, text, ParseTimeValue, out);
    case OptionType::kSize: return Number<int64_t>(spec, text, ParseSizeValue, out);
    case OptionType::kUrl:
      out = std::string(text);
      if (text.find("…") != std::string_view::npos) {
        return ValueError{std::string(kHiddenSecret), std::string(kHiddenHint), 0, 0};
      }
      // An empty text takes an optional URL away.
      if (text.empty()) return std::nullopt;
      if (ValueCheck wrong = CheckUrlValue(text, spec.allowed); wrong && spec.secret_path)
        return ValueError{"the text is not a URL", "like https://HOST/PATH", 0, 0};
      else return wrong;
    default: break;
  }
  out = std::string(text);
  if (IsSecretKey(spec.key) && text.starts_with("…")) {
    return ValueError{std::string(kHiddenSecret), std::string(kHiddenHint), 0, 0};
  }
  return CheckWord(spec, text);
}

Config::Value EmptyValue(const OptionSpec& spec) {
  switch (spec.type) {
    case OptionType::kBool: return false;
    case OptionType::kInt:
    case OptionType::kSize: return int64_t{0};
    case OptionType::kDouble: return 0.0;
    case OptionType::kTime: return Duration::zero();
    case OptionType::kTexts: return std::vector<std::string>{};
    case OptionType::kTextMap: return std::map<std::string, std::string>{};
    case OptionType::kGroup: return Config{};
    case OptionType::kGroups: return std::vector<Config>{};
    default: return std::string{};
  }
}

std::string RangeText(const OptionSpec& spec) {
  bool low = !IsUnbounded(spec.min), high = !IsUnbounded(spec.max);
  if (low && high) return BoundText(spec.type, spec.min) + " to " + BoundText(spec.type, spec.max);
  if (low) return "at least " + BoundText(spec.type, spec.min);
  return high ? "at most " + BoundText(spec.type, spec.max) : "";
}

std::vector<std::string_view> KeysOf(std::span<const OptionSpec> options) {
  std::vector<std::string_view> keys;
  for (const OptionSpec& spec : options) keys.push_back(spec.key);
  return keys;
}

bool IsSecretKey(std::string_view key) {
  constexpr std::string_view kWords[] = {"password",      "passwd",     "token",   "secret",  "bearer",
                                         "authorization", "credential", "api_key", "api-key", "apikey"};
  std::string lower(key);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (lower.ends_with("_file")) return false;
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

bool IsSecretMap(std::string_view key) { return key == "headers"; }

std::string MaskSecret(std::string_view secret) { return secret.empty() ? "" : "…"; }

std::string MaskUrl(std::string_view url, bool secret_path) {
  const size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return std::string(url);
  const size_t start = scheme + 3, end = std::min(url.find_first_of("/?#", start), url.size());
  std::string_view authority = url.substr(start, end - start), rest = url.substr(end);
  std::string out(url.substr(0, start));
  const size_t at = authority.rfind('@'), colon = authority.find(':');
  if (at != std::string_view::npos && colon < at) {
    out.append(authority.substr(0, colon + 1)).append("…");
    authority.remove_prefix(at);
  }
  out += authority;
  if (secret_path) return rest.size() > 1 ? out + "/…" : out + std::string(rest);
  const size_t query = rest.find('?');
  out += rest.substr(0, query);
  if (query != std::string_view::npos) out += query + 1 < rest.size() ? "?…" : "?";
  return out;
}

bool MayHoldSecret(std::string_view url) noexcept {
  return url.find_first_of("@?") != std::string_view::npos;
}

}  // namespace gpulens
