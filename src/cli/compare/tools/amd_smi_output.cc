#include <cstdio>
#include <optional>

#include "base/json.h"
#include "base/result.h"
#include "cli/compare/tools/tool_output.h"

namespace gpulens::compare {
namespace {

// A name as it stands in a JSON pointer.
std::string Escaped(std::string_view name) {
  std::string out;
  for (char c : name) {
    if (c == '~') out += "~0";
    else if (c == '/') out += "~1";
    else out += c;
  }
  return out;
}

// A text, number or truth as text; nothing for objects and arrays.
std::optional<std::string> ScalarText(const JsonDocument& json, const std::string& pointer) {
  if (auto text = json.Text(pointer)) return text;
  if (auto whole = json.Integer(pointer)) return std::to_string(*whole);
  if (auto whole = json.Whole(pointer)) return std::to_string(*whole);
  if (auto number = json.Number(pointer)) {
    char text[32];
    std::snprintf(text, sizeof text, "%.10g", *number);
    return std::string(text);
  }
  if (auto truth = json.Truth(pointer)) return *truth ? "true" : "false";
  if (json.IsNull(pointer)) return "N/A";
  return std::nullopt;
}

class AmdWalk {
 public:
  AmdWalk(const JsonDocument& json, std::vector<ToolField>& out) : json_(json), out_(out) {}

  Status Walk(const std::string& pointer, const std::string& subject, const std::string& path) {
    if (std::optional<std::string> text = ScalarText(json_, pointer)) return Add(subject, path, *text);
    if (std::optional<std::vector<std::string>> names = json_.Names(pointer)) {
      // {"value": 62, "unit": "%"} is "62 %".
      std::optional<std::string> value = ScalarText(json_, pointer + "/value");
      std::optional<std::string> unit = json_.Text(pointer + "/unit");
      if (value && unit && names->size() == 2)
        return Add(subject, path, *value == "N/A" ? *value : *value + " " + *unit);
      for (const std::string& name : *names) {
        std::string below = path.empty() ? name : path + "/" + name;
        if (Status status = Walk(pointer + "/" + Escaped(name), subject, below); !status) return status;
      }
      return Ok();
    }
    for (size_t i = 0; i < json_.Size(pointer); ++i) {
      std::string number = std::to_string(i);
      if (Status status = Walk(pointer + "/" + number, subject, path + "/" + number); !status) return status;
    }
    return Ok();
  }

 private:
  Status Add(const std::string& subject, const std::string& path, std::string text) {
    if (out_.size() >= kMostFields) return {Code::kExhausted, "amd-smi: too many fields"};
    out_.push_back({subject, path, std::move(text)});
    return Ok();
  }

  const JsonDocument& json_;
  std::vector<ToolField>& out_;
};

}  // namespace

// ROCm 6 prints an array of GPUs, ROCm 7 an object with that array as "gpu_data".
Result<std::vector<ToolField>> ReadAmdSmi(std::string_view text) {
  ASSIGN_OR_RETURN(JsonDocument json, JsonDocument::Parse(text));
  std::string base = json.Size("/gpu_data") > 0 ? "/gpu_data" : "";
  std::vector<ToolField> fields;
  AmdWalk walk(json, fields);
  for (size_t i = 0; i < json.Size(base); ++i) {
    std::string gpu = base + "/" + std::to_string(i);
    std::optional<int64_t> index = json.Integer(gpu + "/gpu");
    if (!index) return Status{Code::kDataLoss, "amd-smi: an element without the number of its GPU"};
    if (Status status = walk.Walk(gpu, "gpu:" + std::to_string(*index), {}); !status) return status;
  }
  if (fields.empty())
    return Status{Code::kDataLoss, "amd-smi: no GPU; expected the output of amd-smi metric --json"};
  return fields;
}

}  // namespace gpulens::compare
