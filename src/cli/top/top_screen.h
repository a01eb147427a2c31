// The screen of `gpulens top` as lines of text: a pure function of the data, what was typed, and the size.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/top/top_view.h"

namespace gpulens {

// Returns the columns of a terminal that a text of valid UTF-8 takes: wide characters two, combining ones
// none.
size_t TerminalWidth(std::string_view text) noexcept;
// Makes text from outside fit for a terminal: control characters escaped, at most `columns` wide. Cut text
// ends with "…", or
// "~" where `ascii` is wanted; then other characters than ASCII are "?".
std::string TerminalText(std::string_view text, size_t columns, bool ascii);

enum class TopStyle : uint8_t { kPlain, kStrong, kDim, kGood, kLook, kAct, kTyped };

struct TopRun {
  TopStyle style = TopStyle::kPlain;
  std::string text;
};
using TopLine = std::vector<TopRun>;

enum class TopSection : uint8_t { kAll, kGpus, kGpu, kEngines, kJobs, kEvents, kSelf };
enum class TopSort : uint8_t { kIndex, kBusy, kMemory, kPower, kTemperature };
inline constexpr size_t kTopSorts = 5;
// "index", "busy", …. Static storage.
std::string_view TopSortName(TopSort sort) noexcept;

// What was typed.
struct TopTyped {
  TopSection section = TopSection::kAll;
  size_t selected = 0;  // row of the list that can be selected: GPUs, or the section's own
  size_t chart = 0;     // the first of the charts that are shown
  TopSort sort = TopSort::kIndex;
  std::string filter;
  bool filtering = false;  // the filter is being typed
  int64_t window_s = 300;
  bool decimal = false;    // GB and °F instead of GiB and °C
  int64_t paused_ms = -1;  // for how long; negative: not
  bool help = false;
  std::string message;  // in place of the line of keys
};

struct TopSize {
  size_t columns = 80;
  size_t rows = 24;  // 0: as many as there are, without a line of keys: for a file
  bool ascii = false;
  int64_t now_ms = 0;        // wall time
  int64_t utc_offset_s = 0;  // of the local time that is shown
};

// A line is no wider than `size.columns`, and there are no more lines than `size.rows`.
std::vector<TopLine> TopScreen(const TopNode& node, const TopTyped& typed, const TopSize& size);
// One line a node.
std::vector<TopLine> TopNodesScreen(std::span<const TopNode* const> nodes, const TopTyped& typed,
                                    const TopSize& size);

// Rows that can be selected, in the order of the screen: positions in node.gpus, engines, jobs or events.
std::vector<size_t> TopRows(const TopNode& node, const TopTyped& typed);

// Lines without styles, without blanks at their ends.
std::string TopPlainText(const std::vector<TopLine>& lines);

}  // namespace gpulens
