#include "wire/exposition/exposition_page_reader.h"

#include <bit>
#include <limits>

namespace gpulens::exposition_internal {
namespace {

// Below this much waste, moving the text is not worth it.
constexpr size_t kSlackBytes = 64 << 10;
constexpr size_t kManyChanges = 1024;

template <class T>
size_t Bytes(const std::vector<T>& column) noexcept {
  return column.capacity() * sizeof(T);
}

template <class T>
void Tighten(std::vector<T>& column) {
  if (column.capacity() > column.size() + column.size() / 8 + 64) column.shrink_to_fit();
}

}  // namespace

void TextStore::Clear() {
  // The empty piece, which free slots have.
  bytes_.assign(kAlign, '\0');
  pieces_.Clear();
  last_head_ = 0;
}

uint32_t TextStore::Append(std::string_view bytes) {
  bytes_.append(bytes);
  return static_cast<uint32_t>(bytes_.size() - bytes.size());
}

uint32_t TextStore::KeepPiece(std::string_view piece) {
  if (piece.empty()) return 0;
  const uint32_t hash = HashPiece(piece);
  uint32_t known = pieces_.Find(hash, [&](uint32_t id) { return Piece(id * kAlign) == piece; });
  if (known != IdIndex::kNone) return known * kAlign;
  bytes_.resize((bytes_.size() + kAlign - 1) / kAlign * kAlign);
  const uint32_t size = static_cast<uint32_t>(piece.size());
  const uint32_t at = Append({reinterpret_cast<const char*>(&size), sizeof size});
  Append(piece);
  // Beyond 128 MiB of text, pieces are not found again and are kept twice.
  if (at / kAlign < IdIndex::kMaxIds - 1) {
    pieces_.Insert(at / kAlign, [this](uint32_t id) { return HashPiece(Piece(id * kAlign)); });
  }
  return at;
}

namespace {

size_t HeadSize(std::string_view literal) noexcept {
  size_t brace = literal.find('{');
  return brace == std::string_view::npos ? literal.size() : brace + 1;
}

}  // namespace

TextStore::Literal TextStore::Keep(std::string_view literal) {
  const std::string_view head = literal.substr(0, HeadSize(literal));
  if (Piece(last_head_) != head) last_head_ = KeepPiece(head);
  return {last_head_, KeepPiece(literal.substr(head.size()))};
}

uint32_t TextStore::Hash(std::string_view literal) const noexcept {
  const size_t head = HeadSize(literal);
  return Hash(literal.substr(0, head), literal.substr(head));
}

bool TextStore::Equal(const Literal& kept, std::string_view literal) const noexcept {
  const std::string_view head = Piece(kept.head);
  return literal.starts_with(head) && literal.substr(head.size()) == Piece(kept.tail);
}

void TextStore::Tighten() {
  if (bytes_.capacity() > bytes_.size() + bytes_.size() / 8 + 64) bytes_.shrink_to_fit();
}

LabelPrint PrintLabels(const std::vector<LabelView>& labels, size_t bound_label,
                       const HashKey& key) noexcept {
  LabelPrint print;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (i == bound_label || labels[i].value.empty()) continue;
    uint64_t name = HashBytes(labels[i].name, key.c, key);
    print.a += HashBytes(labels[i].value, name, key);
    print.b += HashBytes(labels[i].value, ~name * key.a, key);
  }
  return print;
}

void SeriesStore::ForgetChanges() {
  for (uint32_t id : appeared) series[id].fresh = false;
  for (uint32_t id : reshaped) series[id].touched = false;
  // After a first page they are as long as the page.
  for (std::vector<uint32_t>* list : {&appeared, &vanished, &reshaped}) {
    if (list->size() > kManyChanges) std::vector<uint32_t>().swap(*list);
    list->clear();
  }
}

void SeriesStore::BeginChange() {
  ForgetChanges();
  for (uint8_t& state : states) state &= static_cast<uint8_t>(~kSeen);
  free_slots_.insert(free_slots_.end(), freed_slots_.begin(), freed_slots_.end());
  free_series_.insert(free_series_.end(), freed_series_.begin(), freed_series_.end());
  freed_slots_.clear();
  freed_series_.clear();
}

void SeriesStore::Reserve(size_t slots) {
  literals.reserve(slots);
  values.reserve(slots);
  states.reserve(slots);
  next.reserve(slots);
  bounds_.reserve(slots);
  owners_.reserve(slots);
  by_cell_.Reserve(slots, CellHashes());
}

uint32_t SeriesStore::CellHash(uint32_t of_series, SampleRole role, double bound) const noexcept {
  uint64_t mixed = MixWords(std::bit_cast<uint64_t>(bound) ^ key_.a,
                            (of_series * 8ull + static_cast<uint64_t>(role)) ^ key_.b);
  return static_cast<uint32_t>(mixed >> 32);
}

uint32_t SeriesStore::FindLiteral(std::string_view literal) {
  if (!literals_known_) {
    literals_known_ = true;
    by_literal_.Reserve(live_, LiteralHashes());
    for (uint32_t slot = 0; slot < states.size(); ++slot) {
      if ((states[slot] & (kLive | kDuplicate)) == kLive) by_literal_.Insert(slot, LiteralHashes());
    }
  }
  return by_literal_.Find(text_.Hash(literal),
                          [&](uint32_t slot) { return text_.Equal(literals[slot], literal); });
}

uint32_t SeriesStore::FindSeries(uint32_t family, const LabelPrint& print) const noexcept {
  return by_print_.Find(SeriesHash(family, print), [&](uint32_t id) {
    return series[id].family == family && series[id].print == print;
  });
}

uint32_t SeriesStore::FindCell(uint32_t of_series, SampleRole role, double bound) const noexcept {
  return by_cell_.Find(CellHash(of_series, role, bound), [&](uint32_t slot) {
    return owners_[slot] == of_series && this->role(slot) == role && bounds_[slot] == bound;
  });
}

std::string SeriesStore::LiteralOf(uint32_t slot) const {
  std::string out(text_.Piece(literals[slot].head));
  return out += text_.Piece(literals[slot].tail);
}

uint32_t SeriesStore::NewSlot(std::string_view literal) {
  uint32_t slot = static_cast<uint32_t>(states.size());
  if (free_slots_.empty()) {
    literals.emplace_back();
    values.emplace_back();
    states.emplace_back();
    next.emplace_back();
    bounds_.emplace_back();
    owners_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  literals[slot] = text_.Keep(literal);
  states[slot] = kLive;
  next[slot] = kNone;
  bounds_[slot] = 0;
  owners_[slot] = kNone;
  ++live_;
  return slot;
}

uint32_t SeriesStore::AddSeries(uint32_t family, const LabelPrint& print) {
  uint32_t id = static_cast<uint32_t>(series.size());
  if (free_series_.empty()) {
    series.emplace_back();
  } else {
    id = free_series_.back();
    free_series_.pop_back();
  }
  series[id] = {print, kNone, family & ((1u << 29) - 1), true, true, false};
  by_print_.Insert(id, SeriesHashes());
  appeared.push_back(id);
  families_.AddSeries(family);
  return id;
}

uint32_t SeriesStore::AddCell(uint32_t to_series, SampleRole role, double bound, std::string_view literal) {
  uint32_t slot = NewSlot(literal);
  bounds_[slot] = bound;
  owners_[slot] = to_series;
  states[slot] = static_cast<uint8_t>(kLive | static_cast<uint8_t>(role) << kRoleShift);
  if (literals_known_) by_literal_.Insert(slot, LiteralHashes());
  by_cell_.Insert(slot, CellHashes());
  Series& owner = series[to_series];
  next[slot] = owner.first;
  owner.first = slot;
  if (!owner.fresh && !owner.touched) {
    owner.touched = true;
    reshaped.push_back(to_series);
  }
  return slot;
}

uint32_t SeriesStore::AddDuplicate(std::string_view literal) {
  uint32_t slot = NewSlot(literal);
  states[slot] = kLive | kDuplicate;
  return slot;
}

// The same series with other text: labels in another order, a bound written in another way.
void SeriesStore::Rename(uint32_t slot, std::string_view literal) {
  if (literals_known_) by_literal_.Erase(slot, LiteralHashes());
  literals[slot] = text_.Keep(literal);
  if (literals_known_) by_literal_.Insert(slot, LiteralHashes());
}

void SeriesStore::Detach(uint32_t slot) {
  if (!(states[slot] & kDuplicate)) {
    if (literals_known_) by_literal_.Erase(slot, LiteralHashes());
    by_cell_.Erase(slot, CellHashes());
    Series& owner = series[owners_[slot]];
    if (!owner.touched) {
      owner.touched = true;
      reshaped.push_back(owners_[slot]);
    }
    unlinked_ = true;
  }
  states[slot] = 0;
  values[slot] = std::numeric_limits<double>::quiet_NaN();
  literals[slot] = {};
  freed_slots_.push_back(slot);
  --live_;
}

// Rebuilds the chains of touched series; those left without a cell are gone.
void SeriesStore::Relink() {
  if (unlinked_) {
    for (uint32_t id : reshaped) series[id].first = kNone;
    for (uint32_t slot = static_cast<uint32_t>(states.size()); slot-- > 0;) {
      if ((states[slot] & (kLive | kDuplicate)) != kLive) continue;
      Series& owner = series[owners_[slot]];
      if (!owner.touched) continue;
      next[slot] = owner.first;
      owner.first = slot;
    }
    unlinked_ = false;
  }
  size_t kept = 0;
  for (uint32_t id : reshaped) {
    Series& one = series[id];
    if (one.first != kNone) {
      reshaped[kept++] = id;
      continue;
    }
    by_print_.Erase(id, SeriesHashes());
    families_.DropSeries(one.family);
    one = {};
    vanished.push_back(id);
    freed_series_.push_back(id);
  }
  reshaped.resize(kept);
}

void SeriesStore::RetireFamilies(const std::vector<uint32_t>& retired) {
  std::vector<bool> gone(families_.families().size());
  for (uint32_t family : retired) gone[family] = true;
  for (uint32_t slot = 0; slot < states.size(); ++slot) {
    if ((states[slot] & (kLive | kDuplicate)) != kLive) continue;
    if (gone[series[owners_[slot]].family]) Detach(slot);
  }
  Relink();
}

void SeriesStore::Sweep(bool keep_unseen) {
  for (uint32_t slot = 0; slot < states.size(); ++slot) {
    if ((states[slot] & (kLive | kSeen)) != kLive) continue;
    if (!keep_unseen || (states[slot] & kDuplicate)) Detach(slot);
  }
  Relink();
  Tighten(series);
  Tighten(literals);
  Tighten(values);
  Tighten(states);
  Tighten(next);
  Tighten(bounds_);
  Tighten(owners_);
}

void SeriesStore::Compact(std::vector<Place>& texts) {
  if (packed_bytes_ == 0) {
    packed_bytes_ = text_.size();
    packed_slots_ = live_;
    return text_.Tighten();
  }
  const bool grown = text_.size() > packed_bytes_ + packed_bytes_ / 4 + kSlackBytes;
  const bool emptier = live_ < packed_slots_ / 2 && text_.size() > kSlackBytes;
  if (!grown && !emptier) return;
  TextStore packed(key_);
  for (Place& place : texts) place.offset = packed.Append(text_.Text(place));
  for (uint32_t slot = 0; slot < states.size(); ++slot) {
    if (states[slot] & kLive) literals[slot] = packed.Keep(LiteralOf(slot));
  }
  text_ = std::move(packed);
  text_.Tighten();
  packed_bytes_ = text_.size();
  packed_slots_ = live_;
}

size_t SeriesStore::memory_bytes() const noexcept {
  return Bytes(literals) + Bytes(values) + Bytes(states) + Bytes(next) + Bytes(series) + Bytes(bounds_) +
         Bytes(owners_) + text_.memory_bytes() + by_literal_.memory_bytes() + by_cell_.memory_bytes() +
         by_print_.memory_bytes() + Bytes(free_slots_) + Bytes(freed_slots_) + Bytes(free_series_) +
         Bytes(freed_series_) + Bytes(appeared) + Bytes(vanished) + Bytes(reshaped);
}

}  // namespace gpulens::exposition_internal
