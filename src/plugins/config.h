// Configuration of one plugin: every option that its table declares has a value of the declared type, from a
// flag, the environment, the file or its default. Immutable after it is built; safe to share.
//
//   constexpr OptionSpec kOptions[] = {{.key = "window", .type = OptionType::kTime, .fallback = "10s"}};
//   using Options = OptionsOf<kOptions>;
//   Duration window = Options(config).Time("window");  // a misspelt key does not compile
//
// Plugins read their options by OptionsOf. Config itself takes keys at run time, for the code that handles
// options of any table; a key or type that is not declared ends the program.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"

namespace gpulens {

enum class OptionType : uint8_t {
  kBool,
  kInt,      // 5
  kDouble,   // 0.5
  kTime,     // 500ms 1s 5m 2h
  kSize,     // 64MiB 10GB 4096
  kText,     // anything
  kUrl,      // http://host:port/path
  kTexts,    // ["a", "b"]; a single text is a list of one
  kTextMap,  // {key: text, …}
  kGroup,    // {option: …}, see `children`
  kGroups,   // [{option: …}, …], see `children`
};

// Which texts of a kTextMap are names of attributes. Names that no output can write, and reserved ones, are
// refused.
enum class MapOf : uint8_t { kTexts, kAttributes /* its keys */, kRenames /* its values */ };

// A row of a plugin's option table. Static storage.
struct OptionSpec {
  std::string_view key;
  OptionType type = OptionType::kText;
  // As written in the file. Empty: none, so a text is "", a list is empty, a group has its children's
  // defaults.
  std::string_view fallback = {};
  std::string_view help = {};
  bool required = false;
  double min = -1e300, max = 1e300;                // numbers; times in seconds, sizes in bytes
  std::span<const std::string_view> allowed = {};  // texts; empty: any
  std::span<const OptionSpec> children = {};
  MapOf map_of = MapOf::kTexts;
  bool secret_path = false;  // a URL whose path is a credential: never shown
};

// Rows of a table. `fallback`: empty for none. `min`, `max`: times in seconds, sizes in bytes.
constexpr OptionSpec BoolOption(std::string_view key, bool fallback, std::string_view help) {
  return {.key = key, .type = OptionType::kBool, .fallback = fallback ? "true" : "false", .help = help};
}
OptionSpec BoolOption(std::string_view key, const char* fallback,
                      std::string_view help) = delete;  // a text is true
constexpr OptionSpec TextOption(std::string_view key, std::string_view fallback, std::string_view help,
                                std::span<const std::string_view> allowed = {}) {
  return {.key = key, .fallback = fallback, .help = help, .allowed = allowed};
}
constexpr OptionSpec TextsOption(std::string_view key, std::string_view fallback, std::string_view help,
                                 std::span<const std::string_view> allowed = {}) {
  return {.key = key, .type = OptionType::kTexts, .fallback = fallback, .help = help, .allowed = allowed};
}
constexpr OptionSpec UrlOption(std::string_view key, std::string_view fallback, std::string_view help) {
  return {.key = key, .type = OptionType::kUrl, .fallback = fallback, .help = help};
}
constexpr OptionSpec NumberOption(std::string_view key, OptionType type, std::string_view fallback,
                                  std::string_view help, double min = OptionSpec{}.min,
                                  double max = OptionSpec{}.max) {
  return {.key = key, .type = type, .fallback = fallback, .help = help, .min = min, .max = max};
}
constexpr OptionSpec IntOption(std::string_view key, std::string_view fallback, std::string_view help,
                               double min = OptionSpec{}.min, double max = OptionSpec{}.max) {
  return NumberOption(key, OptionType::kInt, fallback, help, min, max);
}
constexpr OptionSpec SizeOption(std::string_view key, std::string_view fallback, std::string_view help,
                                double min = OptionSpec{}.min, double max = OptionSpec{}.max) {
  return NumberOption(key, OptionType::kSize, fallback, help, min, max);
}
constexpr OptionSpec TimeOption(std::string_view key, std::string_view fallback, std::string_view help,
                                double min = OptionSpec{}.min, double max = OptionSpec{}.max) {
  return NumberOption(key, OptionType::kTime, fallback, help, min, max);
}
constexpr OptionSpec GroupOption(std::string_view key, std::string_view help,
                                 std::span<const OptionSpec> children) {
  return {.key = key, .type = OptionType::kGroup, .help = help, .children = children};
}
constexpr OptionSpec GroupsOption(std::string_view key, std::string_view help,
                                  std::span<const OptionSpec> children) {
  return {.key = key, .type = OptionType::kGroups, .help = help, .children = children};
}

// Concatenates tables.
template <size_t... kSizes>
consteval auto JoinOptions(const std::array<OptionSpec, kSizes>&... tables) {
  std::array<OptionSpec, (kSizes + ...)> all{};
  auto end = all.begin();
  ((end = std::ranges::copy(tables, end).out), ...);
  return all;
}

// Source of a value, for messages and `config print`.
struct Origin {
  enum Where : uint8_t { kDefault, kFile, kEnvironment, kFlag } where = kDefault;
  std::string name;  // the file, the variable, the flag
  int line = 0, column = 0;
  bool secret = false;  // read from a file that the configuration names: never shown
};

class Config {
 public:
  using Value = std::variant<bool, int64_t, double, Duration, std::string, std::vector<std::string>,
                             std::map<std::string, std::string>, Config, std::vector<Config>>;
  struct Entry;

  Config();
  Config(const Config&);
  Config(Config&&) noexcept;
  Config& operator=(const Config&);
  Config& operator=(Config&&) noexcept;
  ~Config();

  bool Bool(std::string_view key) const;
  int64_t Int(std::string_view key) const;
  double Double(std::string_view key) const;
  Duration Time(std::string_view key) const;
  uint64_t Size(std::string_view key) const;
  const std::string& Text(std::string_view key) const;
  const std::vector<std::string>& Texts(std::string_view key) const;
  const std::map<std::string, std::string>& TextMap(std::string_view key) const;
  const Config& Group(std::string_view key) const;
  const std::vector<Config>& Groups(std::string_view key) const;

  // "gpulens.yaml:7:15", "--interval", "GPULENS_INTERVAL", "default".
  std::string Where(std::string_view key) const;
  const Origin& origin(std::string_view key) const;
  bool Has(std::string_view key) const;
  // Insertion order, which is the order of the spec.
  std::span<const Entry> entries() const;

  void Set(std::string_view key, Value value, Origin origin);

  // Equal values; origins do not count. Reload keeps an instance whose configuration is equal.
  friend bool operator==(const Config& a, const Config& b);

 private:
  const Entry& At(std::string_view key) const;
  std::vector<Entry> entries_;
};

struct Config::Entry {
  std::string key;
  Value value;
  Origin origin;
};

// Collects errors of a plugin's configuration that types do not show: options that contradict each other, or
// need another one. The start of the agent and `gpulens config check` report them with their places. Used by
// one thread.
class ConfigFaults {
 public:
  struct Fault {
    Origin at;            // place of the option
    std::string problem;  // "bearer_token and bearer_token_file contradict each other"
    std::string hint;
  };

  // `key` is an option of `group`; the error has its place.
  void Refuse(const Config& group, std::string_view key, std::string problem, std::string hint = {});
  // Adds the error of another check; ok adds nothing.
  void Refuse(const Config& group, std::string_view key, const Status& status);

  const std::vector<Fault>& faults() const noexcept { return faults_; }
  bool empty() const noexcept { return faults_.empty(); }

 private:
  std::vector<Fault> faults_;
};

// A key of the option table `kTable`, of one of the types. Any other text does not compile.
template <const auto& kTable, OptionType... kTypes>
struct OptionKey {
  template <std::convertible_to<std::string_view> Text>
  consteval OptionKey(const Text& text) : key(text) {  // NOLINT(google-explicit-constructor)
    for (const OptionSpec& option : kTable) {
      if (option.key == key && (sizeof...(kTypes) == 0 || ((option.type == kTypes) || ...))) return;
    }
    throw "the table has no option of this key and type";
  }
  template <OptionType... kOthers>
    requires(sizeof...(kTypes) == 0)
  constexpr OptionKey(OptionKey<kTable, kOthers...> other) : key(other.key) {}  // NOLINT(*-explicit-*)

  std::string_view key;
};

// Reads a Config by keys that are checked against its option table at compile time. Refers to the Config.
template <const auto& kTable>
class OptionsOf {
 public:
  using Key = OptionKey<kTable>;
  using TextKey = OptionKey<kTable, OptionType::kText, OptionType::kUrl>;

  OptionsOf(const Config& config) : config_(config) {}  // NOLINT(google-explicit-constructor)

  bool Bool(OptionKey<kTable, OptionType::kBool> option) const { return config_.Bool(option.key); }
  int64_t Int(OptionKey<kTable, OptionType::kInt> option) const { return config_.Int(option.key); }
  double Double(OptionKey<kTable, OptionType::kDouble> option) const { return config_.Double(option.key); }
  Duration Time(OptionKey<kTable, OptionType::kTime> option) const { return config_.Time(option.key); }
  uint64_t Size(OptionKey<kTable, OptionType::kSize> option) const { return config_.Size(option.key); }
  const std::string& Text(TextKey option) const { return config_.Text(option.key); }
  const std::vector<std::string>& Texts(OptionKey<kTable, OptionType::kTexts> option) const {
    return config_.Texts(option.key);
  }
  const std::map<std::string, std::string>& TextMap(OptionKey<kTable, OptionType::kTextMap> option) const {
    return config_.TextMap(option.key);
  }
  const Config& Group(OptionKey<kTable, OptionType::kGroup> option) const {
    return config_.Group(option.key);
  }
  const std::vector<Config>& Groups(OptionKey<kTable, OptionType::kGroups> option) const {
    return config_.Groups(option.key);
  }
  std::string Where(Key option) const { return config_.Where(option.key); }
  const Origin& origin(Key option) const { return config_.origin(option.key); }
  // Adds the error of an option; `problem` is a text and perhaps a hint, or a Status.
  template <class... Problem>
  void Refuse(Key option, ConfigFaults& faults, Problem&&... problem) const {
    faults.Refuse(config_, option.key, std::forward<Problem>(problem)...);
  }

 private:
  const Config& config_;
};

// Returns the option `interval`, which every collector has without declaring it.
Duration IntervalOf(const Config& config);

// Checks the configuration without reading files or using the network. Static storage.
using ConfigCheck = void (*)(const Config& config, ConfigFaults& faults);

// Returns the first error as kInvalidArgument, for callers that create the plugin without the loader.
Status RefuseFaults(ConfigCheck check, const Config& config);

}  // namespace gpulens
