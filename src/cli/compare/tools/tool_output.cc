#include "cli/compare/tools/tool_output.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "base/json.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "cli/compare/tools/xml_reader.h"
#include "sources/hl_smi/hl_smi.h"

namespace gpulens::compare {

namespace {

constexpr std::string_view kNvidiaCommands[] = {"-q -x"};
constexpr std::string_view kAmdCommands[] = {"static --json", "metric --json"};
constexpr std::string_view kHlCommands[] = {
    "-Q "
    "index,module_id,uuid,name,serial,bus_id,driver_version,memory.total,memory.used,memory.free,power.draw,"
    "power.max,temperature.aip,utilization.aip,ecc.errors.uncorrected.volatile.total,"
    "ecc.errors.uncorrected.aggregate.total,clocks.current.soc,clocks.limit.soc,rows.replaced,rows.pending"
    " -f csv"};

constexpr Tool kTools[] = {
    {ToolKind::kNvidiaSmi, "nvidia-smi", "nvidia", KeyBy::kUuid, &NvidiaRows, kNvidiaCommands},
    {ToolKind::kAmdSmi, "amd-smi", "amd", KeyBy::kIndex, &AmdRows, kAmdCommands},
    {ToolKind::kHlSmi, "hl-smi", "gaudi", KeyBy::kIndex, &GaudiRows, kHlCommands},
};

}  // namespace

std::span<const Tool> AllTools() noexcept { return kTools; }

const Tool* ToolNamed(std::string_view program) noexcept {
  std::string_view name = program.substr(program.rfind('/') + 1);
  for (const Tool& tool : kTools) {
    if (name.find(tool.name) != name.npos) return &tool;
  }
  return nullptr;
}

const Tool* ToolThatPrinted(std::string_view output) noexcept {
  if (output.starts_with("\xEF\xBB\xBF")) output.remove_prefix(3);
  output = Trim(output.substr(0, 4096));
  if (output.empty()) return nullptr;
  if (output.front() == '<') return &kTools[0];
  if (output.front() == '[' || output.front() == '{') return &kTools[1];
  std::string_view header = output;
  if (TakeUntil(header, '\n').find(',') != std::string_view::npos) return &kTools[2];
  return nullptr;
}

Result<std::vector<ToolField>> ReadToolOutput(const Tool& tool, std::string_view output) {
  switch (tool.kind) {
    case ToolKind::kNvidiaSmi: return ReadNvidiaSmi(output);
    case ToolKind::kAmdSmi: return ReadAmdSmi(output);
    case ToolKind::kHlSmi: return ReadHlSmi(output);
  }
  return Status{Code::kInvalidArgument, "unknown tool"};
}

namespace {

// The instance ids of a MIG device or of a process in one; empty when it is in none.
std::string InstanceOf(const XmlElement& element) {
  std::string_view gpu = element.ChildText("gpu_instance_id"),
                   compute = element.ChildText("compute_instance_id");
  if (!ParseInt<int>(gpu)) return {};
  return "/" + std::string(gpu) + "/" + (ParseInt<int>(compute) ? std::string(compute) : "0");
}

// Collects the texts of all elements that have no children.
class LeafWalk {
 public:
  explicit LeafWalk(std::vector<ToolField>& out) : out_(out) {}

  Status Walk(const XmlElement& element, const std::string& subject, const std::string& path) {
    if (element.children.empty()) {
      if (out_.size() >= kMostFields) return {Code::kExhausted, "nvidia-smi: too many fields"};
      out_.push_back({subject, path, element.text});
      return Ok();
    }
    for (const XmlElement& child : element.children) {
      std::string below = path.empty() ? child.name : path + "/" + child.name;
      if (Status status = Walk(child, SubjectOf(child, subject), below); !status) return status;
    }
    return AddDerived(element, subject, path);
  }

 private:
  std::string SubjectOf(const XmlElement& element, const std::string& subject) const {
    if (element.name == "gpu") return "gpu:" + std::string(element.ChildText("uuid"));
    std::string key = subject.substr(std::min(subject.size(), subject.find(':') + 1));
    if (element.name == "mig_device") return "mig:" + key + InstanceOf(element);
    if (element.name == "process_info") {
      return "process:" + key + "/" + std::string(element.ChildText("pid")) + InstanceOf(element);
    }
    return subject;
  }

  // Counters that newer drivers split in two and gpulens exports as one.
  Status AddDerived(const XmlElement& element, const std::string& subject, const std::string& path) {
    std::optional<uint64_t> parity = ParseInt<uint64_t>(element.ChildText("sram_uncorrectable_parity"));
    std::optional<uint64_t> secded = ParseInt<uint64_t>(element.ChildText("sram_uncorrectable_secded"));
    if (!parity || !secded || *parity > UINT32_MAX || *secded > UINT32_MAX) return Ok();
    out_.push_back({subject, path + "/sram_uncorrectable", std::to_string(*parity + *secded)});
    return Ok();
  }

  std::vector<ToolField>& out_;
};

// Paths begin below <gpu>.
std::string WithoutGpu(const std::string& path) { return path.starts_with("gpu/") ? path.substr(4) : path; }

}  // namespace

Result<std::vector<ToolField>> ReadNvidiaSmi(std::string_view xml) {
  ASSIGN_OR_RETURN(XmlElement root, ParseXml(xml));
  if (root.name != "nvidia_smi_log") {
    return Status{Code::kDataLoss,
                  "nvidia-smi: the root is not <nvidia_smi_log>; expected the output of nvidia-smi -q -x"};
  }
  std::vector<ToolField> fields;
  if (Status status = LeafWalk(fields).Walk(root, "machine", {}); !status) return status;
  bool reserved = false;
  for (ToolField& field : fields) {
    field.path = WithoutGpu(field.path);
    reserved = reserved || field.path == "fb_memory_usage/reserved";
  }
  // Drivers before 510 have no field for reserved memory and count it as used.
  for (ToolField& field : fields) {
    if (!reserved && field.path == "fb_memory_usage/used") field.path = "fb_memory_usage/used_with_reserved";
  }
  return fields;
}

namespace {

// Escapes a name for a JSON pointer.
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

namespace {

std::vector<std::string_view> CellsOf(std::string_view line) {
  std::vector<std::string_view> cells;
  while (!line.empty() && cells.size() < hl_smi::kMostColumns) cells.push_back(Trim(TakeUntil(line, ',')));
  return cells;
}

}  // namespace

// "memory.used [MiB]" over "672 MiB": takes the unit of the cell, else of the header.
Result<std::vector<ToolField>> ReadHlSmi(std::string_view csv) {
  if (csv.size() > hl_smi::kMostOutput) return Status{Code::kExhausted, "hl-smi: too much output"};
  if (!IsUtf8(csv)) return Status{Code::kDataLoss, "hl-smi: the output is not UTF-8"};
  std::vector<std::string_view> header = CellsOf(TakeUntil(csv, '\n'));
  size_t index_column = header.size();
  for (size_t i = 0; i < header.size(); ++i) {
    if (header[i] == "index") index_column = i;
  }
  if (index_column == header.size()) return Status{Code::kDataLoss, "hl-smi: no column `index`"};
  std::vector<ToolField> fields;
  size_t cards = 0;
  while (!csv.empty()) {
    std::vector<std::string_view> cells = CellsOf(TakeUntil(csv, '\n'));
    if (cells.empty()) continue;
    if (cells.size() != header.size())
      return Status{Code::kDataLoss, "hl-smi: a row with a different number of columns"};
    if (++cards > hl_smi::kMostCards) return Status{Code::kExhausted, "hl-smi: too many cards"};
    for (size_t i = 0; i < cells.size(); ++i) {
      std::string_view unit = header[i], name = Trim(TakeUntil(unit, '['));
      std::string text(cells[i]);
      unit = TakeUntil(unit, ']');
      if (!unit.empty() && ParseDouble(text)) text += " " + std::string(unit);
      fields.push_back({"gpu:" + std::string(cells[index_column]), std::string(name), std::move(text)});
    }
  }
  return fields;
}

}  // namespace gpulens::compare
