#include "wire/exposition/text_page.h"

#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace gpulens {
namespace {

constexpr size_t kTimestampBytes = 26;   // with the blank before it
constexpr size_t kLineNumberBytes = 25;  // the longest double, and the newline
constexpr size_t kManyBytes = 32 << 10;  // of texts made at once
constexpr std::string_view kEof = "# EOF\n";

// Copies a piece of a line's text in whole steps: bytes written after its end are overwritten or cut off
// later, and the arena has as many spare bytes. A call of memcpy for each costs more than the bytes.
char* CopyPiece(char* at, const char* piece) noexcept {
  uint32_t size;
  std::memcpy(&size, piece, sizeof size);
  const char* text = piece + sizeof size;
  size_t i = 0;
  do std::memcpy(at + i, text + i, kTextStep);
  while ((i += kTextStep) < size);
  return at + size;
}

// Milliseconds in the text formats, seconds in OpenMetrics.
char* WriteTimestamp(char* at, int64_t unix_ns, ExpositionFormat format) noexcept {
  int64_t ms = unix_ns / 1'000'000;
  if (format != ExpositionFormat::kOpenMetrics100) return WriteInteger(at, ms);
  at = WriteInteger(at, ms / 1000);
  *at++ = '.';
  int64_t rest = ms % 1000;
  *at++ = static_cast<char>('0' + rest / 100);
  *at++ = static_cast<char>('0' + rest / 10 % 10);
  *at++ = static_cast<char>('0' + rest % 10);
  return at;
}

// " # {trace_id="…"} 0.5 1700000000.123": a line that has an exemplar ends with it.
std::string ExemplarText(const Exemplar& exemplar, PageForm form) {
  std::vector<LabelText::Label> labels;
  for (auto [key, value] : exemplar.attributes) AppendValue(labels.emplace_back(key, "").second, value);
  std::string out = " # {";
  LabelText(form).Append(out, labels);
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

void TextPage::AlwaysShow(std::vector<NamedSeries> families) {
  always_ = {};
  for (const NamedSeries& series : families) always_.families.push_back(NameFamily(series, form_));
  planned_.Clear();
  segments_.clear();
}

const LayoutText& TextPage::TextFor(const Ref<const Layout>& layout) {
  return texts_.Of(layout, [this](const Layout& one) {
    LayoutText text = NameLayout(one, form_, namer_);
    made_bytes_ += text.memory_bytes();
    return text;
  });
}

// Collects the families of all layouts and lays them out as one page.
class TextPage::Merger {
 public:
  explicit Merger(TextPage& page) : page_(page) {}

  void Add(const LayoutText& text, uint32_t frame, Precedence precedence) {
    for (const TextFamily& family : text.families)
      parts_.push_back({&family, &text, frame, precedence, parts_.size()});
  }

  void Merge() {
    std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) {
      if (a.family->name != b.family->name) return a.family->name < b.family->name;
      if (a.precedence != b.precedence) return a.precedence < b.precedence;
      if (a.family->unescaped != b.family->unescaped) return a.family->unescaped < b.family->unescaped;
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
    Precedence precedence;
    size_t order;  // of arrival: the earlier frame wins
  };

  void MergeFamily(size_t first, size_t last) {
    const TextFamily& winner = *parts_[first].family;
    const std::string* header = &winner.header;
    std::unordered_set<std::string> seen;
    for (size_t i = first; i < last; ++i) {
      const Part& part = parts_[i];
      if (part.family->unescaped != winner.unescaped) {
        page_.losses_.name_clashes += part.family->lines;
        continue;
      }
      if (part.family->kind != winner.kind) {
        page_.losses_.type_conflicts += part.family->lines;
        continue;
      }
      if (last - first == 1) Append(part, part.family->first_line, part.family->lines, header);
      else AppendUnseen(part, seen, header);
    }
  }

  void AppendUnseen(const Part& part, std::unordered_set<std::string>& seen, const std::string*& header) {
    uint32_t end = part.family->first_line + part.family->lines;
    uint32_t run = part.family->first_line;
    for (uint32_t line = run; line < end; ++line) {
      part.text->TextOf(part.text->lines[line], scratch_);
      if (seen.insert(scratch_).second) continue;
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
    for (uint32_t i = first; i < first + count; ++i) segment.bytes += part.text->SizeOf(part.text->lines[i]);
    page_.fixed_bytes_ += segment.bytes;
    page_.lines_ += count;
    page_.segments_.push_back(segment);
  }

  TextPage& page_;
  std::vector<Part> parts_;
  std::string scratch_;
};

void TextPage::Plan(const Snapshot& snapshot) {
  segments_.clear();
  fixed_bytes_ = lines_ = 0;
  losses_ = {};
  planned_.Set(snapshot);
  if (namer_.Refresh(snapshot)) texts_ = {};
  Merger merger(*this);
  for (uint32_t i = 0; i < snapshot.frames.size(); ++i) {
    const SnapshotEntry& entry = snapshot.frames[i];
    const LayoutText& text = TextFor(entry.frame->layout);
    losses_.type_conflicts += text.type_conflicts;
    losses_.duplicates += text.duplicates;
    merger.Add(text, i, entry.precedence);
  }
  merger.Add(always_, 0, Precedence::kNative);
  merger.Merge();
  texts_.Forget();
  // Making them takes many times what they keep.
  if (std::exchange(made_bytes_, 0) > kManyBytes) ::malloc_trim(0);
}

void TextPage::Render(const Snapshot& snapshot, std::string& out) {
  if (!planned_.Fits(snapshot)) Plan(snapshot);
  size_t more = 0;
  bool timed = false;
  for (const SnapshotEntry& entry : snapshot.frames) {
    timed |= entry.overdue || !entry.frame->age_ms.empty();
    if (format_ != ExpositionFormat::kOpenMetrics100) continue;
    for (const Exemplar& exemplar : entry.frame->exemplars) more += ExemplarText(exemplar, form_).size();
  }
  const size_t number_bytes = kLineNumberBytes + (timed ? kTimestampBytes : 0);
  const size_t spare = more + kEof.size() + kNumberBytes + kTextStep;
  // The reserved size is an upper bound: memory beyond the page is never touched.
  out.reserve(fixed_bytes_ + lines_ * number_bytes + spare);
  samples_ = 0;
  size_t written = 0;
  for (const Segment& segment : segments_) {
    size_t most = written + segment.bytes + segment.count * number_bytes + spare;
    if (segment.header) pending_header_ = segment.header;
    if (pending_header_) most += pending_header_->size();
    if (out.size() < most) out.resize(most);
    char* at = out.data() + written;
    if (segment.always && pending_header_) {
      at = WriteText(at, *pending_header_);
      pending_header_ = nullptr;
    }
    if (segment.count != 0) at = RenderSegment(segment, snapshot.frames[segment.frame], at);
    written = static_cast<size_t>(at - out.data());
  }
  if (out.size() < written + spare) out.resize(written + spare);
  char* at = out.data() + written;
  pending_header_ = nullptr;
  if (format_ == ExpositionFormat::kOpenMetrics100) at = WriteText(at, kEof);
  out.resize(static_cast<size_t>(at - out.data()));
}

char* TextPage::RenderSegment(const Segment& segment, const SnapshotEntry& entry, char* at) {
  const Frame& frame = *entry.frame;
  const LayoutText& text = *segment.text;
  const char* arena = text.arena.data();
  const TextStyle* styles = text.styles.data();
  const Cell* cells = frame.cells.data();
  const Quality* qualities = frame.quality.data();
  bool exemplars = format_ == ExpositionFormat::kOpenMetrics100 && !frame.exemplars.empty();
  for (const TextLine *line = &text.lines[segment.first], *end = line + segment.count; line != end; ++line) {
    Quality quality = qualities[line->slot];
    if (quality == Quality::kAbsent) continue;
    const TextStyle& style = styles[line->style];
    if (style.only_if_set && cells[line->cell].i == 0) continue;
    if (pending_header_) {
      at = WriteText(at, *pending_header_);
      pending_header_ = nullptr;
    }
    at = CopyPiece(at, arena + style.name);
    at = CopyPiece(at, arena + line->labels);
    if (style.tail != 0) at = CopyPiece(at, arena + style.tail);
    Cell cell = cells[line->cell];
    if (style.as == TextStyle::kStart) {
      at = WriteTimestamp(at, (*frame.layout)[line->slot].start_unix_ns, format_);
    } else if (style.as == TextStyle::kInt && style.scale == 1) {
      at = WriteInteger(at, cell.i);
    } else {
      double value = style.as == TextStyle::kInt ? static_cast<double>(cell.i) : cell.d;
      if (style.scale != 1) value *= style.scale;
      at = WriteNumber(at, style.whole ? std::round(value) : value);
    }
    if (quality == Quality::kStale || entry.overdue) {
      *at++ = ' ';
      at = WriteTimestamp(at, frame.read_at.unix_ns - int64_t{frame.AgeMs(line->slot)} * 1'000'000, format_);
    }
    if (exemplars && style.has_exemplar) at = AppendExemplar(at, frame, line->cell);
    *at++ = '\n';
    ++samples_;
  }
  return at;
}

char* TextPage::AppendExemplar(char* at, const Frame& frame, uint32_t cell) const {
  const auto found = ExemplarsOf(frame, cell, 1);
  if (found.empty()) return at;
  return WriteText(at, ExemplarText(found.front(), form_));
}

}  // namespace gpulens
