#include "wire/exposition/exposition_page_reader.h"

#include "wire/exposition/exposition_line.h"

namespace gpulens::exposition_internal {
namespace {

constexpr uint32_t kNowhere = 0xFFFFFFFF;

inline bool SameBytes(const char* a, const char* b, size_t size) noexcept {
  return std::memcmp(a, b, size) == 0;
}

size_t CountNewlines(const char* p, const char* end) noexcept {
  size_t count = 0;
  for (; p != end; ++count) {
    auto* newline = static_cast<const char*>(std::memchr(p, '\n', static_cast<size_t>(end - p)));
    if (newline == nullptr) break;
    p = newline + 1;
  }
  return count;
}

const char* LineEnd(const char* p, const char* end) noexcept {
  auto* newline = static_cast<const char*>(std::memchr(p, '\n', static_cast<size_t>(end - p)));
  return newline == nullptr ? end : newline;
}

std::string_view Between(const char* from, const char* to) noexcept {
  return {from, static_cast<size_t>(to - from)};
}

}  // namespace

void PageReader::BeginNothing() {
  store.ForgetChanges();
  exemplars.clear();
  exemplar_text.clear();
}

void PageReader::Read(std::string_view body, ExpositionFormat format) {
  begin_ = body.data();
  end_ = begin_ + body.size();
  exemplars.clear();
  exemplar_text.clear();
  within_limits = Ok();
  if (format != line.format) remembered_ = false;
  line.format = format;
  Cursor cursor{begin_, 0};
  if (remembered_ && ReadUnchanged(cursor)) {
    ++work.steady_updates;
    return store.ForgetChanges();
  }
  if (!remembered_) {
    order_.clear();
    texts_.clear();
    cursor = {begin_, 0};
  }
  ReadChanged(cursor);
}

// The loop of the steady scrape. False: from `cursor` on the page is another one.
bool PageReader::ReadUnchanged(Cursor& cursor) {
  const char* p = begin_;
  const char* const end = end_;
  const TextStore& text = store.text();
  const TextStore::Literal* const literals = store.literals.data();
  double* const values = store.values.data();
  const size_t count = order_.size(), line_limit = line.limits.line_bytes;
  size_t i = 0;
  for (; i < count; ++i) {
    const uint32_t entry = order_[i];
    const bool is_text = (entry & kText) != 0;
    const char* q = is_text ? MatchText(texts_[entry & ~kText], p) : text.Match(literals[entry], p, end);
    if (q == nullptr) break;
    if (!is_text) {
      double value;
      q = ReadExpositionNumber(q, end, value);
      if (q == nullptr || static_cast<size_t>(q - p) > line_limit) break;
      if (q != end && *q == '\n' && !timed_) [[likely]] {
        ++q;
      } else {
        q = TakeTail(entry, p, q);
        if (q == nullptr) break;
      }
      values[entry] = value;
    }
    p = q;
  }
  cursor = {p, i};
  if (i != count) return false;
  report.open_end = begin_ != end && end[-1] != '\n';
  return p == end;
}

const char* PageReader::MatchText(const Text& text, const char* p) const noexcept {
  const std::string_view bytes = store.text().Text(text.place);
  return Between(p, end_).starts_with(bytes) ? p + bytes.size() : nullptr;
}

// Whether a decision about a line before `cursor` depends on lines after it.
bool PageReader::MustRestart(const Cursor& cursor) const {
  if (!families.retired().empty()) return true;
  if (cursor.at != begin_ && cursor.at[-1] != '\n') return true;
  return std::any_of(order_.begin(), order_.begin() + static_cast<ptrdiff_t>(cursor.index),
                     [this](uint32_t entry) { return (entry & kText) && texts_[entry & ~kText].special; });
}

// Takes the first `count` entries over as they are.
void PageReader::Adopt(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t entry = order_[i];
    if (entry & kText) {
      next_texts_.push_back(texts_[entry & ~kText]);
      next_order_.push_back(kText | static_cast<uint32_t>(next_texts_.size() - 1));
    } else {
      store.states[entry] |= SeriesStore::kSeen;
      report.duplicates += (store.states[entry] & SeriesStore::kDuplicate) != 0;
      ++report.samples;
      next_order_.push_back(entry);
    }
  }
}

void PageReader::BeginReport() {
  report = {};
  bad_examples.clear();
  counted_to_ = begin_;
  line_number_ = 1;
}

// A page without one sample but with lines that make no sense is no answer of the target (mostly the
// HTML of something before it): it is reported, and nothing of what we know is touched.
bool PageReader::ReadNonsense() {
  BeginReport();
  std::string_view rest = Between(begin_, end_);
  while (!rest.empty()) {
    size_t newline = rest.find('\n');
    std::string_view text = rest.substr(0, newline);
    rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
    LineKind kind = line.Read(text);
    if (kind == LineKind::kSample) return false;
    if (kind == LineKind::kBad) CountBad(text, line.error);
    if (kind == LineKind::kEof) break;
  }
  if (report.bad_lines == 0) return false;
  store.BeginChange();
  remembered_ = false;
  return true;
}

void PageReader::ReadChanged(Cursor cursor) {
  const std::string_view body = Between(begin_, end_);
  const PageOutline outline = OutlineOf(body, line);
  BeginReport();
  // A page above a limit is no answer, either: half of it would pass for the whole.
  within_limits = CheckLimits(body, outline, line, report);
  if (!within_limits) {
    store.BeginChange();
    remembered_ = false;
    return;
  }
  if (ReadNonsense()) return;
  BeginReport();
  DeclareFamilies(body, outline, line, families);
  if (MustRestart(cursor)) {
    cursor = {begin_, 0};
    exemplars.clear();
    exemplar_text.clear();
  }
  store.BeginChange();
  if (!families.retired().empty()) store.RetireFamilies(families.retired());
  bucket_.start = nullptr;
  report.type_conflicts = families.type_conflicts();
  ended_ = open_text_ = false;
  first_ = store.states.empty();
  if (first_) {
    store.Reserve(outline.samples);
    next_order_.reserve(CountNewlines(begin_, end_) + 1);
  }
  positions_.assign(store.states.size(), kNowhere);
  for (uint32_t i = 0; i < order_.size(); ++i) {
    if (!(order_[i] & kText)) positions_[order_[i]] = i;
  }
  Adopt(cursor.index);
  while (cursor.at != end_ && !ended_) {
    if (!MatchRemembered(cursor)) ReadOneLine(cursor);
  }
  if (ended_ && cursor.at != end_) {
    std::string_view rest = Between(cursor.at, end_);
    size_t first = rest.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) {
      AddText(rest, true);
    } else {
      AddBad(rest.substr(0, rest.find('\n')), rest.size(), LineError::kAfterEof);
    }
  }
  Finish();
}

void PageReader::Finish() {
  report.truncated = line.format == ExpositionFormat::kOpenMetrics100 && !ended_;
  report.open_end = begin_ != end_ && end_[-1] != '\n';
  store.Sweep(report.truncated || (report.samples == 0 && report.bad_lines > 0));
  if (store.live_slots() > line.limits.samples) store.Sweep(false);
  order_.swap(next_order_);
  texts_.swap(next_texts_);
  for (std::vector<uint32_t>* left : {&next_order_, &positions_}) std::vector<uint32_t>().swap(*left);
  std::vector<Text>().swap(next_texts_);
  const uint64_t before = families.version();
  const bool refused = report.by_error[static_cast<size_t>(LineError::kTooManyFamilies)] > 0;
  families.EndPage(report.truncated && !refused);
  places_.resize(texts_.size());
  for (size_t i = 0; i < texts_.size(); ++i) places_[i] = texts_[i].place;
  store.Compact(places_);
  for (size_t i = 0; i < texts_.size(); ++i) texts_[i].place = places_[i];
  timed_ = std::any_of(store.states.begin(), store.states.end(),
                       [](uint8_t state) { return (state & SeriesStore::kTimed) != 0; });
  // Families that were refused may fit when unused ones are dropped at the end of the page.
  remembered_ = !refused;
  if (families_version_ != families.version() || before != families.version() || !store.appeared.empty() ||
      !store.vanished.empty() || !store.reshaped.empty()) {
    ++generation;
  }
  families_version_ = families.version();
}

// The line that followed the last one on the page before, if it is the next one again.
bool PageReader::MatchRemembered(Cursor& cursor) {
  if (cursor.index == order_.size()) return false;
  const uint32_t entry = order_[cursor.index];
  if (entry & kText) {
    const Text& text = texts_[entry & ~kText];
    const char* behind = text.special ? nullptr : MatchText(text, cursor.at);
    if (behind == nullptr || (behind != end_ && behind[-1] != '\n')) return false;
    next_texts_.push_back(text);
    next_order_.push_back(kText | static_cast<uint32_t>(next_texts_.size() - 1));
    open_text_ = false;
    cursor.at = behind;
    ++cursor.index;
    return true;
  }
  constexpr uint8_t kAnyOf = SeriesStore::kLive | SeriesStore::kSeen | SeriesStore::kDuplicate;
  if ((store.states[entry] & kAnyOf) != SeriesStore::kLive) return false;
  const char* number = store.text().Match(store.literals[entry], cursor.at, end_);
  if (number == nullptr) return false;
  const char* next = TakeNumber(entry, cursor.at, number);
  if (next == nullptr) return false;
  Accept(entry);
  cursor.at = next;
  ++cursor.index;
  return true;
}

void PageReader::Accept(uint32_t slot) {
  store.states[slot] |= SeriesStore::kSeen;
  next_order_.push_back(slot);
  open_text_ = false;
  ++report.samples;
}

void PageReader::ReadOneLine(Cursor& cursor) {
  const char* newline = LineEnd(cursor.at, end_);
  std::string_view text = Between(cursor.at, newline);
  size_t with_newline = text.size() + (newline != end_);
  if (!LooksLikeSample(text)) {
    ++work.parsed_lines;
    ParseLine(text, with_newline);
  } else if (!first_ && FindMoved(text, cursor)) {
    return;
  } else {
    ++work.parsed_lines;
    if (!PlaceNextBucket(text)) ParseLine(text, with_newline);
  }
  cursor.at += with_newline;
}

// The bytes before the number, right for every sane line. Whatever it gives is only looked up: what is
// found was once parsed as the beginning of a line, and so is the beginning of this one.
std::string_view PageReader::GuessLiteral(std::string_view text) const {
  size_t limit = text.size();
  if (line.format == ExpositionFormat::kOpenMetrics100) limit = std::min(limit, text.rfind("# {"));
  size_t brace = text.substr(0, limit).rfind('}');
  size_t at = brace == std::string_view::npos ? std::min(text.find_first_of(" \t"), text.size()) : brace + 1;
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
  return text.substr(0, at);
}

bool PageReader::FindMoved(std::string_view text, Cursor& cursor) {
  std::string_view literal = GuessLiteral(text);
  uint32_t slot = store.FindLiteral(literal);
  if (slot == SeriesStore::kNone || (store.states[slot] & SeriesStore::kSeen)) return false;
  const char* next = TakeNumber(slot, cursor.at, cursor.at + literal.size());
  if (next == nullptr) return false;
  Accept(slot);
  cursor.at = next;
  if (slot < positions_.size() && positions_[slot] != kNowhere) cursor.index = positions_[slot] + 1;
  return true;
}

void PageReader::ParseLine(std::string_view text, size_t with_newline) {
  std::string_view all(text.data(), with_newline);
  switch (line.Read(text, end_)) {
    case LineKind::kBad: return AddBad(text, with_newline, line.error);
    case LineKind::kSample: return PlaceSample(text, with_newline);
    case LineKind::kEof: ended_ = true; return AddText(all, true);
    default: return AddText(all, false);
  }
}

void PageReader::PlaceSample(std::string_view text, size_t with_newline) {
  SampleHome home = families.Resolve(line.name);
  if (home.family == FamilyTable::kNone) return AddBad(text, with_newline, LineError::kTooManyFamilies);
  double bound = 0;
  size_t bound_label = 0;
  if (!ResolveBound(line.labels, home.role, bound, bound_label)) {
    return AddBad(text, with_newline, LineError::kBadBound);
  }
  LabelPrint print = PrintLabels(line.labels, bound_label, ProcessHashKey());
  std::string_view literal = text.substr(0, line.literal_bytes);
  uint32_t series = store.FindSeries(home.family, print);
  if (series == SeriesStore::kNone) series = store.AddSeries(home.family, print);
  if (home.role == SampleRole::kBucket) RememberBucket(literal, series);
  PlaceCell(series, home.role, bound, literal, line.value);
}

void PageReader::RememberBucket(std::string_view literal, uint32_t series) {
  bucket_.start = nullptr;
  for (const LabelView& label : line.labels) {
    // A value that was escaped lies in the reader's buffer and not in the page.
    bool inside = label.value.data() > literal.data() && label.value.data() < literal.data() + literal.size();
    if (label.name != "le" || !inside) continue;
    bucket_ = {literal.data(), label.value.data(), label.value.data() + label.value.size(),
               literal.data() + literal.size(), series};
  }
}

// A line that differs from the last bucket's in nothing but the number in `le`. What was checked there
// need not be checked again.
bool PageReader::PlaceNextBucket(std::string_view text) {
  if (bucket_.start == nullptr || text.size() > line.limits.line_bytes) return false;
  const size_t front = static_cast<size_t>(bucket_.bound - bucket_.start);
  const size_t back = static_cast<size_t>(bucket_.end - bucket_.behind);
  if (text.size() < front + back || !SameBytes(text.data(), bucket_.start, front)) return false;
  const size_t quote = text.find('"', front);
  if (quote == std::string_view::npos || text.size() - quote < back) return false;
  if (!SameBytes(text.data() + quote, bucket_.behind, back)) return false;
  double bound, value;
  if (!ReadBound(text.substr(front, quote - front), bound)) return false;
  const char* number = text.data() + quote + back;
  const char* tail = ReadExpositionNumber(number, end_, value);
  if (tail == nullptr || !line.ReadTail(Between(tail, text.data() + text.size()))) return false;
  PlaceCell(bucket_.series, SampleRole::kBucket, bound, Between(text.data(), number), value);
  return true;
}

void PageReader::PlaceCell(uint32_t series, SampleRole role, double bound, std::string_view literal,
                           double value) {
  uint32_t slot = store.FindCell(series, role, bound);
  if (slot == SeriesStore::kNone) {
    slot = store.AddCell(series, role, bound, literal);
  } else if (store.states[slot] & SeriesStore::kSeen) {
    slot = store.AddDuplicate(literal);
    ++report.duplicates;
  } else {
    store.Rename(slot, literal);
  }
  store.values[slot] = value;
  SetTail(slot);
  Accept(slot);
}

const char* PageReader::TakeNumber(uint32_t slot, const char* start, const char* number) {
  double value;
  const char* next = ReadExpositionNumber(number, end_, value);
  if (next == nullptr) return nullptr;
  next = TakeTail(slot, start, next);
  if (next != nullptr) store.values[slot] = value;
  return next;
}

// Reads what follows the number. Returns the start of the next line; nullptr for an invalid line.
const char* PageReader::TakeTail(uint32_t slot, const char* start, const char* tail) {
  const char* newline = tail != end_ && *tail == '\n' ? tail : LineEnd(tail, end_);
  if (static_cast<size_t>(newline - start) > line.limits.line_bytes) return nullptr;
  if (newline == tail) {
    line.timestamp_ms.reset();
    line.has_exemplar = false;
  } else if (!line.ReadTail(Between(tail, newline))) {
    return nullptr;
  }
  SetTail(slot);
  return newline == end_ ? end_ : newline + 1;
}

void PageReader::SetTail(uint32_t slot) {
  uint8_t& state = store.states[slot];
  if (line.timestamp_ms) {
    if (timestamps.size() < store.states.size()) timestamps.resize(store.states.capacity());
    timestamps[slot] = *line.timestamp_ms;
    state |= SeriesStore::kTimed;
    timed_ = true;
  } else {
    state &= static_cast<uint8_t>(~SeriesStore::kTimed);
  }
  if (!line.has_exemplar || (state & SeriesStore::kDuplicate)) return;
  exemplars.push_back({slot, line.exemplar_value, line.exemplar_timestamp_ms,
                       static_cast<uint32_t>(exemplar_text.size()),
                       static_cast<uint32_t>(line.exemplar_text.size())});
  exemplar_text.append(line.exemplar_text);
}

void PageReader::AddText(std::string_view bytes, bool special) {
  if (bytes.empty()) return;
  uint32_t length = static_cast<uint32_t>(bytes.size());
  if (open_text_ && next_texts_.back().special == special) {
    store.AppendText(bytes);
    next_texts_.back().place.length += length;
    return;
  }
  next_texts_.push_back({{store.AppendText(bytes), length}, special});
  next_order_.push_back(kText | static_cast<uint32_t>(next_texts_.size() - 1));
  open_text_ = true;
}

void PageReader::CountBad(std::string_view text, LineError error) {
  ++report.bad_lines;
  ++report.by_error[static_cast<size_t>(error)];
  line_number_ += CountNewlines(counted_to_, text.data());
  counted_to_ = text.data();
  if (bad_examples.size() < ScrapedPage::kBadExamples) {
    bad_examples.push_back({line_number_, error, std::string(text.substr(0, kExcerptBytes))});
  }
}

void PageReader::AddBad(std::string_view text, size_t with_newline, LineError error) {
  CountBad(text, error);
  AddText({text.data(), with_newline}, true);
}

size_t PageReader::memory_bytes() const noexcept {
  return store.memory_bytes() + families.memory_bytes() + order_.capacity() * sizeof(uint32_t) +
         texts_.capacity() * sizeof(Text) + places_.capacity() * sizeof(SeriesStore::Place) +
         timestamps.capacity() * sizeof(int64_t) + exemplars.capacity() * sizeof(PageExemplar) +
         exemplar_text.capacity();
}

}  // namespace gpulens::exposition_internal
