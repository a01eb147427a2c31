#include "cli/compare/tools/tool_output.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "base/json.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
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

constexpr VendorTool kTools[] = {
    {ToolKind::kNvidiaSmi, "nvidia-smi", "nvidia", KeyBy::kUuid, &NvidiaRows, kNvidiaCommands},
    {ToolKind::kAmdSmi, "amd-smi", "amd", KeyBy::kIndex, &AmdRows, kAmdCommands},
    {ToolKind::kHlSmi, "hl-smi", "gaudi", KeyBy::kIndex, &GaudiRows, kHlCommands},
};

}  // namespace

std::span<const VendorTool> AllTools() noexcept { return kTools; }

const VendorTool* ToolNamed(std::string_view program) noexcept {
  std::string_view name = program.substr(program.rfind('/') + 1);
  for (const VendorTool& tool : kTools) {
    if (name.find(tool.name) != name.npos) return &tool;
  }
  return nullptr;
}

const VendorTool* ToolThatPrinted(std::string_view output) noexcept {
  if (output.starts_with("\xEF\xBB\xBF")) output.remove_prefix(3);
  output = Trim(output.substr(0, 4096));
  if (output.empty()) return nullptr;
  if (output.front() == '<') return &kTools[0];
  if (output.front() == '[' || output.front() == '{') return &kTools[1];
  std::string_view header = output;
  if (TakeUntil(header, '\n').find(',') != std::string_view::npos) return &kTools[2];
  return nullptr;
}

Result<std::vector<ToolField>> ReadToolOutput(const VendorTool& tool, std::string_view output) {
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

namespace {

bool IsNameByte(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == ':';
}

bool IsBlank(char c) noexcept { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// Parses in one pass. Open elements are kept in a vector, so depth needs no stack of the thread.
class XmlParser {
 public:
  explicit XmlParser(std::string_view document) : all_(document), rest_(document) {}

  Result<XmlElement> Run() {
    while (!rest_.empty()) {
      Status status = rest_.front() == '<' ? TakeMarkup() : TakeText();
      if (!status) return status;
    }
    if (!open_.empty()) return Bad("the element <" + open_.back().name + "> is not closed");
    if (!root_) return Bad("there is no element");
    return *std::move(root_);
  }

 private:
  Status Bad(const std::string& what) const {
    auto line = 1 + std::count(all_.begin(), all_.end() - static_cast<ptrdiff_t>(rest_.size()), '\n');
    return {Code::kDataLoss, "XML, line " + std::to_string(line) + ": " + what};
  }

  // Skips everything up to and including `end`.
  Status SkipPast(std::string_view end, const char* what) {
    size_t at = rest_.find(end);
    if (at == rest_.npos) return Bad(std::string(what) + " does not end");
    rest_.remove_prefix(at + end.size());
    return Ok();
  }

  Status TakeMarkup() {
    if (rest_.starts_with("<?")) return SkipPast("?>", "a processing instruction");
    if (rest_.starts_with("<!--")) return SkipPast("-->", "a comment");
    if (rest_.starts_with("<!DOCTYPE")) return TakeDocumentType();
    if (rest_.starts_with("<!")) return Bad("a section or declaration that is not supported");
    if (rest_.starts_with("</")) return TakeEnd();
    return TakeStart();
  }

  Status TakeDocumentType() {
    size_t at = rest_.find_first_of("[>");
    if (at == rest_.npos) return Bad("the document type does not end");
    if (rest_[at] == '[')
      return Bad("the document type has declarations; external entities are not supported");
    if (root_ || !open_.empty()) return Bad("a document type inside the document");
    rest_.remove_prefix(at + 1);
    return Ok();
  }

  Result<std::string> TakeName() {
    size_t length = 0;
    while (length < rest_.size() && IsNameByte(rest_[length])) ++length;
    if (length == 0) return Bad("expected a name");
    if (length > kMostXmlNameBytes) return Status{Code::kExhausted, "XML: a name is too long"};
    std::string name(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return name;
  }

  void SkipBlanks() {
    while (!rest_.empty() && IsBlank(rest_.front())) rest_.remove_prefix(1);
  }

  Status TakeStart() {
    rest_.remove_prefix(1);
    if (root_) return Bad("a second element at the root");
    if (open_.size() >= kMostXmlDepth) {
      return {Code::kExhausted,
              "XML: elements are nested more than " + std::to_string(kMostXmlDepth) + " deep"};
    }
    if (++elements_ > kMostXmlElements) return {Code::kExhausted, "XML: too many elements"};
    XmlElement element;
    ASSIGN_OR_RETURN(element.name, TakeName());
    while (true) {
      SkipBlanks();
      if (rest_.starts_with("/>")) {
        rest_.remove_prefix(2);
        open_.push_back(std::move(element));
        return Close();
      }
      if (rest_.starts_with('>')) {
        rest_.remove_prefix(1);
        open_.push_back(std::move(element));
        return Ok();
      }
      if (Status status = TakeAttribute(element); !status) return status;
    }
  }

  Status TakeAttribute(XmlElement& element) {
    if (++elements_ > kMostXmlElements) return {Code::kExhausted, "XML: too many attributes"};
    ASSIGN_OR_RETURN(std::string name, TakeName());
    SkipBlanks();
    if (!rest_.starts_with('=')) return Bad("the attribute " + name + " has no value");
    rest_.remove_prefix(1);
    SkipBlanks();
    if (rest_.empty() || (rest_.front() != '"' && rest_.front() != '\'')) {
      return Bad("the value of the attribute " + name + " is not quoted");
    }
    size_t end = rest_.find(rest_.front(), 1);
    if (end == rest_.npos) return Bad("the value of the attribute " + name + " does not end");
    std::string value;
    if (Status status = AppendText(rest_.substr(1, end - 1), value); !status) return status;
    rest_.remove_prefix(end + 1);
    element.attributes.emplace_back(std::move(name), std::move(value));
    return Ok();
  }

  Status TakeEnd() {
    rest_.remove_prefix(2);
    ASSIGN_OR_RETURN(std::string name, TakeName());
    SkipBlanks();
    if (!rest_.starts_with('>')) return Bad("the end of <" + name + "> is not closed");
    if (open_.empty() || open_.back().name != name) return Bad("</" + name + "> closes nothing");
    rest_.remove_prefix(1);
    return Close();
  }

  Status Close() {
    XmlElement element = std::move(open_.back());
    open_.pop_back();
    element.text = std::string(Trim(element.text));
    if (open_.empty()) root_ = std::move(element);
    else open_.back().children.push_back(std::move(element));
    return Ok();
  }

  Status TakeText() {
    std::string_view text = rest_.substr(0, rest_.find('<'));
    if (open_.empty()) {
      if (!Trim(text).empty()) return Bad("text outside the root");
    } else if (Status status = AppendText(text, open_.back().text); !status) {
      return status;
    }
    rest_.remove_prefix(text.size());
    return Ok();
  }

  // Appends text with its entities replaced.
  Status AppendText(std::string_view text, std::string& out) {
    while (!text.empty()) {
      size_t at = std::min(text.find('&'), text.size());
      out += text.substr(0, at);
      text.remove_prefix(at);
      if (text.empty()) return Ok();
      size_t end = text.find(';');
      if (end == text.npos || end > 10) return Bad("an & that does not begin an entity");
      std::optional<uint32_t> point = PointOf(text.substr(1, end - 1));
      if (!point) return Bad("an entity that is not one of XML's own five");
      AppendUtf8(out, *point);
      text.remove_prefix(end + 1);
    }
    return Ok();
  }

  static std::optional<uint32_t> PointOf(std::string_view entity) {
    constexpr std::pair<std::string_view, char> kKnown[] = {
        {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    for (auto [name, meaning] : kKnown) {
      if (entity == name) return static_cast<uint32_t>(meaning);
    }
    if (!entity.starts_with('#')) return std::nullopt;
    entity.remove_prefix(1);
    const bool hexadecimal = entity.starts_with('x');
    if (hexadecimal) entity.remove_prefix(1);
    std::optional<uint32_t> point = ParseInt<uint32_t>(entity, hexadecimal ? 16 : 10);
    const bool blank = point && (*point == '\t' || *point == '\n' || *point == '\r');
    if (!point || (*point < 0x20 && !blank) || *point > 0x10FFFF || (*point >= 0xD800 && *point < 0xE000)) {
      return std::nullopt;
    }
    return point;
  }

  const std::string_view all_;
  std::string_view rest_;
  std::vector<XmlElement> open_;
  std::optional<XmlElement> root_;
  size_t elements_ = 0;  // and attributes
};

}  // namespace

const XmlElement* XmlElement::Child(std::string_view child_name) const noexcept {
  for (const XmlElement& child : children) {
    if (child.name == child_name) return &child;
  }
  return nullptr;
}

std::string_view XmlElement::ChildText(std::string_view child_name) const noexcept {
  const XmlElement* child = Child(child_name);
  return child ? std::string_view(child->text) : std::string_view();
}

Result<XmlElement> ParseXml(std::string_view document) {
  if (document.size() > kMostXmlBytes) {
    return Status{Code::kExhausted, "XML: more than " + std::to_string(kMostXmlBytes >> 20) + " MiB"};
  }
  if (document.starts_with("\xEF\xBB\xBF")) document.remove_prefix(3);
  if (!IsUtf8(document)) return Status{Code::kDataLoss, "XML: the text is not UTF-8"};
  if (document.find('\0') != document.npos) return Status{Code::kDataLoss, "XML: a NUL byte"};
  return XmlParser(document).Run();
}

}  // namespace gpulens::compare
