#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "cli/compare/comparison.h"
#include "cli/compare/tools/tool_output.h"

namespace {

void CheckElement(const gpulens::compare::XmlElement& element, size_t depth) {
  CHECK(depth <= gpulens::compare::kMostXmlDepth);
  CHECK(!element.name.empty() && gpulens::IsUtf8(element.text));
  for (const auto& child : element.children) CheckElement(child, depth + 1);
}

}  // namespace

// Parsed XML is valid UTF-8 and no deeper than the limit; parsed fields can be compared without any reading.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::compare;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto root = ParseXml(text)) CheckElement(*root, 1);
  const VendorTool* tool = ToolThatPrinted(text);
  if (!tool) return 0;
  auto fields = ReadToolOutput(*tool, text);
  if (!fields) return 0;
  CompareInput input{
      .rows = tool->rows(), .tool = *std::move(fields), .before = {}, .after = {}, .recorded = true};
  const size_t printed = input.tool.size();
  CHECK(Compare(input).fields.size() <= printed);
  return 0;
}
