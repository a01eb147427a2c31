// Which field of a vendor's tool is which metric of gpulens: one row for each field that a tool is known to
// print, also for those that are not compared, with the reason. A field without a row is unexplained.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace gpulens::compare {

// How the text of the tool becomes what is compared.
enum class How : uint8_t {
  kNumber,      // "53.2 W", "45 %", "16x", "P8": a number in base units
  kFlag,        // "Enabled", "Not Active", "Yes", …: 1 or 0
  kFault,       // 0 for the words that say all is well ("Success", "None", "Full"), else 1; ours is 0 or not
  kState,       // the state set's state of that name holds
  kText,        // the attribute `attributes` of the metric has this text
  kBusId,       // the same, of a PCI address, whatever the width of its domain
  kGeneration,  // "16.0 GT/s": the generation of PCIe that has this speed
  kNone,        // not compared, for the reason
};

// How far two good readings of one value may lie apart beside the rounding of what the tool prints. `slack`
// is in the metric's unit, `share` of the greater of both values.
struct Tolerance {
  double slack = 0;
  double share = 0;
  std::string_view why = {};  // in the words of a note below the table

  // Whether the value is one of few (a state, a flag), and has to agree in one of the looks.
  constexpr bool IsStep() const noexcept { return slack == 0 && share == 0; }
};

struct FieldRow {
  std::string_view path;  // within a GPU: "temperature/gpu_temp"; a star stands for any text
  How how = How::kNone;
  std::string_view metric = {};
  std::string_view attributes =
      {};  // that the series has: "key=value,key=value"; one key for kText and kState
  // kNone: why it is not compared. Else why the two may differ by more than the tolerance, if they may.
  std::string_view reason = {};
  std::string_view silent = {};  // why gpulens may say nothing where the tool has a value, if it may
  Tolerance tolerance = {};
  double scale = 1;  // of the metric's unit in one of a number that the tool prints without a unit
  std::string_view tool_silent = {};  // why the tool may print no value where gpulens has one, if it may
};

// The rows of a tool. Of several rows with one path the first counts whose metric is there. Static storage.
std::span<const FieldRow> NvidiaRows() noexcept;
std::span<const FieldRow> AmdRows() noexcept;
std::span<const FieldRow> GaudiRows() noexcept;

// All rows for a path, in their order: those that name it, else those whose stars match it.
std::span<const FieldRow> RowsFor(std::span<const FieldRow> rows, std::string_view path) noexcept;

}  // namespace gpulens::compare
