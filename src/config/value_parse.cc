#include "config/value_parse.h"

#include <arpa/inet.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>

#include "base/parse.h"
#include "base/text.h"
#include "config/diagnostic.h"

namespace gpulens {

namespace {

constexpr std::string_view kTimeHint = "a number and a unit: 500ms 1s 5m 2h";
constexpr std::string_view kSizeHint = "a number and a unit: 4096 64MiB 10GB";

struct Unit {
  std::string_view name;
  int64_t value;
};
constexpr Unit kTimeUnits[] = {{"ns", 1},
                               {"us", 1'000},
                               {"µs", 1'000},
                               {"ms", 1'000'000},
                               {"s", 1'000'000'000},
                               {"m", 60'000'000'000},
                               {"h", 3'600'000'000'000},
                               {"d", 86'400'000'000'000}};
constexpr Unit kSizeUnits[] = {{"B", 1},           {"kB", 1'000},         {"KB", 1'000},
                               {"MB", 1'000'000},  {"GB", 1'000'000'000}, {"TB", 1'000'000'000'000},
                               {"KiB", 1LL << 10}, {"MiB", 1LL << 20},    {"GiB", 1LL << 30},
                               {"TiB", 1LL << 40}};

bool IsDigit(char c) noexcept { return c >= '0' && c <= '9'; }
bool IsLetter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

const Unit* FindUnit(std::span<const Unit> units, std::string_view name) {
  auto found = std::ranges::find_if(units, [&](const Unit& unit) { return unit.name == name; });
  return found == units.end() ? nullptr : &*found;
}

ValueError Expected(std::string_view what, std::string_view text, std::string_view hint) {
  std::string got = text.empty() ? "nothing" : "the text " + QuotedText(text);
  return {"expected " + std::string(what) + ", got " + got, std::string(hint), 0, 0};
}

// A decimal number off the front, times a unit that is known only after it. False: none there.
struct Amount {
  std::string_view digits, fraction;
};
bool TakeAmount(std::string_view& rest, Amount& out) {
  auto digits = [&] {
    size_t n = 0;
    while (n < rest.size() && IsDigit(rest[n])) ++n;
    std::string_view taken = rest.substr(0, n);
    rest.remove_prefix(n);
    return taken;
  };
  out.digits = digits();
  if (out.digits.empty()) return false;
  out.fraction = {};
  if (!rest.starts_with('.')) return true;
  rest.remove_prefix(1);
  out.fraction = digits();
  return !out.fraction.empty();
}

// Adds amount × unit to `sum`; false when that does not fit.
bool AddAmount(const Amount& amount, int64_t unit, int64_t& sum) {
  std::optional<int64_t> whole = ParseInt<int64_t>(amount.digits);
  int64_t product = 0;
  if (!whole || __builtin_mul_overflow(*whole, unit, &product)) return false;
  int64_t part = 0;
  if (!amount.fraction.empty()) {
    double fraction = ParseDouble("0." + std::string(amount.fraction)).value_or(0);
    part = std::llround(fraction * static_cast<double>(unit));
  }
  return !__builtin_add_overflow(product, part, &product) && !__builtin_add_overflow(sum, product, &sum);
}

ValueError BadTimeUnit(std::string_view text, std::string_view unit, size_t at) {
  constexpr std::pair<std::string_view, std::string_view> kLong[] = {
      {"sec", "s"}, {"secs", "s"}, {"second", "s"},  {"seconds", "s"}, {"min", "m"},  {"mins", "m"},
      {"hr", "h"},  {"hour", "h"}, {"minutes", "m"}, {"hours", "h"},   {"day", "d"},  {"days", "d"},
      {"S", "s"},   {"M", "m"},    {"H", "h"},       {"D", "d"},       {"msec", "ms"}};
  std::string hint = "units: ms s m h d";
  if (FindUnit(kTimeUnits, Trim(unit)) != nullptr)
    hint = "no space is allowed between the number and its unit";
  for (auto [wrong, right] : kLong) {
    if (Trim(unit) == wrong) hint = "did you mean " + std::string(right) + "?   " + hint;
  }
  return {QuotedText(text) + " has the unknown unit " + QuotedText(unit), hint, at, unit.size()};
}

std::string_view TakeUnit(std::string_view& rest) {
  size_t n = 0;
  while (n < rest.size() && !IsDigit(rest[n])) ++n;
  std::string_view unit = rest.substr(0, n);
  rest.remove_prefix(n);
  return unit;
}

ValueError NotUrl(std::string_view text, std::string problem, size_t at, size_t length = 1) {
  // A URL may hold a password before its "@", and a key behind its "?".
  bool password = text.find_first_of("@?") != std::string_view::npos;
  if (password) problem = problem.substr(0, problem.find("   like "));
  return {(password ? "the text" : QuotedText(text)) + " is not a URL", std::move(problem), at, length};
}

// Port digits of text[at..]; empty text is wrong, too.
ValueCheck CheckPort(std::string_view port, size_t at, uint16_t& out) {
  std::optional<uint16_t> value = ParseInt<uint16_t>(port);
  if (!value) {
    return ValueError{"expected a port, got " + (port.empty() ? "nothing" : QuotedText(port)),
                      port.empty() ? "a port is missing here: 1 to 65535" : "a port is 1 to 65535", at,
                      std::max<size_t>(1, port.size())};
  }
  out = *value;
  return std::nullopt;
}

ValueCheck CheckAuthority(std::string_view text, size_t start) {
  size_t end = std::min(text.find_first_of("/?#", start), text.size());
  std::string_view authority = text.substr(start, end - start);
  if (size_t user = authority.rfind('@'); user != std::string_view::npos) {
    start += user + 1;
    authority.remove_prefix(user + 1);
  }
  size_t host_end = 0;
  if (authority.starts_with('[')) {
    size_t close = authority.find(']');
    if (close == std::string_view::npos) return NotUrl(text, "\"]\" is missing here", end);
    host_end = close + 1;
    in6_addr ignored;
    if (inet_pton(AF_INET6, std::string(authority.substr(1, close - 1)).c_str(), &ignored) != 1) {
      return NotUrl(text, "not an IPv6 address", start, host_end);
    }
  } else {
    host_end = std::min(authority.find(':'), authority.size());
  }
  if (host_end == 0)
    return NotUrl(text, "a host is missing here.   like http://127.0.0.1:9100/metrics", start);
  if (host_end == authority.size()) return std::nullopt;
  if (authority[host_end] != ':') return NotUrl(text, "\":\" is missing here", start + host_end);
  uint16_t port = 0;
  ValueCheck wrong = CheckPort(authority.substr(host_end + 1), start + host_end + 1, port);
  if (wrong) return NotUrl(text, wrong->hint, wrong->at, wrong->length);
  return port == 0 ? NotUrl(text, "a port is 1 to 65535", start + host_end + 1) : ValueCheck{};
}

// Former names of keys and values.
struct Renamed {
  std::string_view section, before, now;
};
// Keys of plugins and of their targets, by section.
constexpr Renamed kKeys[] = {
    {"sinks", "dialects", "names"},
    {"collectors", "engines", "targets (kind: engine)"},
    {"collectors", "scrape", "targets (kind: prometheus)"},
    {"collectors", "gpu_page", "targets (kind: gpu)"},
    {"collectors", "dcgm", "targets (kind: dcgm)"},
    {"discovery", "engine_processes", "local"},
    {"discovery", "collector", "kind"},
    {"targets", "engine", "kind"},
    {"targets", "exporter", "kind"},
    {"targets", "discovered", "optional"},
    {"", "timeout", "transport.timeout"},
    {"", "unix_socket", "transport.unix_socket"},
    {"", "username", "transport.username"},
    {"", "password", "transport.password"},
    {"", "password_file", "transport.password_file"},
    {"", "bearer_token", "transport.bearer_token"},
    {"", "bearer_token_file", "transport.bearer_token_file"},
    {"", "headers", "transport.headers"},
    {"", "tls", "transport.tls"},
};
// Values that only one option takes.
constexpr Renamed kValues[] = {
    {"sinks", "dcgm_4_6", "dcgm@4.6"}, {"sinks", "hw", "otel_hw"}, {"sinks", "genai", "otel_genai"}};

std::string Now(std::string_view name) {
  const bool moved = name.starts_with("transport.") || name.starts_with("targets ");
  return (moved ? "now in " : "now called ") + std::string(name);
}

// Whether what follows the name of a section in a path belongs to it: "sinks", "sinks.otlp", "targets[0]".
bool EndsWord(std::string_view rest) { return rest.empty() || rest[0] == '.' || rest[0] == '['; }

}  // namespace

ValueCheck ParseBoolValue(std::string_view text, bool& out) {
  if (text != "true" && text != "false") {
    constexpr std::string_view kYes[] = {"yes", "on", "1", "True", "TRUE", "y"};
    constexpr std::string_view kNo[] = {"no", "off", "0", "False", "FALSE", "n"};
    bool yes = std::ranges::find(kYes, text) != std::end(kYes);
    bool no = std::ranges::find(kNo, text) != std::end(kNo);
    constexpr std::string_view kWords[] = {"true", "false"};
    const std::string_view near = yes ? "true" : no ? "false" : NearestWord(text, kWords);
    return Expected("true or false", text, near.empty() ? "" : "did you mean " + std::string(near) + "?");
  }
  out = text == "true";
  return std::nullopt;
}

ValueCheck ParseIntValue(std::string_view text, int64_t& out) {
  std::optional<int64_t> value = ParseInt<int64_t>(text);
  if (!value) return Expected("a whole number", text, "like 5");
  out = *value;
  return std::nullopt;
}

ValueCheck ParseDoubleValue(std::string_view text, double& out) {
  std::optional<double> value = ParseDouble(text);
  if (!value || !std::isfinite(*value)) return Expected("a number", text, "like 0.5");
  out = *value;
  return std::nullopt;
}

ValueCheck ParseTimeValue(std::string_view text, Duration& out) {
  if (text == "0") return out = Duration::zero(), std::nullopt;
  std::string_view rest = text;
  int64_t sum = 0;
  int64_t last_unit = INT64_MAX;
  do {
    Amount amount;
    if (!TakeAmount(rest, amount)) return Expected("a duration", text, kTimeHint);
    size_t at = text.size() - rest.size();
    std::string_view unit_text = TakeUnit(rest);
    if (unit_text.empty()) {
      std::string number(text);
      std::string hint = "a number and a unit: " + number + "ms " + number + "s " + number + "m";
      return ValueError{QuotedText(text) + " has no unit", number.size() > 12 ? std::string(kTimeHint) : hint,
                        0, 0};
    }
    const Unit* unit = FindUnit(kTimeUnits, unit_text);
    if (unit == nullptr) return BadTimeUnit(text, unit_text, at);
    if (unit->value >= last_unit) return Expected("a duration", text, "bigger units first: 1h30m");
    last_unit = unit->value;
    if (!AddAmount(amount, unit->value, sum))
      return ValueError{QuotedText(text) + " is too long", "at most 106751d", 0, 0};
  } while (!rest.empty());
  out = Duration(sum);
  return std::nullopt;
}

ValueCheck ParseSizeValue(std::string_view text, int64_t& out) {
  std::string_view rest = text;
  Amount amount;
  if (!TakeAmount(rest, amount)) return Expected("a size", text, kSizeHint);
  const Unit* unit = FindUnit(kSizeUnits, rest.empty() ? "B" : rest);
  if (unit == nullptr) {
    std::string hint = "units: B kB MB GB TB (1000) KiB MiB GiB TiB (1024)";
    for (const Unit& candidate : kSizeUnits) {
      bool begins = candidate.name.ends_with("iB") && candidate.name.starts_with(rest.substr(0, 1));
      if (begins) hint = "did you mean " + std::string(candidate.name) + "?   " + hint;
    }
    return ValueError{QuotedText(text) + " has the unknown unit " + QuotedText(rest), hint,
                      text.size() - rest.size(), rest.size()};
  }
  int64_t sum = 0;
  if (!AddAmount(amount, unit->value, sum)) return ValueError{QuotedText(text) + " is too large", "", 0, 0};
  out = sum;
  return std::nullopt;
}

ValueCheck CheckUrlValue(std::string_view text, std::span<const std::string_view> schemes) {
  constexpr std::string_view kWeb[] = {"http", "https"};
  if (schemes.empty()) schemes = kWeb;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char c = static_cast<unsigned char>(text[i]);
    if (c <= ' ' || c == 0x7F) return NotUrl(text, "no space is allowed here", i);
  }
  size_t letters = 0;
  while (letters < text.size() && (IsLetter(text[letters]) || (letters > 0 && IsDigit(text[letters]))))
    ++letters;
  std::string_view scheme = text.substr(0, letters);
  std::string_view rest = text.substr(letters);
  std::string first(schemes.front());
  if (letters > 0 && rest.starts_with("//")) {
    std::string fixed = std::string(scheme) + ":" + std::string(rest);
    return NotUrl(text, "\":\" is missing here." + (fixed.size() < 80 ? "   like " + fixed : ""), letters);
  }
  bool known = std::ranges::find(schemes, scheme) != schemes.end();
  if (known && rest.starts_with(":") && !rest.starts_with("://")) {
    bool one = rest.starts_with(":/");
    return NotUrl(text, one ? "\"/\" is missing here" : "\"//\" is missing here", letters + (one ? 2 : 1));
  }
  if (!rest.starts_with("://")) {
    std::string fixed = first + "://" + std::string(text);
    return NotUrl(text,
                  "\"" + first + "://\" is missing here." + (fixed.size() < 80 ? "   like " + fixed : ""), 0);
  }
  if (!known) {
    return NotUrl(text, WordHint(scheme, std::vector<std::string_view>(schemes.begin(), schemes.end())), 0,
                  std::max<size_t>(1, letters));
  }
  return CheckAuthority(text, letters + 3);
}

ValueCheck ParseListenValue(std::string_view text, ListenAddress& out) {
  constexpr std::string_view kHint = "like 127.0.0.1:9091 [::1]:9091 :9091";
  if (text.starts_with("unix:/")) return out = {"unix", 0, true}, std::nullopt;
  auto wrong = [&](std::string hint, size_t at, size_t length) {
    return ValueError{QuotedText(text) + " is not an address to listen on", std::move(hint), at, length};
  };
  if (text.empty()) return Expected("an address to listen on", text, kHint);
  if (ParseInt<uint16_t>(text)) return wrong("a host is missing here: 127.0.0.1:" + std::string(text), 0, 1);
  size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon);
  bool bracketed = text.starts_with('[');
  if (bracketed) {
    size_t close = text.find(']');
    if (close == std::string_view::npos) return wrong("\"]\" is missing.   " + std::string(kHint), 0, 0);
    host = text.substr(1, close - 1);
    if (!text.substr(close + 1).starts_with(':'))
      return wrong("a port is missing here: \":9091\"", text.size(), 1);
    colon = close + 1;
  } else if (colon == std::string_view::npos) {
    return wrong("a port is missing here: \":9091\"", text.size(), 1);
  } else if (host.find(':') != std::string_view::npos) {
    return wrong("an IPv6 address needs brackets: [::1]:9091", 0, 0);
  }
  uint16_t port = 0;
  if (ValueCheck bad = CheckPort(text.substr(colon + 1), colon + 1, port))
    return wrong(bad->hint, bad->at, bad->length);
  std::array<unsigned char, 16> ip{};
  std::string name(host);
  bool v6 = bracketed && inet_pton(AF_INET6, name.c_str(), ip.data()) == 1;
  bool v4 = !bracketed && inet_pton(AF_INET, name.c_str(), ip.data()) == 1;
  if (!v4 && !v6 && (bracketed || (name != "localhost" && !name.empty()))) {
    return wrong("the host is an IP address or localhost.   " + std::string(kHint), bracketed ? 1 : 0,
                 std::max<size_t>(1, host.size()));
  }
  in6_addr address{};
  std::copy(ip.begin(), ip.end(), address.s6_addr);
  bool mapped = v6 && IN6_IS_ADDR_V4MAPPED(&address);
  bool loopback = name == "localhost" || (v4 && ip[0] == 127) || (mapped && ip[12] == 127) ||
                  (v6 && IN6_IS_ADDR_LOOPBACK(&address));
  out = {std::move(name), port, loopback};
  return std::nullopt;
}

std::string FormatTimeValue(Duration value) {
  constexpr Unit kFine[] = {{"d", 86'400'000'000'000}, {"h", 3'600'000'000'000}, {"m", 60'000'000'000},
                            {"s", 1'000'000'000},      {"ms", 1'000'000},        {"us", 1'000}};
  int64_t ns = value.count();
  if (ns == 0) return "0s";
  for (const Unit& unit : kFine) {
    if (ns % unit.value == 0) return std::to_string(ns / unit.value) + std::string(unit.name);
  }
  return std::to_string(ns) + "ns";
}

std::string FormatSizeValue(int64_t bytes) {
  constexpr Unit kFine[] = {{"TiB", 1LL << 40},    {"GiB", 1LL << 30}, {"MiB", 1LL << 20}, {"KiB", 1LL << 10},
                            {"GB", 1'000'000'000}, {"MB", 1'000'000},  {"kB", 1'000}};
  std::string best;
  for (const Unit& unit : kFine) {
    if (bytes == 0 || bytes % unit.value != 0) continue;
    std::string text = std::to_string(bytes / unit.value) + std::string(unit.name);
    if (best.empty() || text.size() < best.size()) best = std::move(text);
  }
  return best.empty() ? std::to_string(bytes) : best;
}

std::string FormatDoubleValue(double value) {
  char buffer[40];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  return error == std::errc{} ? std::string(buffer, end) : std::string("0");
}

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
  if (std::ranges::find(spec.allowed, text) != spec.allowed.end()) return std::nullopt;
  std::vector<std::string_view> allowed(spec.allowed.begin(), spec.allowed.end());
  std::string hint = spec.key == "names" ? RenamedValueHint(text) : "";
  if (hint.empty()) hint = WordHint(text, allowed);
  return ValueError{QuotedText(text) + " is not one of the allowed values", std::move(hint), 0, 0};
}

template <class T>
ValueCheck ConvertNumber(const OptionSpec& spec, std::string_view text,
                         ValueCheck (*parse)(std::string_view, T&), Config::Value& out) {
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
  const bool control =
      std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
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
    case OptionType::kInt: return ConvertNumber<int64_t>(spec, text, ParseIntValue, out);
    case OptionType::kDouble: return ConvertNumber<double>(spec, text, ParseDoubleValue, out);
    case OptionType::kTime: return ConvertNumber<Duration>(spec, text, ParseTimeValue, out);
    case OptionType::kSize: return ConvertNumber<int64_t>(spec, text, ParseSizeValue, out);
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

bool HasKeys(const OptionSpec& spec) noexcept {
  return !spec.children.empty() && (spec.type == OptionType::kGroup || spec.type == OptionType::kGroups);
}

const Config::Entry* FindEntry(const Config& config, std::string_view key) {
  const auto& entries = config.entries();
  auto found = std::ranges::find(entries, key, &Config::Entry::key);
  return found == entries.end() ? nullptr : &*found;
}

bool IsSecretKey(std::string_view key) {
  constexpr std::string_view kWords[] = {"password",      "passwd",     "token",   "secret",  "bearer",
                                         "authorization", "credential", "api_key", "api-key", "apikey"};
  std::string lower(key);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (lower.ends_with("_file")) return false;
  return std::ranges::any_of(kWords,
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

std::string RenamedKeyHint(std::string_view path, std::string_view key) {
  for (const Renamed& one : kKeys) {
    const bool within =
        one.section.empty()
            ? path.starts_with("sinks.") || path.starts_with("targets[") || path.starts_with("collectors.")
            : path.starts_with(one.section) && EndsWord(path.substr(one.section.size()));
    if (within && key == one.before) return Now(one.now);
  }
  return {};
}

std::string RenamedValueHint(std::string_view value) {
  for (const Renamed& one : kValues) {
    if (value == one.before) return Now(one.now);
  }
  return {};
}

}  // namespace gpulens
