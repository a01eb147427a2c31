// How ScrapedPage reads: the fast comparison with the last page, and the way back to it where a line
// is another one. Internal to exposition_page.cc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/exposition/exposition_page.h"
#include "wire/exposition/exposition_series.h"

namespace gpulens::exposition_internal {

// One thread at a time.
class PageReader {
 public:
  explicit PageReader(const ExpositionLimits& limits)
      : line(ExpositionFormat::kText004, limits), families(2 * limits.families), store(families) {
    // Until what vanished is swept, twice as many slots and families may be in use.
    line.limits.samples = std::min<size_t>(limits.samples, IdIndex::kMaxIds / 4);
  }

  // Reads a page of allowed size.
  void Read(std::string_view body, ExpositionFormat format);
  // Instead of Read when there is no page to read: nothing changed.
  void BeginNothing();

  LineReader line;
  FamilyTable families;
  SeriesStore store;
  ExpositionReport report;
  Status within_limits;  // of the last page; when it was not, nothing was read
  std::vector<ScrapedPage::BadExample> bad_examples;
  std::vector<PageExemplar> exemplars;
  std::string exemplar_text;
  std::vector<int64_t> timestamps;
  ScrapedPage::Work work;
  uint64_t generation = 0;

  // Some slot may carry a timestamp.
  bool timed() const noexcept { return timed_; }
  size_t memory_bytes() const noexcept;

 private:
  static constexpr uint32_t kText = 1u << 31;  // in order_: an index into texts_, not a slot

  // Bytes between samples: comments, blank lines, lines that were not understood.
  struct Text {
    SeriesStore::Place place;
    bool special;  // to be read again whenever the page changed: bad lines and "# EOF"
  };
  // A place in the new page and in the remembered one.
  struct Cursor {
    const char* at;
    size_t index;
  };

  bool ReadUnchanged(Cursor& cursor);
  // Behind the text when `p` begins with it; nullptr otherwise.
  const char* MatchText(const Text& text, const char* p) const noexcept;
  void ReadChanged(Cursor cursor);
  bool ReadNonsense();
  void BeginReport();
  bool MustRestart(const Cursor& cursor) const;
  void Adopt(size_t count);
  void ReadOneLine(Cursor& cursor);
  bool MatchRemembered(Cursor& cursor);
  bool FindMoved(std::string_view text, Cursor& cursor);
  void ParseLine(std::string_view text, size_t with_newline);
  void PlaceSample(std::string_view text, size_t with_newline);
  bool PlaceNextBucket(std::string_view text);
  void RememberBucket(std::string_view literal, uint32_t series);
  void PlaceCell(uint32_t series, SampleRole role, double bound, std::string_view literal, double value);
  void Finish();
  const char* TakeNumber(uint32_t slot, const char* start, const char* number);
  const char* TakeTail(uint32_t slot, const char* start, const char* tail);
  void SetTail(uint32_t slot);
  void AddText(std::string_view bytes, bool special);
  void CountBad(std::string_view text, LineError error);
  void AddBad(std::string_view text, size_t with_newline, LineError error);
  void Accept(uint32_t slot);
  std::string_view GuessLiteral(std::string_view text) const;

  std::vector<uint32_t> order_, next_order_;  // the page: slots and texts
  std::vector<Text> texts_, next_texts_;
  std::vector<uint32_t> positions_;  // slot to its place in order_
  std::vector<SeriesStore::Place> places_;
  // The bucket read last: the next line is mostly the same but for the value of its `le`.
  struct Bucket {
    const char *start = nullptr, *bound = nullptr, *behind = nullptr, *end = nullptr;  // of its literal
    uint32_t series = 0;
  };
  Bucket bucket_;
  const char* begin_ = nullptr;
  const char* end_ = nullptr;
  const char* counted_to_ = nullptr;  // lines before it are in line_number_
  size_t line_number_ = 1;
  uint64_t families_version_ = 0;
  bool remembered_ = false;  // a page was read in this format
  bool first_ = false;       // nothing is known that could have moved
  bool timed_ = false;       // some slot may carry a timestamp
  bool ended_ = false;       // "# EOF" was read
  bool open_text_ = false;   // the last of next_texts_ was made now and may be extended
};

}  // namespace gpulens::exposition_internal
