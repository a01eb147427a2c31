// What a vendor's tool printed, as a list of fields with their texts. Pure functions over bytes from outside.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "cli/compare/tools/fields.h"

namespace gpulens::compare {

// Of what a field is: "machine", "gpu:KEY", "mig:KEY/INSTANCE/COMPUTE" or
// "process:KEY/PID[/INSTANCE/COMPUTE]". KEY is what the tool and gpulens both know a GPU by.
enum class KeyBy : uint8_t { kUuid, kIndex };

struct ToolField {
  std::string subject;
  std::string path;
  std::string text;  // as printed, without the blanks around it
};

enum class ToolKind : uint8_t { kNvidiaSmi, kAmdSmi, kHlSmi };

// What is particular to a tool. Static storage.
struct Tool {
  ToolKind kind;
  std::string_view name;    // of the program
  std::string_view vendor;  // of the collector that reads the same GPUs
  KeyBy key_by;
  std::span<const FieldRow> (*rows)();
  std::span<const std::string_view> commands;  // its arguments, a line of them for each run
};
std::span<const Tool> AllTools() noexcept;
// By the name of a program or of a path to one: "/opt/bin/nvidia-smi-wrapper" is nvidia-smi. Null: none of
// them.
const Tool* ToolNamed(std::string_view program) noexcept;
// By the first bytes of what it printed; null: nothing that is known.
const Tool* ToolThatPrinted(std::string_view output) noexcept;

inline constexpr size_t kMostFields = 100'000;

// What one run printed. kDataLoss: it is not what this tool prints, with the place. kExhausted: too much of
// it.
Result<std::vector<ToolField>> ReadToolOutput(const Tool& tool, std::string_view output);

// The three readers behind it.
Result<std::vector<ToolField>> ReadNvidiaSmi(std::string_view xml);
Result<std::vector<ToolField>> ReadAmdSmi(std::string_view json);
Result<std::vector<ToolField>> ReadHlSmi(std::string_view csv);

}  // namespace gpulens::compare
