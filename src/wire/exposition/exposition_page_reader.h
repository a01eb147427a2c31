// The reader of ScrapedPage: compares with the last page, and resynchronizes where a line differs. Internal
// to exposition_page.cc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "wire/exposition/exposition_page.h"
#include "wire/exposition/exposition_parser.h"

namespace gpulens {

// Index of ids by a 32-bit hash; the caller keeps what the ids refer to. Open addressing without
// tombstones: erasing moves the followers back. A cell also holds 8 bits of the hash, so that other ids on
// the way are mostly skipped without comparing them.
class IdIndex {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  static constexpr uint32_t kMaxIds = 1u << 24;

  // The id for which `equal(id)` holds among those of this hash and its neighbours; kNone otherwise.
  template <class Equal>
  uint32_t Find(uint32_t hash, Equal equal) const {
    if (used_ == 0) return kNone;
    for (size_t at = Home(hash);; at = Next(at)) {
      uint32_t cell = cells_[at];
      if (cell == kFree) return kNone;
      if ((cell ^ hash) << kIdBits == 0 && equal(cell >> kTagBits)) return cell >> kTagBits;
    }
  }

  // `hash_of(id)` gives the hash of any id inside.
  template <class HashOf>
  void Insert(uint32_t id, HashOf hash_of) {
    if ((used_ + 1) * 4 > cells_.size() * 3) Grow((used_ + 1) * 2, hash_of);
    Put(hash_of(id), id);
    ++used_;
  }

  template <class HashOf>
  void Erase(uint32_t id, HashOf hash_of) {
    size_t hole = Home(hash_of(id));
    while (cells_[hole] >> kTagBits != id) hole = Next(hole);
    for (size_t at = Next(hole); cells_[at] != kFree; at = Next(at)) {
      size_t home = Home(hash_of(cells_[at] >> kTagBits));
      size_t from_home = at >= home ? at - home : at + cells_.size() - home;
      size_t from_hole = at >= hole ? at - hole : at + cells_.size() - hole;
      if (from_home < from_hole) continue;
      cells_[hole] = cells_[at];
      hole = at;
    }
    cells_[hole] = kFree;
    --used_;
  }

  // Makes room for `count` ids at once.
  template <class HashOf>
  void Reserve(size_t count, HashOf hash_of) {
    if (count * 4 > cells_.size() * 3) Grow(count * 3 / 2, hash_of);
  }

  void Clear() noexcept {
    cells_.clear();
    used_ = 0;
  }
  size_t memory_bytes() const noexcept { return cells_.capacity() * sizeof(uint32_t); }

 private:
  static constexpr uint32_t kTagBits = 8, kIdBits = 24;
  static constexpr uint32_t kFree = 0xFFFFFFFF;  // so the last id is never given out

  size_t Home(uint32_t hash) const noexcept {
    return static_cast<size_t>((static_cast<uint64_t>(hash) * cells_.size()) >> 32);
  }
  size_t Next(size_t at) const noexcept { return at + 1 == cells_.size() ? 0 : at + 1; }
  void Put(uint32_t hash, uint32_t id) {
    size_t at = Home(hash);
    while (cells_[at] != kFree) at = Next(at);
    cells_[at] = id << kTagBits | (hash & 0xFF);
  }
  template <class HashOf>
  void Grow(size_t size, HashOf hash_of) {
    std::vector<uint32_t> old(size < 16 ? 16 : size, kFree);
    old.swap(cells_);
    for (uint32_t cell : old) {
      if (cell != kFree) Put(hash_of(cell >> kTagBits), cell >> kTagBits);
    }
  }

  std::vector<uint32_t> cells_;
  size_t used_ = 0;
};

}  // namespace gpulens

namespace gpulens::exposition_internal {

// The memory of ScrapedPage: slots for samples, the series they belong to, and the bytes before each number.
// These bytes (a *literal*) are kept in two pieces, up to the brace and from there on: samples of one family
// share the first, and equal label sets of several families the second.

// Equal for equal label sets in any order, without the bound and without empty values, which
// Prometheus treats as absent. 128 keyed bits represent the set: collisions are not expected, neither by
// chance nor by an attack.
struct LabelPrint {
  uint64_t a = 0, b = 0;
  bool operator==(const LabelPrint&) const = default;
};
LabelPrint PrintLabels(const std::vector<LabelView>& labels, size_t bound_label, const HashKey& key) noexcept;

// Bytes of a page, and pieces of which each is kept once.
class TextStore {
 public:
  struct Place {
    uint32_t offset, length;
  };
  struct Literal {
    uint32_t head = 0, tail = 0;  // pieces: their size in four bytes, then the text
  };

  explicit TextStore(const HashKey& key) : key_(key) { Clear(); }

  void Clear();
  // Appends bytes and returns their offset. They follow those of the last Append unless Keep was called
  // since.
  uint32_t Append(std::string_view bytes);
  Literal Keep(std::string_view literal);

  std::string_view Text(Place place) const noexcept { return {bytes_.data() + place.offset, place.length}; }
  std::string_view Piece(uint32_t piece) const noexcept {
    return {bytes_.data() + piece + sizeof(uint32_t), SizeOf(bytes_.data() + piece)};
  }
  uint32_t Hash(const Literal& literal) const noexcept {
    return Hash(Piece(literal.head), Piece(literal.tail));
  }
  uint32_t Hash(std::string_view literal) const noexcept;
  bool Equal(const Literal& kept, std::string_view literal) const noexcept;
  // Returns the end of the literal when `p` begins with it; nullptr otherwise.
  const char* Match(const Literal& literal, const char* p, const char* end) const noexcept {
    p = MatchPiece(bytes_.data() + literal.head, p, end);
    return p == nullptr ? p : MatchPiece(bytes_.data() + literal.tail, p, end);
  }
  // Bytes of the page and pieces alike.
  size_t size() const noexcept { return bytes_.size(); }
  size_t memory_bytes() const noexcept { return bytes_.size() + pieces_.memory_bytes(); }
  void Tighten();

 private:
  static constexpr uint32_t kAlign = 8;

  static uint32_t SizeOf(const char* piece) noexcept {
    uint32_t size;
    std::memcpy(&size, piece, sizeof size);
    return size;
  }
  static const char* MatchPiece(const char* piece, const char* p, const char* end) noexcept {
    const size_t size = SizeOf(piece);
    if (static_cast<size_t>(end - p) < size || std::memcmp(p, piece + sizeof(uint32_t), size) != 0)
      return nullptr;
    return p + size;
  }
  uint32_t Hash(std::string_view head, std::string_view tail) const noexcept {
    return static_cast<uint32_t>(HashBytes(tail, HashBytes(head, 0, key_), key_) >> 32);
  }
  uint32_t HashPiece(std::string_view piece) const noexcept {
    return static_cast<uint32_t>(HashBytes(piece, key_.b, key_) >> 32);
  }
  uint32_t KeepPiece(std::string_view piece);

  HashKey key_;
  std::string bytes_;
  IdIndex pieces_;  // by offset / kAlign
  uint32_t last_head_ = 0;
};

// Slots and series keep their index while they live; an index is not given out again in the change in
// which it became free. The columns are public for the loop of the steady scrape.
class SeriesStore {
 public:
  static constexpr uint32_t kNone = IdIndex::kNone;
  enum State : uint8_t {
    kLive = 1,
    kSeen = 2,       // on the last page
    kDuplicate = 4,  // repeats an earlier line: read over, in no series
    kTimed = 8,      // has a timestamp
    kRoleShift = 4,  // the SampleRole is in the bits above
  };
  using Place = TextStore::Place;
  struct Series {
    LabelPrint print;
    uint32_t first = kNone;  // a cell; the others follow by `next`
    uint32_t family : 29 = 0;
    uint32_t alive : 1 = false, fresh : 1 = false, touched : 1 = false;
  };

  std::vector<TextStore::Literal> literals;  // all bytes of the line before its number
  std::vector<double> values;
  std::vector<uint8_t> states;
  std::vector<uint32_t> next;
  std::vector<Series> series;
  std::vector<uint32_t> appeared, vanished, reshaped;

  explicit SeriesStore(FamilyTable& families) : families_(families), key_(ProcessHashKey()), text_(key_) {}

  // Empties the lists of what changed.
  void ForgetChanges();
  // The same, forgets who was seen, and frees what vanished before.
  void BeginChange();
  void Reserve(size_t slots);
  void RetireFamilies(const std::vector<uint32_t>& retired);
  // Ends a change: what was not seen vanishes, unless it is to be kept.
  void Sweep(bool keep_unseen);
  // Copies the texts when much of the memory may no longer be in use.
  void Compact(std::vector<Place>& texts);

  // The first call makes the index: a page that never changes does without it.
  uint32_t FindLiteral(std::string_view literal);
  uint32_t FindSeries(uint32_t family, const LabelPrint& print) const noexcept;
  uint32_t FindCell(uint32_t of_series, SampleRole role, double bound) const noexcept;
  uint32_t AddSeries(uint32_t family, const LabelPrint& print);
  uint32_t AddCell(uint32_t to_series, SampleRole role, double bound, std::string_view literal);
  uint32_t AddDuplicate(std::string_view literal);
  void Rename(uint32_t slot, std::string_view literal);
  uint32_t AppendText(std::string_view bytes) { return text_.Append(bytes); }

  const TextStore& text() const noexcept { return text_; }
  std::string LiteralOf(uint32_t slot) const;
  SampleRole role(uint32_t slot) const noexcept {
    return static_cast<SampleRole>(states[slot] >> kRoleShift);
  }
  double bound(uint32_t slot) const noexcept { return bounds_[slot]; }
  size_t live_slots() const noexcept { return live_; }
  size_t memory_bytes() const noexcept;

 private:
  uint32_t NewSlot(std::string_view literal);
  uint32_t SeriesHash(uint32_t family, const LabelPrint& print) const noexcept {
    return static_cast<uint32_t>(MixWords(print.b ^ key_.a, family ^ key_.c) >> 32);
  }
  uint32_t CellHash(uint32_t of_series, SampleRole role, double bound) const noexcept;
  void Detach(uint32_t slot);
  void Relink();
  auto LiteralHashes() const {
    return [this](uint32_t slot) { return text_.Hash(literals[slot]); };
  }
  auto CellHashes() const {
    return [this](uint32_t slot) { return CellHash(owners_[slot], role(slot), bounds_[slot]); };
  }
  auto SeriesHashes() const {
    return [this](uint32_t id) { return SeriesHash(series[id].family, series[id].print); };
  }

  FamilyTable& families_;
  HashKey key_;
  std::vector<double> bounds_;
  std::vector<uint32_t> owners_;  // slot to series
  TextStore text_;
  size_t packed_bytes_ = 0, packed_slots_ = 0;  // after the last Compact that did something
  IdIndex by_literal_, by_cell_, by_print_;
  std::vector<uint32_t> free_slots_, freed_slots_, free_series_, freed_series_;
  size_t live_ = 0;
  bool literals_known_ = false;  // by_literal_ is in use
  bool unlinked_ = false;        // a cell was taken out since the last Relink
};

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
  // Returns the end of the text when `p` begins with it; nullptr otherwise.
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
