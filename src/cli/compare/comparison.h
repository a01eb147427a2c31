// Compares the output of a vendor's tool with readings of gpulens just before and after it. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/compare/tools/tool_output.h"
#include "core/frame.h"

namespace CLI {
class App;
}

namespace gpulens::compare {

struct OwnValue {
  std::string metric;
  std::vector<std::pair<std::string, std::string>> attributes;  // of the series and of what it is measured on
  double value = 0;
  bool present = false;
  std::string absence;  // of one that is absent: "not_read", "out_of_range", …
  Kind kind = Kind::kGauge;

  // Whether the series has all of "key=value,key=value".
  bool Has(std::string_view wanted) const noexcept;
  // The text of an attribute; empty when it has none.
  std::string_view Text(std::string_view key) const noexcept;
};

using OwnReadings = std::map<std::string, std::vector<OwnValue>, std::less<>>;

OwnReadings ReadOwn(const Snapshot& snapshot, KeyBy key_by);

enum class FieldVerdict : uint8_t {
  kEqual,        // one number, or one text
  kWithin,       // within the tolerance: rounding, another moment
  kNeither,      // neither the tool nor gpulens has a value
  kDiffers,      // for a reason that the table states
  kToolSilent,   // gpulens has a value and the tool has none, for a reason that the table or the tool states
  kOwnSilent,    // the tool has a value and gpulens has none, for a reason
  kNotCompared,  // no reading, or none that gpulens makes; with the reason
  kUnexplained,
};
inline constexpr size_t kVerdicts = 8;
// "equal", "within", … as in reports. Static storage.
std::string_view VerdictName(FieldVerdict verdict) noexcept;

struct ComparedField {
  std::string subject, path;
  std::string tool, own;  // as texts, in the tool's unit
  std::string metric;     // empty: none
  FieldVerdict verdict = FieldVerdict::kUnexplained;
  std::string reason;  // of all but kEqual and kNeither
  size_t times = 1;    // how often the tool printed a kNotCompared field
};

struct ToolComparison {
  std::vector<ComparedField> fields;  // in the order of the tool
  // Metrics with a value in gpulens and no field of the tool, sorted.
  std::vector<std::string> own_only;

  size_t Count(FieldVerdict verdict) const noexcept;
  // Fields by their path alone, whatever the number of GPUs.
  size_t DistinctPaths() const;
};

struct CompareInput {
  std::span<const FieldRow> rows;
  std::vector<ToolField> tool;
  OwnReadings before, after;
  bool recorded = false;  // the tool's output is from a file, so of any time
};

ToolComparison Compare(const CompareInput& input);

// Replaces the unexplained fields of `into` that a further comparison explains. A process or MIG device that
// has ended since is explained as well; a GPU that is gone is not.
void MergeLook(ToolComparison& into, const ToolComparison& look);

// A number as the tool prints it.
struct ToolNumber {
  double value = 0;       // in base units
  double scale = 1;       // base units in one of the printed unit
  double last_place = 0;  // value of the last printed digit; 0: the tool prints the library's value
  std::string_view unit;  // as printed
};
std::optional<ToolNumber> ParseToolNumber(std::string_view text);
// The generation of PCIe that has this speed: 4 for "16.0 GT/s".
std::optional<double> GenerationOf(std::string_view text);
// Whether the tool's text means that there is no value.
bool IsNoValueText(std::string_view text) noexcept;
// Whether such a text reports that reading the value failed, as "ERR!" does.
bool IsFailureText(std::string_view text) noexcept;
// Returns why the tool has no value although there may be one; empty when the text gives no reason.
std::string_view ReasonOfNoValue(std::string_view text) noexcept;

struct ReportHead {
  std::string tool;   // "nvidia-smi"
  std::string where;  // the program's path, or the files
  size_t looks = 1;   // how often the tool was run
  bool simulated = false;
};

std::string TextReport(const ReportHead& head, const ToolComparison& comparison);
std::string JsonReport(const ReportHead& head, const ToolComparison& comparison);

}  // namespace gpulens::compare

namespace gpulens {

// `gpulens doctor --compare`: compares every field of a vendor's tool with what gpulens reads of the same
// machine.
struct CompareOptions {
  bool compare = false;
  std::string tool;                // a name or path; empty: the first of the known tools that is here
  std::vector<std::string> files;  // its output instead of a run; of amd-smi two
  std::string config_file;
  bool json = false;
  bool demo = false;

  // A file to compare with implies --compare.
  bool IsRequested() const noexcept { return compare || !files.empty(); }
};

// Adds the options to those of `doctor`; --config and --json are the command's own.
void AddCompare(CLI::App& doctor, CompareOptions& options);

// Returns 0 when every difference has a reason, 1 when one has none, 2 for wrong use or when nothing can be
// compared (no tool, unknown output, no readable GPU).
int RunCompare(const CompareOptions& options);

}  // namespace gpulens
