// The page of one target, read repeatedly. The first time every line is parsed and series are made; from
// then on the bytes between the numbers are compared with those of the last page and only the numbers
// are read. Lines that moved are found by hash, and only new lines are parsed.
//
// The result equals that of a fresh read of the last page alone. Independent of HTTP, of native metrics and
// of the meaning of values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "wire/exposition/exposition_format.h"
#include "wire/exposition/exposition_line.h"
#include "wire/exposition/exposition_parser.h"

namespace gpulens {

namespace exposition_internal {
class PageReader;
}

// One number of a series.
struct PageCell {
  uint32_t slot = 0;  // index into values()
  SampleRole role = SampleRole::kValue;
  double bound = 0;  // kBucket: its `le`. kQuantile: the quantile
};

struct PageLabel {
  std::string name, value;
  bool operator==(const PageLabel&) const = default;
};

struct PageExemplar {
  uint32_t slot = 0;
  double value = 0;
  std::optional<int64_t> timestamp_ms;
  uint32_t text_offset = 0, text_length = 0;  // for ScrapedPage::ExemplarLabels
};

// A *series* is one label set of one family: a gauge or counter has one cell, a histogram one per
// bucket, sum, count and created. Series ids and slots keep their meaning while the series lives and
// are reused only in a later Update than the one that reports the end.
//
// A duplicate (the same series and role again on one page, labels in any order, "1" and "1.0" the same
// bound) is counted and passed over: the first one wins.
//
// One thread at a time. Spans and views hold until the next Update. An Update of a page whose lines
// are those of the last does not allocate.
class ScrapedPage {
 public:
  // Ignores timestamps of samples unless `honor_timestamps`.
  explicit ScrapedPage(const ExpositionLimits& limits = {}, bool honor_timestamps = true);
  ~ScrapedPage();
  ScrapedPage(const ScrapedPage&) = delete;
  ScrapedPage& operator=(const ScrapedPage&) = delete;

  // Reads the next page. In time linear in its size, whatever it is.
  //   kExhausted: above a limit, which report() names; nothing was read, and nothing changed.
  //   kDataLoss: OpenMetrics without its end, or no valid line. Valid lines were read; series that are
  //   missing on such a page have not vanished, they are only not seen().
  Status Update(std::string_view body, ExpositionFormat format);

  // About the last page. Bad lines keep their counts while they stay on the page.
  const ExpositionReport& report() const noexcept;
  struct BadExample {
    size_t line;
    LineError error;
    std::string excerpt;  // at most 80 bytes, as they came
  };
  // The first few bad lines.
  static constexpr size_t kBadExamples = 8;
  std::span<const BadExample> bad_examples() const noexcept;

  // Values by slot. Those of slots that are unused or were not seen are meaningless.
  std::span<const double> values() const noexcept;
  // Whether the last Update read this slot.
  bool seen(uint32_t slot) const noexcept;
  // The timestamp that the page gives the sample; usually none.
  std::optional<int64_t> timestamp_ms(uint32_t slot) const noexcept;
  // Whether any slot may have a timestamp.
  bool has_timestamps() const noexcept;
  std::span<const PageExemplar> exemplars() const noexcept;
  void ExemplarLabels(const PageExemplar& exemplar, std::vector<PageLabel>& out) const;

  // Families by index; those that are not `alive` are unused.
  std::span<const ExpositionFamily> families() const noexcept;

  // Changes whenever series or families came, went or changed.
  uint64_t generation() const noexcept;
  // Series ids: what the last Update made, ended, or gave other cells. A series whose family changed
  // its type ends, and another one appears.
  std::span<const uint32_t> appeared() const noexcept;
  std::span<const uint32_t> vanished() const noexcept;
  std::span<const uint32_t> reshaped() const noexcept;

  // Properties of a living series. These parse text: for use when a series appears, not at each scrape.
  uint32_t family_of(uint32_t series) const noexcept;
  // Replaces `out` with the labels in the order of the page, without `le` and `quantile`.
  void Labels(uint32_t series, std::vector<PageLabel>& out) const;
  // Replaces `out` with the cells by role, then by bound.
  void Cells(uint32_t series, std::vector<PageCell>& out) const;
  // The bound of a cell of a living series as the page wrote it: "1", "1.0", "5e-1". Empty: it has none.
  std::string BoundText(uint32_t slot) const;
  // Replaces `out` with every living series.
  void Series(std::vector<uint32_t>& out) const;

  // Number of updates that read numbers only, and of lines that the others parsed.
  struct Work {
    uint64_t steady_updates = 0, parsed_lines = 0;
  };
  const Work& work() const noexcept;
  // Memory in use, without text memory that was reserved and never touched.
  size_t memory_bytes() const noexcept;

 private:
  const std::unique_ptr<exposition_internal::PageReader> reader_;
  const bool honors_timestamps_;
  bool current_ = false;  // the last Update read a page
};

}  // namespace gpulens
