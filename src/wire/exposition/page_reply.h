// What a reader process of pages answers: a page without its text, in bytes that are checked and not parsed.
// EncodePage is on the side of the process, DecodedPage on that of the agent.
//
// The bytes are those of one machine and one program: native numbers, each text after its length. A reply has
// the outcome, the report, and of a page that was read the numbers of all cells; when series or families
// changed, before them the shape: families, then series with their labels and cells. A reply never names ids
// or slots: a cell is its place in the shape. So a broken process cannot name what is not there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "wire/exposition/exposition_page.h"

namespace gpulens {

// Why a page could not be read, or not whole.
enum class PageFault : uint8_t {
  kNone,
  kNotGzip,   // it is packed, and cannot be unpacked
  kTooLarge,  // in bytes; nothing was read
  kSamples,   // more than the limit; nothing was read
  kFamilies,  // more than the limit; nothing was read
  kCut,       // cut, or no line is a sample: what could be read was read
};

// The outcome of reading one page.
struct PageReading {
  PageFault fault = PageFault::kNone;
  std::string detail;     // of a fault: a sentence
  size_t page_bytes = 0;  // unpacked

  bool read() const noexcept { return fault == PageFault::kNone || fault == PageFault::kCut; }
  Status status() const;
};

// An answer of a target.
struct PageBody {
  std::string_view bytes;
  ExpositionFormat format = ExpositionFormat::kText004;
  bool gzip = false;
};

// Reads an answer of at most `most` bytes, packed or not, into `page`. `unpacked`: room to unpack, which is
// kept from page to page.
PageReading ReadPage(const PageBody& body, size_t most, std::string& unpacked, ScrapedPage& page);

// Writes replies about one page, each after a ReadPage of it. Not thread-safe.
class PageEncoder {
 public:
  // `page` has these limits, and outlives the encoder.
  PageEncoder(const ScrapedPage& page, const ExpositionLimits& limits);
  // Replaces `out`. Every reply must reach the other side: the shape is sent when it changed.
  void Encode(const PageReading& reading, std::string& out);

 private:
  void AddShape(std::string& out);
  void AddSeries(uint32_t id, const std::vector<uint32_t>& families, std::string& out);
  void AddNumbers(std::string& out) const;

  const ScrapedPage& page_;
  const size_t most_bytes_;
  bool sent_ = false;
  uint64_t generation_ = 0;
  std::vector<uint32_t> series_;  // ids in the order of the shape
  std::vector<uint32_t> slots_;   // of all cells in the order of the shape
  std::vector<PageLabel> labels_;
  std::vector<PageCell> cells_;
};

// The most bytes of a reply about a page with these limits.
size_t MostReplyBytes(const ExpositionLimits& limits) noexcept;

// The page of the replies of one process after another. Series keep their ids when a new process reads the
// same ones.
class DecodedPage final : public ParsedPage {
 public:
  // Ignores timestamps of samples unless `honor_timestamps`.
  explicit DecodedPage(const ExpositionLimits& limits = {}, bool honor_timestamps = true);
  ~DecodedPage() override;
  DecodedPage(const DecodedPage&) = delete;
  DecodedPage& operator=(const DecodedPage&) = delete;

  // Checks a reply and takes it over. kDataLoss: no PageEncoder wrote it, or its limits were others; nothing
  // changed, and the process that sent it is not to be believed further. Linear in the size of the reply; a
  // reply without a shape does not allocate, unless the page has exemplars.
  Result<PageReading> Update(std::string_view reply);

  const ExpositionReport& report() const noexcept override { return report_; }
  std::span<const BadExample> bad_examples() const noexcept override { return bad_examples_; }
  std::span<const double> values() const noexcept override { return values_; }
  bool seen(uint32_t slot) const noexcept override;
  std::optional<int64_t> timestamp_ms(uint32_t slot) const noexcept override;
  bool has_timestamps() const noexcept override { return timed_; }
  std::span<const PageExemplar> exemplars() const noexcept override { return exemplars_; }
  void ExemplarLabels(const PageExemplar& exemplar, std::vector<PageLabel>& out) const override;
  std::span<const ExpositionFamily> families() const noexcept override { return families_; }
  uint64_t generation() const noexcept override { return generation_; }
  std::span<const uint32_t> appeared() const noexcept override { return appeared_; }
  std::span<const uint32_t> vanished() const noexcept override { return vanished_; }
  std::span<const uint32_t> reshaped() const noexcept override { return reshaped_; }
  uint32_t family_of(uint32_t series) const noexcept override { return series_[series].family; }
  void Labels(uint32_t series, std::vector<PageLabel>& out) const override;
  void Cells(uint32_t series, std::vector<PageCell>& out) const override;
  std::string BoundText(uint32_t slot) const override;
  void Series(std::vector<uint32_t>& out) const override;

 private:
  struct Entry {
    uint64_t print[2] = {};  // of its labels in any order
    uint32_t family = 0;
    uint32_t labels_at = 0;         // in shape_
    uint32_t first = 0, cells = 0;  // in cells_
    bool alive = false;
  };
  struct Cell {
    PageCell cell;
    uint32_t bound_at = 0;  // in shape_; 0: no bound
  };
  struct Draft;
  class Decoder;

  void ForgetChanges();
  void TakeShape(Draft& draft);
  // Returns for each present family whether its series go on; `index`: of the shape's families.
  std::vector<bool> TakeFamilies(std::vector<ExpositionFamily>& now, std::vector<uint32_t>& index);
  // Gives the cells of an entry slots, those of `old` where they are the same.
  bool TakeCells(std::span<Cell> now, std::span<const Cell> old);
  void TakeNumbers(const Draft& draft);

  const ExpositionLimits limits_;
  const bool honors_timestamps_;
  std::string shape_;  // of the last reply that had one: labels and bounds are read from it
  std::vector<ExpositionFamily> families_;
  std::vector<Entry> series_;
  std::vector<Cell> cells_;  // in the order of the shape
  std::vector<double> values_;
  std::vector<uint8_t> states_;
  std::vector<int64_t> timestamps_;
  std::vector<uint32_t> cell_of_;  // slot to its place in cells_
  std::vector<uint32_t> free_ids_, freed_ids_, free_slots_, freed_slots_;
  std::vector<uint32_t> appeared_, vanished_, reshaped_;
  ExpositionReport report_;
  std::vector<BadExample> bad_examples_;
  std::vector<PageExemplar> exemplars_;
  std::string exemplar_text_;
  uint64_t generation_ = 0;
  bool timed_ = false, current_ = false;
};

}  // namespace gpulens
