// Parses the output of vendors' tools into fields. Pure functions over untrusted bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "cli/compare/tools/fields.h"

namespace gpulens::compare {

// The subject of a field: "machine", "gpu:KEY", "mig:KEY/INSTANCE/COMPUTE" or
// "process:KEY/PID[/INSTANCE/COMPUTE]". KEY is by which tool and gpulens both know a GPU.
enum class KeyBy : uint8_t { kUuid, kIndex };

struct ToolField {
  std::string subject;
  std::string path;
  std::string text;  // as printed, without the blanks around it
};

enum class ToolKind : uint8_t { kNvidiaSmi, kAmdSmi, kHlSmi };

// A vendor's tool. Static storage.
struct VendorTool {
  ToolKind kind;
  std::string_view name;    // of the program
  std::string_view vendor;  // of the collector that reads the same GPUs
  KeyBy key_by;
  std::span<const FieldRow> (*rows)();
  std::span<const std::string_view> commands;  // its arguments, a line of them for each run
};
std::span<const VendorTool> AllTools() noexcept;
// Finds a tool by the name or path of a program: "/opt/bin/nvidia-smi-wrapper" is nvidia-smi. Null: unknown.
const VendorTool* ToolNamed(std::string_view program) noexcept;
// Finds a tool by the first bytes of its output. Null: unknown.
const VendorTool* ToolThatPrinted(std::string_view output) noexcept;

inline constexpr size_t kMostFields = 100'000;

// Parses the output of one run. kDataLoss: it is not output of this tool, with the place. kExhausted: too
// much of it.
Result<std::vector<ToolField>> ReadToolOutput(const VendorTool& tool, std::string_view output);

// The three readers behind it.
Result<std::vector<ToolField>> ReadNvidiaSmi(std::string_view xml);
Result<std::vector<ToolField>> ReadAmdSmi(std::string_view json);
Result<std::vector<ToolField>> ReadHlSmi(std::string_view csv);

struct XmlElement {
  std::string name;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::string text;  // the text between its children, trimmed
  std::vector<XmlElement> children;

  // The first child of this name; null: there is none.
  const XmlElement* Child(std::string_view child_name) const noexcept;
  // The text of that child; empty when there is none.
  std::string_view ChildText(std::string_view child_name) const noexcept;
};

inline constexpr size_t kMostXmlBytes = 8u << 20;
inline constexpr size_t kMostXmlDepth = 32;
inline constexpr size_t kMostXmlElements = 200'000;
inline constexpr size_t kMostXmlNameBytes = 256;

// Returns the element at the root. kDataLoss: not such a document, with the line. kExhausted: it is larger or
// deeper than the limits above.
Result<XmlElement> ParseXml(std::string_view document);

}  // namespace gpulens::compare
