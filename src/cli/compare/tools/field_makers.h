// How rows are written, and the tolerances that several tools share.
#pragma once

#include "cli/compare/tools/field_row.h"

namespace gpulens::compare {

inline constexpr Tolerance kExact{};
inline constexpr std::string_view kOtherMoment = "read at another moment: the value varies";
inline constexpr std::string_view kReadSeldom = "gpulens reads it every 10 s or once a minute, and it varies";
inline constexpr Tolerance kDegrees{.slack = 3, .share = 0, .why = kOtherMoment};
// One of few values: it agrees in one of the looks, or it does not.
inline constexpr Tolerance kStep{.slack = 0, .share = 0, .why = kOtherMoment};
inline constexpr Tolerance kShare{.slack = 0.1, .share = 0, .why = kOtherMoment};
inline constexpr Tolerance kSeldomShare{.slack = 0.25, .share = 0, .why = kReadSeldom};
inline constexpr Tolerance kWatts{.slack = 10, .share = 0.05, .why = kOtherMoment};
inline constexpr Tolerance kSeldomWatts{.slack = 20, .share = 0.25, .why = kReadSeldom};
inline constexpr Tolerance kClock{.slack = 60, .share = 0.05, .why = kOtherMoment};
// Less than what a board reserves: memory that is counted as used by one side only is found.
inline constexpr Tolerance kMemory{.slack = 64.0 * (1 << 20), .share = 0, .why = kOtherMoment};
inline constexpr Tolerance kSeldomMemory{.slack = 64.0 * (1 << 20), .share = 0, .why = kReadSeldom};
inline constexpr Tolerance kSessions{.slack = 2, .share = 0.25, .why = kReadSeldom};
// Times of throttling grow by at most a second in a second.
inline constexpr Tolerance kSeldomSeconds{.slack = 12, .share = 0, .why = kReadSeldom};

inline constexpr std::string_view kSetting = "a setting, not a reading";
inline constexpr std::string_view kNotRead = "gpulens does not read it";
inline constexpr std::string_view kIdentity = "an identifier, not a reading";
inline constexpr std::string_view kKnownBy = "the key of the row, whose other fields are compared";
inline constexpr std::string_view kOfTool = "about the tool's own run, not a reading";

constexpr FieldRow TextRow(std::string_view path, std::string_view metric, std::string_view key,
                           std::string_view silent = {}) {
  return {path, How::kText, metric, key, {}, silent};
}
constexpr FieldRow NotCompared(std::string_view path, std::string_view reason) {
  return {.path = path, .how = How::kNone, .reason = reason};
}
constexpr FieldRow NumberRow(std::string_view path, std::string_view metric, std::string_view attributes = {},
                             Tolerance tolerance = kExact, std::string_view reason = {},
                             std::string_view silent = {}) {
  return {path, How::kNumber, metric, attributes, reason, silent, tolerance};
}
constexpr FieldRow FlagRow(std::string_view path, std::string_view metric, std::string_view attributes = {},
                           Tolerance tolerance = kExact) {
  return {path, How::kFlag, metric, attributes, {}, {}, tolerance};
}
constexpr FieldRow FaultRow(std::string_view path, std::string_view metric, std::string_view attributes = {},
                            std::string_view silent = {}) {
  return {path, How::kFault, metric, attributes, {}, silent};
}
// The row of a field that the tool may leave without a value although gpulens has one.
constexpr FieldRow ToolMayBeSilent(FieldRow row, std::string_view why) {
  row.tool_silent = why;
  return row;
}
constexpr FieldRow StateRow(std::string_view path, std::string_view metric) {
  return {path, How::kState, metric, metric};
}

}  // namespace gpulens::compare
