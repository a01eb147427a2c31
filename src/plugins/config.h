// The configuration of one plugin: every option that its table declares has a value of the declared type,
// from a flag, the environment, the file or its default. Immutable after it is built; safe to share.
//
//   constexpr OptionSpec kOptions[] = {{.key = "interval", .type = OptionType::kTime, .fallback = "10s"}};
//   Duration interval = OptionsOf<kOptions>(config).Time("interval");  // a misspelt key does not compile
//
// Config itself takes keys at run time; a key or type that is not declared there ends the program.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
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

// Which texts of a kTextMap are names of attributes: those are refused when no output could write them, or
// when they are reserved.
enum class MapOf : uint8_t { kTexts, kAttributes /* its keys */, kRenames /* its values */ };

// A row of a plugin's option table. Static storage.
struct OptionSpec {
  std::string_view key;
  OptionType type = OptionType::kText;
  // As it would stand in the file. Empty: none, so a text is "", a list is empty, a group is its
  // children's defaults.
  std::string_view fallback = {};
  std::string_view help = {};
  bool required = false;
  double min = -1e300, max = 1e300;                // numbers; times in seconds, sizes in bytes
  std::span<const std::string_view> allowed = {};  // texts; empty: any
  std::span<const OptionSpec> children = {};
  MapOf map_of = MapOf::kTexts;
  bool secret_path = false;  // a URL whose path lets in whoever knows it: never shown
};

// Lists of options, one behind the other.
template <size_t kFirst, size_t kSecond>
consteval std::array<OptionSpec, kFirst + kSecond> JoinOptions(
    const std::array<OptionSpec, kFirst>& first, const std::array<OptionSpec, kSecond>& second) {
  std::array<OptionSpec, kFirst + kSecond> all{};
  for (size_t i = 0; i < kFirst; ++i) all[i] = first[i];
  for (size_t i = 0; i < kSecond; ++i) all[kFirst + i] = second[i];
  return all;
}

// Where a value came from, for messages and `config print`.
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

// A key of the option table `kTable`, of one of the types. Any other text does not compile.
template <const auto& kTable, OptionType... kTypes>
struct OptionKey {
  consteval OptionKey(const char* text) : key(text) {  // NOLINT(google-explicit-constructor)
    for (const OptionSpec& option : kTable) {
      if (option.key == key && (sizeof...(kTypes) == 0 || ((option.type == kTypes) || ...))) return;
    }
    throw "the table has no option of this key and type";
  }
  std::string_view key;
};

// Reads a Config by keys that are checked against its option table at compile time. Refers to the Config.
template <const auto& kTable>
class OptionsOf {
 public:
  explicit OptionsOf(const Config& config) : config_(config) {}

  bool Bool(OptionKey<kTable, OptionType::kBool> option) const { return config_.Bool(option.key); }
  int64_t Int(OptionKey<kTable, OptionType::kInt> option) const { return config_.Int(option.key); }
  double Double(OptionKey<kTable, OptionType::kDouble> option) const { return config_.Double(option.key); }
  Duration Time(OptionKey<kTable, OptionType::kTime> option) const { return config_.Time(option.key); }
  uint64_t Size(OptionKey<kTable, OptionType::kSize> option) const { return config_.Size(option.key); }
  const std::string& Text(OptionKey<kTable, OptionType::kText, OptionType::kUrl> option) const {
    return config_.Text(option.key);
  }
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
  std::string Where(OptionKey<kTable> option) const { return config_.Where(option.key); }
  const Origin& origin(OptionKey<kTable> option) const { return config_.origin(option.key); }

 private:
  const Config& config_;
};

// What a plugin refuses of its configuration beyond the type of each option: options that contradict each
// other, one that needs another. `gpulens config check` and the start of the agent tell of it with its place.
// Used by one thread.
class ConfigFaults {
 public:
  struct Fault {
    Origin at;            // where the option stands
    std::string problem;  // "bearer_token and bearer_token_file contradict each other"
    std::string hint;
  };

  // `key` is an option of `group`, whose place is told.
  void Refuse(const Config& group, std::string_view key, std::string problem, std::string hint = {});
  // One that another check gave as a Status; ok adds nothing.
  void Refuse(const Config& group, std::string_view key, const Status& status);

  const std::vector<Fault>& faults() const noexcept { return faults_; }
  bool empty() const noexcept { return faults_.empty(); }

 private:
  std::vector<Fault> faults_;
};

// Looks at the configuration alone: no file, no network. Static storage.
using ConfigCheck = void (*)(const Config& config, ConfigFaults& faults);

// The first fault as a Status, kInvalidArgument, for whoever makes the plugin without the loader.
Status RefuseFaults(ConfigCheck check, const Config& config);

}  // namespace gpulens
