// The tools of the Model Context Protocol and their arguments.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "agent/mcp/mcp.h"

namespace gpulens::mcp {

struct Parameter {
  enum Type : unsigned char { kText, kWhole, kTexts } type = kText;
  std::string_view name, description;
  bool required = false;
};

// Arguments of a call, checked by the tool's parameters.
class Arguments {
 public:
  // `json` is an object, or empty. kInvalidArgument names the argument and what is allowed.
  static Result<Arguments> Parse(std::string_view json, std::span<const Parameter> parameters);

  // Null: not given.
  const std::string* Find(std::string_view name) const noexcept;
  std::span<const std::string> All(std::string_view name) const noexcept;

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> values_;
};

struct Tool {
  std::string_view name, title, description;
  std::span<const Parameter> parameters;
  std::string_view output;  // the JSON schema of the result
  // Returns the result, a JSON object. The detail of an error names what to do.
  Result<std::string> (*call)(const McpServer::Get& get, const Arguments& arguments);
};

std::span<const Tool> Tools() noexcept;

// The text of the JSON value at the scanner, which moves behind it. `text` is what it scans.
template <class Scanner>
std::string_view RawValue(Scanner& json, std::string_view text) {
  json.Peek();
  const size_t begin = json.at();
  json.Skip();
  return text.substr(begin, json.at() - begin);
}

}  // namespace gpulens::mcp
