// Maps the fields of vendors' tools to metrics: one row for each known field, also for those that are not
// compared, with the reason. A field without a row is unexplained.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpulens::compare {

// FieldComparison a field is compared.
enum class FieldComparison : uint8_t {
  kNumber,      // "53.2 W", "45 %", "16x", "P8": a number in base units
  kFlag,        // "Enabled", "Not Active", "Yes", …: 1 or 0
  kFault,       // 0 for the words of no fault ("Success", "None", "Full"), else 1; ours is 0 or not
  kState,       // the state set's state of that name holds
  kText,        // the attribute `attributes` of the metric has this text
  kBusId,       // the same, of a PCI address, whatever the width of its domain
  kGeneration,  // "16.0 GT/s": the generation of PCIe that has this speed
  kNone,        // not compared, for the reason
};

// Accepted difference of two good readings, in addition to the tool's rounding. `slack`
// is in the metric's unit, `share` of the greater of both values.
struct FieldTolerance {
  double slack = 0;
  double share = 0;
  std::string_view why = {};  // in the words of a note below the table

  // Whether the value is one of a small set (a state, a flag), which must agree in one of the comparisons.
  constexpr bool IsStep() const noexcept { return slack == 0 && share == 0; }
};

struct FieldRow {
  std::string_view path;  // within a GPU: "temperature/gpu_temp"; a star matches any text
  FieldComparison how = FieldComparison::kNone;
  std::string_view metric = {};
  std::string_view attributes =
      {};  // that the series has: "key=value,key=value"; one key for kText and kState
  // kNone: why it is not compared. Otherwise why the two may differ by more than the tolerance.
  std::string_view reason = {};
  std::string_view silent = {};  // why gpulens may have no value where the tool has one
  FieldTolerance tolerance = {};
  double scale = 1;  // of the metric's unit in one of a number that the tool prints without a unit
  std::string_view tool_silent = {};  // why the tool may print no value where gpulens has one
};

// Rows that differ in one word, which replaces the star of the path and of the attributes of `row`.
struct FieldFamily {
  FieldRow row;
  std::string_view words;  // between blanks: "theirs:ours", or one word for both
};

struct UncomparedFields {
  std::string_view reason, paths;  // the paths between blanks
};

// All rows of one tool. The arguments outlive it.
class FieldTable {
 public:
  FieldTable(std::span<const FieldRow> rows, std::span<const FieldFamily> families,
             std::span<const UncomparedFields> uncompared);
  std::span<const FieldRow> rows() const noexcept { return rows_; }

 private:
  std::vector<FieldRow> rows_;
  std::deque<std::string> texts_;
};

// The rows of a tool. Of several rows with one path, the first whose metric has a value counts. Static
// storage.
std::span<const FieldRow> NvidiaRows();
std::span<const FieldRow> AmdRows();
std::span<const FieldRow> GaudiRows();

// All rows for a path, in their order: those that name it, else those whose stars match it.
std::span<const FieldRow> RowsFor(std::span<const FieldRow> rows, std::string_view path) noexcept;

inline constexpr FieldTolerance kExact{};
inline constexpr std::string_view kOtherMoment = "read at another moment: the value varies";
inline constexpr std::string_view kReadSeldom = "gpulens reads it every 10 s or once a minute, and it varies";
inline constexpr FieldTolerance kDegrees{.slack = 3, .share = 0, .why = kOtherMoment};
// For one value of a small set.
inline constexpr FieldTolerance kStep{.slack = 0, .share = 0, .why = kOtherMoment};
inline constexpr FieldTolerance kShare{.slack = 0.1, .share = 0, .why = kOtherMoment};
inline constexpr FieldTolerance kSeldomShare{.slack = 0.25, .share = 0, .why = kReadSeldom};
inline constexpr FieldTolerance kWatts{.slack = 10, .share = 0.05, .why = kOtherMoment};
inline constexpr FieldTolerance kSeldomWatts{.slack = 20, .share = 0.25, .why = kReadSeldom};
inline constexpr FieldTolerance kClock{.slack = 60, .share = 0.05, .why = kOtherMoment};
// Less than what a board reserves: memory that is counted as used by one side only is found.
inline constexpr FieldTolerance kMemory{.slack = 64.0 * (1 << 20), .share = 0, .why = kOtherMoment};
inline constexpr FieldTolerance kSeldomMemory{.slack = 64.0 * (1 << 20), .share = 0, .why = kReadSeldom};
inline constexpr FieldTolerance kSessions{.slack = 2, .share = 0.25, .why = kReadSeldom};
// Times of throttling grow by at most a second in a second.
inline constexpr FieldTolerance kSeldomSeconds{.slack = 12, .share = 0, .why = kReadSeldom};

inline constexpr std::string_view kSetting = "a setting, not a reading";
inline constexpr std::string_view kNotRead = "gpulens does not read it";
inline constexpr std::string_view kIdentity = "an identifier, not a reading";
inline constexpr std::string_view kKnownBy = "the key of the row, whose other fields are compared";
inline constexpr std::string_view kOfTool = "about the tool's own run, not a reading";

constexpr FieldRow TextRow(std::string_view path, std::string_view metric, std::string_view key,
                           std::string_view silent = {}) {
  return {path, FieldComparison::kText, metric, key, {}, silent};
}
constexpr FieldRow NotCompared(std::string_view path, std::string_view reason) {
  return {.path = path, .how = FieldComparison::kNone, .reason = reason};
}
constexpr FieldRow NumberRow(std::string_view path, std::string_view metric, std::string_view attributes = {},
                             FieldTolerance tolerance = kExact, std::string_view reason = {},
                             std::string_view silent = {}) {
  return {path, FieldComparison::kNumber, metric, attributes, reason, silent, tolerance};
}
constexpr FieldRow FlagRow(std::string_view path, std::string_view metric, std::string_view attributes = {},
                           FieldTolerance tolerance = kExact) {
  return {path, FieldComparison::kFlag, metric, attributes, {}, {}, tolerance};
}
constexpr FieldRow FaultRow(std::string_view path, std::string_view metric, std::string_view attributes = {},
                            std::string_view silent = {}) {
  return {path, FieldComparison::kFault, metric, attributes, {}, silent};
}
// The row of a field that the tool may leave without a value although gpulens has one.
constexpr FieldRow ToolMayBeSilent(FieldRow row, std::string_view why) {
  row.tool_silent = why;
  return row;
}
constexpr FieldRow StateRow(std::string_view path, std::string_view metric) {
  return {path, FieldComparison::kState, metric, metric};
}

}  // namespace gpulens::compare
