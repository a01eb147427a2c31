#include "wire/text_page.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>
#include <unordered_set>

namespace gpulens {
namespace {

constexpr size_t kTimestampBytes = 26;   // with the blank before it
constexpr size_t kLineNumberBytes = 25;  // the longest double, and the newline
constexpr std::string_view kEof = "# EOF\n";

char* Copy(char* at, std::string_view text) noexcept {
  std::memcpy(at, text.data(), text.size());
  return at + text.size();
}

// Copies a line's text in whole steps: what is written behind it is overwritten or cut off later, and
// the arena has as many spare bytes. A call of memcpy for each line costs more than the bytes.
char* CopyText(char* at, const char* text, size_t size) noexcept {
  for (size_t i = 0; i < size; i += kTextStep) std::memcpy(at + i, text + i, kTextStep);
  return at + size;
}

// Numbers of at most six decimals, as people and sensors write them: the same text as to_chars gives,
// several times quicker. Null when the value is another one.
char* WriteDecimals(char* at, double value) noexcept {
  constexpr double kMillion = 1e6;
  double size = std::fabs(value);
  if (!(size >= 1e-3 && size < 1e9)) return nullptr;
  auto millionths = static_cast<uint64_t>(size * kMillion + 0.5);
  if (static_cast<double>(millionths) / kMillion != size) return nullptr;
  if (value < 0) *at++ = '-';
  at = std::to_chars(at, at + kNumberBytes, millionths / 1'000'000).ptr;
  *at++ = '.';
  auto rest = static_cast<uint32_t>(millionths % 1'000'000);
  for (int i = 5; i >= 0; --i, rest /= 10) at[i] = static_cast<char>('0' + rest % 10);
  at += 6;
  while (at[-1] == '0') --at;
  return at;
}

char* WriteInt(char* at, int64_t value) noexcept { return std::to_chars(at, at + kNumberBytes, value).ptr; }

// Milliseconds in the text formats, seconds in OpenMetrics.
char* WriteTimestamp(char* at, int64_t unix_ns, ExpositionFormat format) noexcept {
  int64_t ms = unix_ns / 1'000'000;
  if (format != ExpositionFormat::kOpenMetrics100) return WriteInt(at, ms);
  at = WriteInt(at, ms / 1000);
  *at++ = '.';
  int64_t rest = ms % 1000;
  *at++ = static_cast<char>('0' + rest / 100);
  *at++ = static_cast<char>('0' + rest / 10 % 10);
  *at++ = static_cast<char>('0' + rest % 10);
  return at;
}

// " # {trace_id="…"} 0.5 1700000000.123": a line that has an exemplar ends with it.
std::string ExemplarText(const Exemplar& exemplar) {
  std::string out = " # {";
  std::string text;
  for (auto [key, value] : exemplar.attributes) {
    if (out.back() != '{') out += ',';
    out += key;
    out += "=\"";
    text.clear();
    AppendValue(text, value);
    for (char c : text) {
      if (c == '\\' || c == '"') out += '\\';
      if (c == '\n') out += "\\n";
      else out += c;
    }
    out += '"';
  }
  char number[kNumberBytes];
  out += "} ";
  out.append(number, WriteNumber(number, exemplar.value));
  if (exemplar.unix_ns != 0) {
    out += ' ';
    out.append(number, WriteTimestamp(number, exemplar.unix_ns, ExpositionFormat::kOpenMetrics100));
  }
  return out;
}

}  // namespace

char* WriteNumber(char* at, double value) noexcept {
  // Whole numbers below 2^53 are exact as integers, and several times quicker to write.
  constexpr double kExact = 9007199254740992.0;
  if (value > -kExact && value < kExact) {
    int64_t whole = static_cast<int64_t>(value);
    if (static_cast<double>(whole) == value && (whole != 0 || !std::signbit(value)))
      return WriteInt(at, whole);
  }
  if (std::isnan(value)) return Copy(at, "NaN");
  if (std::isinf(value)) return Copy(at, value > 0 ? "+Inf" : "-Inf");
  if (char* end = WriteDecimals(at, value)) return end;
  return std::to_chars(at, at + kNumberBytes, value).ptr;
}

void TextPage::AlwaysShow(std::vector<SpelledSeries> families) {
  always_ = {};
  for (const SpelledSeries& series : families) {
    TextFamily family;
    family.kind = series.kind;
    family.header = FamilyHeader(series, format_, family.name);
    always_.families.push_back(std::move(family));
  }
  planned_.clear();
  segments_.clear();
}

const LayoutText& TextPage::TextFor(const Ref<const Layout>& layout) {
  Known& known = texts_[layout->id()];
  if (!known.text) {
    known.layout = layout;
    known.text = std::make_unique<LayoutText>(SpellLayout(*layout, format_, speller_));
  }
  known.used = true;
  return *known.text;
}

bool TextPage::PlanFits(const Snapshot& snapshot) const noexcept {
  if (planned_.empty() || planned_.size() != snapshot.frames.size() + 1) return false;
  if (!(planned_resource_ == snapshot.resource)) return false;
  for (size_t i = 0; i < snapshot.frames.size(); ++i) {
    if (planned_[i] != snapshot.frames[i].frame->layout->id()) return false;
  }
  return true;
}

// Collects the families of all layouts and lays them out as one page.
class TextPage::Merger {
 public:
  explicit Merger(TextPage& page) : page_(page) {}

  void Add(const LayoutText& text, uint32_t frame, Standing standing) {
    for (const TextFamily& family : text.families)
      parts_.push_back({&family, &text, frame, standing, parts_.size()});
  }

  void Merge() {
    std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) {
      if (a.family->name != b.family->name) return a.family->name < b.family->name;
      if (a.standing != b.standing) return a.standing < b.standing;
      return a.order < b.order;
    });
    for (size_t first = 0; first < parts_.size();) {
      size_t last = first + 1;
      while (last < parts_.size() && parts_[last].family->name == parts_[first].family->name) ++last;
      MergeFamily(first, last);
      first = last;
    }
  }

 private:
  struct Part {
    const TextFamily* family;
    const LayoutText* text;
    uint32_t frame;
    Standing standing;
    size_t order;  // of arrival: the earlier frame wins
  };

  void MergeFamily(size_t first, size_t last) {
    const TextFamily& winner = *parts_[first].family;
    const std::string* header = &winner.header;
    std::unordered_set<std::string_view> seen;
    for (size_t i = first; i < last; ++i) {
      const Part& part = parts_[i];
      if (part.family->kind != winner.kind) {
        page_.losses_.type_conflicts += part.family->lines;
        continue;
      }
      if (last - first == 1) Append(part, part.family->first_line, part.family->lines, header);
      else AppendUnseen(part, seen, header);
    }
  }

  void AppendUnseen(const Part& part, std::unordered_set<std::string_view>& seen,
                    const std::string*& header) {
    uint32_t end = part.family->first_line + part.family->lines;
    uint32_t run = part.family->first_line;
    for (uint32_t line = run; line < end; ++line) {
      if (seen.insert(part.text->TextOf(part.text->lines[line])).second) continue;
      ++page_.losses_.duplicates;
      if (line > run) Append(part, run, line - run, header);
      run = line + 1;
    }
    if (end > run || part.family->lines == 0) Append(part, run, end - run, header);
  }

  void Append(const Part& part, uint32_t first, uint32_t count, const std::string*& header) {
    Segment segment;
    segment.header = header;
    segment.text = part.text;
    segment.frame = part.frame;
    segment.first = first;
    segment.count = count;
    segment.always = part.text == &page_.always_;
    if (header) page_.fixed_bytes_ += header->size();
    header = nullptr;
    for (uint32_t i = first; i < first + count; ++i) page_.fixed_bytes_ += part.text->lines[i].text_size;
    page_.lines_ += count;
    page_.segments_.push_back(segment);
  }

  TextPage& page_;
  std::vector<Part> parts_;
};

void TextPage::Plan(const Snapshot& snapshot) {
  planned_.clear();
  segments_.clear();
  fixed_bytes_ = lines_ = 0;
  losses_ = {};
  planned_resource_ = snapshot.resource;
  if (speller_.Look(snapshot)) texts_.clear();
  for (auto& [id, known] : texts_) known.used = false;
  Merger merger(*this);
  for (uint32_t i = 0; i < snapshot.frames.size(); ++i) {
    const SnapshotEntry& entry = snapshot.frames[i];
    planned_.push_back(entry.frame->layout->id());
    const LayoutText& text = TextFor(entry.frame->layout);
    losses_.type_conflicts += text.type_conflicts;
    losses_.duplicates += text.duplicates;
    merger.Add(text, i, entry.standing);
  }
  planned_.push_back(0);  // So that an empty snapshot has a plan, too.
  merger.Add(always_, 0, Standing::kNative);
  merger.Merge();
  std::erase_if(texts_, [](const auto& item) { return !item.second.used; });
}

void TextPage::Render(const Snapshot& snapshot, std::string& out) {
  if (!PlanFits(snapshot)) Plan(snapshot);
  size_t more = 0;
  bool timed = false;
  for (const SnapshotEntry& entry : snapshot.frames) {
    timed |= entry.overdue || !entry.frame->age_ms.empty();
    if (format_ != ExpositionFormat::kOpenMetrics100) continue;
    for (const Exemplar& exemplar : entry.frame->exemplars) more += ExemplarText(exemplar).size();
  }
  // As little as surely holds the page: growing a string fills it with zeros first.
  out.resize(fixed_bytes_ + lines_ * (kLineNumberBytes + (timed ? kTimestampBytes : 0)) + more + kEof.size() +
             kNumberBytes + kTextStep);
  samples_ = 0;
  char* at = out.data();
  for (const Segment& segment : segments_) {
    if (segment.header) pending_header_ = segment.header;
    if (segment.always && pending_header_) {
      at = Copy(at, *pending_header_);
      pending_header_ = nullptr;
    }
    if (segment.count != 0) at = RenderSegment(segment, snapshot.frames[segment.frame], at);
  }
  pending_header_ = nullptr;
  if (format_ == ExpositionFormat::kOpenMetrics100) at = Copy(at, kEof);
  out.resize(static_cast<size_t>(at - out.data()));
}

char* TextPage::RenderSegment(const Segment& segment, const SnapshotEntry& entry, char* at) {
  const Frame& frame = *entry.frame;
  const LayoutText& text = *segment.text;
  const char* arena = text.arena.data();
  bool exemplars = format_ == ExpositionFormat::kOpenMetrics100 && !frame.exemplars.empty();
  for (const TextLine *line = &text.lines[segment.first], *end = line + segment.count; line != end; ++line) {
    Quality quality = frame.quality[line->slot];
    if (quality == Quality::kAbsent) continue;
    if (pending_header_) {
      at = Copy(at, *pending_header_);
      pending_header_ = nullptr;
    }
    at = CopyText(at, arena + line->text, line->text_size);
    Cell cell = frame.cells[line->cell];
    if (line->as == TextLine::kStart) {
      at = WriteTimestamp(at, (*frame.layout)[line->slot].start_unix_ns, format_);
    } else if (line->as == TextLine::kInt && line->scale == 1) {
      at = WriteInt(at, cell.i);
    } else {
      double value = line->as == TextLine::kInt ? static_cast<double>(cell.i) : cell.d;
      if (line->scale != 1) value *= line->scale;
      at = WriteNumber(at, line->whole ? std::round(value) : value);
    }
    if (quality == Quality::kStale || entry.overdue) {
      *at++ = ' ';
      at = WriteTimestamp(at, frame.read_at.unix_ns - int64_t{frame.AgeMs(line->slot)} * 1'000'000, format_);
    }
    if (exemplars && line->has_exemplar) at = AppendExemplar(at, frame, line->cell);
    *at++ = '\n';
    ++samples_;
  }
  return at;
}

char* TextPage::AppendExemplar(char* at, const Frame& frame, uint32_t cell) {
  auto found =
      std::lower_bound(frame.exemplars.begin(), frame.exemplars.end(), cell,
                       [](const Exemplar& exemplar, uint32_t wanted) { return exemplar.cell < wanted; });
  if (found == frame.exemplars.end() || found->cell != cell) return at;
  return Copy(at, ExemplarText(*found));
}

}  // namespace gpulens
