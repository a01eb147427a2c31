// A target's page, read again and again. The first time every line is parsed and series are made; from
// then on the bytes between the numbers are compared with those of the last page and only the numbers
// are read. Lines that moved are found by hash, and only lines never seen before are parsed.
//
// Whatever was on the page before, the result is that of a fresh read of the last page alone.
// It knows nothing of HTTP, of metrics of ours, nor of what values mean.
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
  // Without `honor_timestamps`, timestamps of samples are ignored.
  explicit ScrapedPage(const ExpositionLimits& limits = {}, bool honor_timestamps = true);
  ~ScrapedPage();
  ScrapedPage(const ScrapedPage&) = delete;
  ScrapedPage& operator=(const ScrapedPage&) = delete;

  // Reads the next page. In time linear in its size, whatever it is.
  //   kExhausted: above a limit (report() says which); nothing was read, and nothing changed.
  //   kDataLoss: OpenMetrics without its end, or nothing but lines that make no sense. What could be
  //   read is there; what is missing on such a page has not vanished, it is only not seen().
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

  // By slot. Slots of no living series and those not seen hold no meaning.
  std::span<const double> values() const noexcept;
  // Whether the last Update read this slot.
  bool seen(uint32_t slot) const noexcept;
  // The timestamp that the page gives the sample; mostly none.
  std::optional<int64_t> timestamp_ms(uint32_t slot) const noexcept;
  // Whether it may say so of any slot.
  bool has_timestamps() const noexcept;
  std::span<const PageExemplar> exemplars() const noexcept;
  void ExemplarLabels(const PageExemplar& exemplar, std::vector<PageLabel>& out) const;

  // By family index; places that are not `alive` are free.
  std::span<const ExpositionFamily> families() const noexcept;

  // Changes whenever series or families came, went or changed.
  uint64_t generation() const noexcept;
  // Series ids: what the last Update made, ended, or gave other cells. A series whose family changed
  // its type ends, and another one appears.
  std::span<const uint32_t> appeared() const noexcept;
  std::span<const uint32_t> vanished() const noexcept;
  std::span<const uint32_t> reshaped() const noexcept;

  // Of a living series. These parse what is kept as text: for when a series appears, not for each scrape.
  uint32_t family_of(uint32_t series) const noexcept;
  // In the order of the page, without `le` and `quantile`. Clears `out`.
  void Labels(uint32_t series, std::vector<PageLabel>& out) const;
  // By role, then by bound. Clears `out`.
  void Cells(uint32_t series, std::vector<PageCell>& out) const;
  // The bound of a cell of a living series as the page wrote it: "1", "1.0", "5e-1". Empty: it has none.
  std::string BoundText(uint32_t slot) const;
  // Every living series. Clears `out`.
  void Series(std::vector<uint32_t>& out) const;

  // How many updates needed no more than numbers, and how many lines the others had to parse.
  struct Work {
    uint64_t steady_updates = 0, parsed_lines = 0;
  };
  const Work& work() const noexcept;
  // What is in use; text memory that was reserved and never touched is not counted.
  size_t memory_bytes() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpulens
