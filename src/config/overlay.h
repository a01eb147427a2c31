// Values of the environment and the command line, by the path of their option. Flags override variables.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/diagnostic.h"
#include "config/loader.h"
#include "config/schema.h"
#include "plugins/config.h"

namespace gpulens {

struct OverlaySetting {
  std::string text;
  Origin origin;
  SourcePlace spot;      // of the whole text
  bool exact = false;    // `text` is in the excerpt unchanged: carets may point into it
  bool percent = false;  // values of its pairs are percent-encoded
  bool quiet = false;    // does not turn on the plugin that it belongs to
};

// Immutable once made.
class ConfigOverlay {
 public:
  ConfigOverlay() = default;
  ConfigOverlay(const Schema& schema, const ConfigSources& sources, ConfigProblems& problems,
                std::vector<std::string>& unknown_variables);

  const OverlaySetting* Find(const std::string& path) const;
  // Whether anything at or below `path` is set.
  bool Touches(const std::string& path) const;
  // The place of `length` bytes at `at` of the text.
  static SourcePlace SpotOf(const OverlaySetting& setting, size_t at, size_t length);

 private:
  void AddVariable(const Schema& schema, const EnvironmentVariable& variable,
                   std::vector<std::string>& warnings);
  void AddAliases(const Schema& schema, const ConfigSources& sources);
  void AddFlag(const Schema& schema, const FlagValue& flag);
  void Set(const Schema::Leaf& leaf, OverlaySetting setting);

  ConfigProblems* problems_ = nullptr;
  std::map<std::string, OverlaySetting, std::less<>> settings_;
};

}  // namespace gpulens
