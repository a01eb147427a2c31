// Any text as a value: nothing crashes, and what is escaped comes back.
#include "base/check.h"
#include "base/text.h"
#include "config/expand.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const ExpandFrom from{[](std::string_view name) -> std::optional<std::string_view> {
                          if (name.size() % 2 == 0) return std::nullopt;
                          return name;
                        },
                        [](const std::string& path) -> Result<std::string> { return path; },
                        [](const std::string& name) -> Result<std::string> {
                          CHECK(IsCredentialName(name) && name.find('/') == name.npos && name != "..");
                          if (name.size() % 2 == 0) return Status{Code::kUnavailable, "none"};
                          return name;
                        }};
  for (bool escaped : {false, true}) {
    const std::string value = escaped ? EscapeDollars(text) : text;
    std::string line = "key: ";
    AppendJsonString(line, value);
    SourceText source("fuzz", line);
    ConfigProblems problems;
    YamlTree tree = ParseYaml(source, problems);
    if (problems.count() != 0 || tree.root() == nullptr) return 0;
    const YamlNode* node = tree.root()->Find("key");
    if (node == nullptr || node->text != value) return 0;
    ExpandValues(tree, source, from, problems);
    CHECK(node->text.size() <= kExpandedBytes);
    CHECK(!escaped || (problems.count() == 0 && node->text == text));
    static_cast<void>(problems.Shown(&source));
  }
  return 0;
}
