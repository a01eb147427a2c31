// What the environment and the command line set, found by the path of the option. Flags win.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/diagnostic.h"
#include "config/loader.h"
#include "config/schema.h"
#include "plugins/config.h"

namespace gpulens {

struct Setting {
  std::string text;
  Origin origin;
  Spot spot;             // of the whole text
  bool exact = false;    // `text` is in the excerpt unchanged: carets may point into it
  bool percent = false;  // values of its pairs are percent-encoded
  bool quiet = false;    // does not turn on the plugin that it belongs to
};

// Immutable once made.
class Overlay {
 public:
  Overlay() = default;
  Overlay(const Schema& schema, const Sources& sources, Problems& problems,
          std::vector<std::string>& unknown_variables);

  const Setting* Find(const std::string& path) const;
  // Whether anything at or below `path` is set.
  bool Touches(const std::string& path) const;
  // The place of `length` bytes at `at` of the text.
  static Spot SpotOf(const Setting& setting, size_t at, size_t length);

 private:
  void AddVariable(const Schema& schema, const Variable& variable, std::vector<std::string>& warnings);
  void AddAliases(const Schema& schema, const Sources& sources);
  void AddFlag(const Schema& schema, const FlagValue& flag);
  void Set(const Schema::Leaf& leaf, Setting setting);

  Problems* problems_ = nullptr;
  std::map<std::string, Setting, std::less<>> settings_;
};

}  // namespace gpulens
