#include "plugins/config.h"

#include "base/check.h"

namespace gpulens {

Config::Config() = default;
Config::Config(const Config&) = default;
Config::Config(Config&&) noexcept = default;
Config& Config::operator=(const Config&) = default;
Config& Config::operator=(Config&&) noexcept = default;
Config::~Config() = default;

const Config::Entry& Config::At(std::string_view key) const {
  for (const Entry& entry : entries_) {
    if (entry.key == key) return entry;
  }
  const std::string message = "\"" + std::string(key) + "\": the option is in the spec";
  CheckFailed(message.c_str(), __FILE__, __LINE__);
}

bool Config::Has(std::string_view key) const {
  return std::ranges::any_of(entries_, [&](const Entry& entry) { return entry.key == key; });
}

namespace {

template <class T>
const T& As(const Config::Entry& entry) {
  const T* value = std::get_if<T>(&entry.value);
  CHECK(value != nullptr);
  return *value;
}

}  // namespace

bool Config::Bool(std::string_view key) const { return As<bool>(At(key)); }
int64_t Config::Int(std::string_view key) const { return As<int64_t>(At(key)); }
double Config::Double(std::string_view key) const { return As<double>(At(key)); }
Duration Config::Time(std::string_view key) const { return As<Duration>(At(key)); }
uint64_t Config::Size(std::string_view key) const { return static_cast<uint64_t>(As<int64_t>(At(key))); }
const std::string& Config::Text(std::string_view key) const { return As<std::string>(At(key)); }
const std::vector<std::string>& Config::Texts(std::string_view key) const {
  return As<std::vector<std::string>>(At(key));
}
const std::map<std::string, std::string>& Config::TextMap(std::string_view key) const {
  return As<std::map<std::string, std::string>>(At(key));
}
const Config& Config::Group(std::string_view key) const { return As<Config>(At(key)); }
const std::vector<Config>& Config::Groups(std::string_view key) const {
  return As<std::vector<Config>>(At(key));
}

Duration IntervalOf(const Config& config) { return config.Time("interval"); }

const Origin& Config::origin(std::string_view key) const { return At(key).origin; }

std::string Config::Where(std::string_view key) const {
  const Origin& from = origin(key);
  if (from.where == Origin::kDefault) return "default";
  if (from.where != Origin::kFile) return from.name;
  return from.name + ":" + std::to_string(from.line) + ":" + std::to_string(from.column);
}

std::span<const Config::Entry> Config::entries() const { return entries_; }

void Config::Set(std::string_view key, Value value, Origin origin) {
  for (Entry& entry : entries_) {
    if (entry.key != key) continue;
    entry.value = std::move(value);
    entry.origin = std::move(origin);
    return;
  }
  entries_.push_back({std::string(key), std::move(value), std::move(origin)});
}

bool operator==(const Config& a, const Config& b) {
  if (a.entries_.size() != b.entries_.size()) return false;
  for (size_t i = 0; i < a.entries_.size(); ++i) {
    if (a.entries_[i].key != b.entries_[i].key || a.entries_[i].value != b.entries_[i].value) return false;
  }
  return true;
}

void ConfigFaults::Refuse(const Config& group, std::string_view key, std::string problem, std::string hint) {
  faults_.push_back({group.origin(key), std::move(problem), std::move(hint)});
}

void ConfigFaults::Refuse(const Config& group, std::string_view key, const Status& status) {
  if (!status) Refuse(group, key, std::string(key) + ": " + status.detail);
}

Status RefuseFaults(ConfigCheck check, const Config& config) {
  ConfigFaults faults;
  check(config, faults);
  if (faults.empty()) return Ok();
  const ConfigFaults::Fault& first = faults.faults().front();
  return {Code::kInvalidArgument, first.problem + (first.hint.empty() ? "" : "; " + first.hint)};
}

}  // namespace gpulens
