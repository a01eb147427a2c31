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
  uint32_t text_offset = 0, text_length = 0;  // for ParsedPage::ExemplarLabels
};

// What a page holds, without its text. A *series* is one label set of one family: a gauge or counter has
// one cell, a histogram one per bucket, sum, count and created. Series ids and slots keep their meaning while
// the series lives and are reused only in a later page than the one that reports the end.
//
// A duplicate (the same series and role again on one page, labels in any order, "1" and "1.0" the same
// bound) is counted and passed over: the first one wins.
//
// One thread at a time. Spans and views hold until the next page.
class ParsedPage {
 public:
  virtual ~ParsedPage() = default;

  // About the last page. Bad lines keep their counts while they stay on the page.
  virtual const ExpositionReport& report() const noexcept = 0;
  struct BadExample {
    size_t line;
    LineError error;
    std::string excerpt;  // at most 80 bytes, as they came
  };
  // The first few bad lines.
  static constexpr size_t kBadExamples = 8;
  virtual std::span<const BadExample> bad_examples() const noexcept = 0;

  // Values by slot. Those of slots that are unused or were not seen are meaningless.
  virtual std::span<const double> values() const noexcept = 0;
  // Whether this slot was on the last page.
  virtual bool seen(uint32_t slot) const noexcept = 0;
  // The timestamp that the page gives the sample; usually none.
  virtual std::optional<int64_t> timestamp_ms(uint32_t slot) const noexcept = 0;
  // Whether any slot may have a timestamp.
  virtual bool has_timestamps() const noexcept = 0;
  virtual std::span<const PageExemplar> exemplars() const noexcept = 0;
  virtual void ExemplarLabels(const PageExemplar& exemplar, std::vector<PageLabel>& out) const = 0;

  // Families by index; those that are not `alive` are unused.
  virtual std::span<const ExpositionFamily> families() const noexcept = 0;

  // Changes whenever series or families came, went or changed.
  virtual uint64_t generation() const noexcept = 0;
  // Series ids: what the last page made, ended, or gave other cells. A series whose family changed its type
  // ends, and another one appears.
  virtual std::span<const uint32_t> appeared() const noexcept = 0;
  virtual std::span<const uint32_t> vanished() const noexcept = 0;
  virtual std::span<const uint32_t> reshaped() const noexcept = 0;

  // Properties of a living series. These parse bytes: for use when a series appears, not at each scrape.
  virtual uint32_t family_of(uint32_t series) const noexcept = 0;
  // Replaces `out` with the labels in the order of the page, without `le` and `quantile`.
  virtual void Labels(uint32_t series, std::vector<PageLabel>& out) const = 0;
  // Replaces `out` with the cells by role, then by bound.
  virtual void Cells(uint32_t series, std::vector<PageCell>& out) const = 0;
  // The bound of a cell of a living series as the page wrote it: "1", "1.0", "5e-1". Empty: it has none.
  virtual std::string BoundText(uint32_t slot) const = 0;
  // Replaces `out` with every living series.
  virtual void Series(std::vector<uint32_t>& out) const = 0;
};

// The page as text. An Update of a page whose lines are those of the last does not allocate.
class ScrapedPage final : public ParsedPage {
 public:
  // Ignores timestamps of samples unless `honor_timestamps`.
  explicit ScrapedPage(const ExpositionLimits& limits = {}, bool honor_timestamps = true);
  ~ScrapedPage() override;
  ScrapedPage(const ScrapedPage&) = delete;
  ScrapedPage& operator=(const ScrapedPage&) = delete;

  // Reads the next page. In time linear in its size, whatever it is.
  //   kExhausted: above a limit, which report() names; nothing was read, and nothing changed.
  //   kDataLoss: OpenMetrics without its end, or no valid line. Valid lines were read; series that are
  //   missing on such a page have not vanished, they are only not seen().
  Status Update(std::string_view body, ExpositionFormat format);

  const ExpositionReport& report() const noexcept override;
  std::span<const BadExample> bad_examples() const noexcept override;
  std::span<const double> values() const noexcept override;
  bool seen(uint32_t slot) const noexcept override;
  std::optional<int64_t> timestamp_ms(uint32_t slot) const noexcept override;
  bool has_timestamps() const noexcept override;
  std::span<const PageExemplar> exemplars() const noexcept override;
  void ExemplarLabels(const PageExemplar& exemplar, std::vector<PageLabel>& out) const override;
  std::span<const ExpositionFamily> families() const noexcept override;
  uint64_t generation() const noexcept override;
  std::span<const uint32_t> appeared() const noexcept override;
  std::span<const uint32_t> vanished() const noexcept override;
  std::span<const uint32_t> reshaped() const noexcept override;
  uint32_t family_of(uint32_t series) const noexcept override;
  void Labels(uint32_t series, std::vector<PageLabel>& out) const override;
  void Cells(uint32_t series, std::vector<PageCell>& out) const override;
  std::string BoundText(uint32_t slot) const override;
  void Series(std::vector<uint32_t>& out) const override;

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
