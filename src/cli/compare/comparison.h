// Puts what a vendor's tool printed beside what gpulens read just before and just after. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/compare/own_readings.h"

namespace gpulens::compare {

enum class Verdict : uint8_t {
  kEqual,        // one number, or one text
  kWithin,       // so near that the reason explains it: rounding, another moment
  kNeither,      // neither the tool nor gpulens has a value
  kDiffers,      // for a reason that the table states
  kToolSilent,   // gpulens has a value and the tool has none, for a reason that the table or the tool states
  kOwnSilent,    // the tool has a value and gpulens has none, for a reason
  kNotCompared,  // no reading, or not one that gpulens makes; the reason says which
  kUnexplained,
};
inline constexpr size_t kVerdicts = 8;
// "equal", "within", … as users read it. Static storage.
std::string_view VerdictName(Verdict verdict) noexcept;

struct ComparedField {
  std::string subject, path;
  std::string tool, own;  // as texts, in the tool's unit
  std::string metric;     // empty: none
  Verdict verdict = Verdict::kUnexplained;
  std::string reason;  // of all but kEqual and kNeither
  size_t times = 1;    // of kNotCompared: how often the tool printed it
};

struct Comparison {
  std::vector<ComparedField> fields;  // in the order of the tool
  // Metrics of the GPUs that gpulens has a value of and the tool has no field for, sorted.
  std::vector<std::string> own_only;

  size_t Count(Verdict verdict) const noexcept;
  // Fields by their path alone, whatever the number of GPUs.
  size_t DistinctPaths() const;
};

struct CompareInput {
  std::span<const FieldRow> rows;
  std::vector<ToolField> tool;
  OwnReadings before, after;
  bool recorded = false;  // the tool's output is from a file, so of any time
};

Comparison Compare(const CompareInput& input);

// Explains in `into` what only the further look could explain. A process or MIG device that is gone in the
// further look is explained as well; a GPU that is gone is not.
void MergeLook(Comparison& into, const Comparison& look);

// A number as the tool prints it; nothing for text that is none.
struct ToolNumber {
  double value = 0;       // in base units
  double scale = 1;       // base units in one of the printed unit
  double last_place = 0;  // how much the last printed digit is; 0: the tool prints what the library told
  std::string_view unit;  // as printed
};
std::optional<ToolNumber> ParseToolNumber(std::string_view text);
// The generation of PCIe that has this speed: 4 for "16.0 GT/s".
std::optional<double> GenerationOf(std::string_view text);
// Whether it is one of the tool's ways to say that there is no value.
bool SaysNoValue(std::string_view text) noexcept;
// Of those, whether it reports that reading the value failed, as "ERR!" does.
bool SaysFailure(std::string_view text) noexcept;
// Of those, why the tool has no value although there may be one; empty when the text gives no reason.
std::string_view ReasonOfNoValue(std::string_view text) noexcept;

}  // namespace gpulens::compare
