// The memory of ScrapedPage: slots for samples, the series they belong to, and the bytes that stand
// before each number. Internal to exposition_page.cc.
//
// These bytes (a *literal*) are kept in two pieces, up to the brace and from there on: samples of one
// family share the first, and equal label sets of several families the second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "wire/exposition/exposition_families.h"
#include "wire/exposition/exposition_hash.h"

namespace gpulens::exposition_internal {

// Equal for equal label sets in any order, without the bound and without empty values, which
// Prometheus takes as absent. 128 keyed bits stand for the set itself: two sets that meet by chance
// or by an attacker's work are not to be expected.
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
  // Where the next Append puts its bytes goes on from where the last one ended, unless there was a Keep.
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
  // Behind the literal when `p` begins with it; nullptr otherwise.
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
  // Keeps the texts anew when much of the memory may no longer be in use.
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

}  // namespace gpulens::exposition_internal
