#include "wire/exposition/exposition_page.h"

#include <algorithm>
#include <tuple>

#include "wire/exposition/exposition_page_reader.h"

namespace gpulens {

using exposition_internal::SeriesStore;

ScrapedPage::ScrapedPage(const ExpositionLimits& limits, bool honor_timestamps)
    : reader_(std::make_unique<exposition_internal::PageReader>(limits)),
      honors_timestamps_(honor_timestamps) {}
ScrapedPage::~ScrapedPage() = default;

Status ScrapedPage::Update(std::string_view body, ExpositionFormat format) {
  auto& reader = *reader_;
  const size_t limit = reader.line.limits.page_bytes;
  current_ = body.size() <= limit;
  if (!current_) {
    reader.BeginNothing();
    reader.report = {};
    return {Code::kExhausted,
            "the page has " + std::to_string(body.size()) + " bytes, the limit is " + std::to_string(limit)};
  }
  reader.Read(body, format);
  const ExpositionReport& report = reader.report;
  if (!reader.within_limits) return reader.within_limits;
  if (report.samples == 0 && report.bad_lines > 0) {
    return {Code::kDataLoss, "none of " + std::to_string(report.bad_lines) + " lines is a sample"};
  }
  if (report.truncated) return {Code::kDataLoss, "the page ends before its \"# EOF\""};
  return Ok();
}

const ExpositionReport& ScrapedPage::report() const noexcept { return reader_->report; }
std::span<const ScrapedPage::BadExample> ScrapedPage::bad_examples() const noexcept {
  return reader_->bad_examples;
}
std::span<const double> ScrapedPage::values() const noexcept { return reader_->store.values; }

bool ScrapedPage::seen(uint32_t slot) const noexcept {
  const auto& states = reader_->store.states;
  return current_ && slot < states.size() && (states[slot] & SeriesStore::kSeen) != 0;
}

bool ScrapedPage::has_timestamps() const noexcept { return honors_timestamps_ && reader_->timed(); }

std::optional<int64_t> ScrapedPage::timestamp_ms(uint32_t slot) const noexcept {
  const auto& reader = *reader_;
  if (!has_timestamps()) return {};
  if (slot >= reader.store.states.size() || !(reader.store.states[slot] & SeriesStore::kTimed)) return {};
  return reader.timestamps[slot];
}

std::span<const PageExemplar> ScrapedPage::exemplars() const noexcept { return reader_->exemplars; }

std::span<const ExpositionFamily> ScrapedPage::families() const noexcept {
  return reader_->families.families();
}

uint64_t ScrapedPage::generation() const noexcept { return reader_->generation; }
std::span<const uint32_t> ScrapedPage::appeared() const noexcept { return reader_->store.appeared; }
std::span<const uint32_t> ScrapedPage::vanished() const noexcept { return reader_->store.vanished; }
std::span<const uint32_t> ScrapedPage::reshaped() const noexcept { return reader_->store.reshaped; }
const ScrapedPage::Work& ScrapedPage::work() const noexcept { return reader_->work; }
size_t ScrapedPage::memory_bytes() const noexcept {
  return reader_->memory_bytes() + sizeof(*this) + sizeof(*reader_);
}

uint32_t ScrapedPage::family_of(uint32_t series) const noexcept {
  return reader_->store.series[series].family;
}

namespace {

void CopyLabels(const LineReader& line, std::string_view without, std::vector<PageLabel>& out) {
  out.clear();
  for (const LabelView& label : line.labels) {
    if (without.empty() || label.name != without) {
      out.push_back({std::string(label.name), std::string(label.value)});
    }
  }
}

}  // namespace

void ScrapedPage::ExemplarLabels(const PageExemplar& exemplar, std::vector<PageLabel>& out) const {
  const auto& reader = *reader_;
  LineReader line(reader.line.format, reader.line.limits);
  line.ReadLabelSet(
      std::string_view(reader.exemplar_text).substr(exemplar.text_offset, exemplar.text_length));
  CopyLabels(line, "", out);
}

void ScrapedPage::Labels(uint32_t series, std::vector<PageLabel>& out) const {
  const auto& store = reader_->store;
  uint32_t slot = store.series[series].first;
  LineReader line(reader_->line.format, reader_->line.limits);
  const std::string literal = store.LiteralOf(slot);
  line.ReadSeries(literal);
  CopyLabels(line, BoundLabel(store.role(slot)), out);
}

void ScrapedPage::Cells(uint32_t series, std::vector<PageCell>& out) const {
  const auto& store = reader_->store;
  out.clear();
  for (uint32_t slot = store.series[series].first; slot != SeriesStore::kNone; slot = store.next[slot]) {
    out.push_back({slot, store.role(slot), store.bound(slot)});
  }
  std::sort(out.begin(), out.end(), [](const PageCell& a, const PageCell& b) {
    return std::tie(a.role, a.bound) < std::tie(b.role, b.bound);
  });
}

std::string ScrapedPage::BoundText(uint32_t slot) const {
  const auto& store = reader_->store;
  const std::string_view wanted = BoundLabel(store.role(slot));
  if (wanted.empty()) return {};
  LineReader line(reader_->line.format, reader_->line.limits);
  const std::string literal = store.LiteralOf(slot);
  line.ReadSeries(literal);
  for (const LabelView& label : line.labels) {
    if (label.name == wanted) return std::string(label.value);
  }
  return {};
}

void ScrapedPage::Series(std::vector<uint32_t>& out) const {
  const auto& store = reader_->store;
  out.clear();
  for (uint32_t id = 0; id < store.series.size(); ++id) {
    if (store.series[id].alive) out.push_back(id);
  }
}

}  // namespace gpulens
