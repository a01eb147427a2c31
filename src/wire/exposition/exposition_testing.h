// For tests and fuzzers: the contents of a page as sorted lines of text, from a fresh parse and from a
// ScrapedPage. The two must be equal whatever the ScrapedPage read before.
#pragma once

#include <algorithm>
#include <bit>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "wire/exposition/exposition_page.h"
#include "wire/exposition/exposition_parser.h"

namespace gpulens::exposition_testing {

using Lines = std::vector<std::string>;

inline std::string Hex(double value) { return std::to_string(std::bit_cast<uint64_t>(value)); }

inline std::string FamilyLine(const ExpositionFamily& family) {
  return "family " + family.name + "\x1f" +
         (family.typed || family.inferred ? std::string(ExpositionTypeName(family.type)) : "-") + "\x1f" +
         family.help + "\x1f" + family.unit;
}

// Identity of a sample: labels with empty values are as good as absent.
template <class LabelRange>
std::string CellKey(std::string_view family, const LabelRange& labels, std::string_view without,
                    SampleRole role, double bound) {
  Lines sorted;
  for (const auto& label : labels) {
    if (label.value.empty() || (!without.empty() && label.name == without)) continue;
    sorted.push_back(std::string(label.name) + "\x1f" + std::string(label.value));
  }
  std::sort(sorted.begin(), sorted.end());
  std::string key =
      std::string(family) + "\x1e" + std::to_string(static_cast<int>(role)) + "\x1e" + Hex(bound);
  for (const std::string& label : sorted) key += "\x1e" + label;
  return key;
}

inline std::string TimeText(const std::optional<int64_t>& time) { return time ? std::to_string(*time) : "-"; }

// What a fresh parse gives, without later duplicates.
class FreshParse final : public ExpositionHandler {
 public:
  FreshParse(std::string_view page, ExpositionFormat format, const ExpositionLimits& limits) {
    auto result = ParseExposition(page, format, limits, *this);
    refused = !result;
    if (result) report = *result;
    report.duplicates = duplicates_;
    std::sort(lines.begin(), lines.end());
  }
  void OnFamily(uint32_t, const ExpositionFamily& family) override {
    names_.push_back(family.name);
    lines.push_back(FamilyLine(family));
  }
  void OnSample(const SampleView& sample) override {
    std::string key =
        CellKey(names_[sample.family], sample.labels, BoundLabel(sample.role), sample.role, sample.bound);
    if (!seen_.insert(key).second) {
      ++duplicates_;
      return;
    }
    std::string line = key + "\x1e=" + Hex(sample.value) + "\x1f" + TimeText(sample.timestamp_ms);
    if (sample.exemplar) {
      line += "\x1e#" + Hex(sample.exemplar->value) + "\x1f" + TimeText(sample.exemplar->timestamp_ms);
      for (const LabelView& label : sample.exemplar->labels) {
        line += "\x1f" + std::string(label.name) + "\x1f" + std::string(label.value);
      }
    }
    lines.push_back(line);
  }

  bool refused = false;  // above a limit
  ExpositionReport report;
  Lines lines;

 private:
  std::vector<std::string> names_;
  std::set<std::string> seen_;
  size_t duplicates_ = 0;
};

inline Lines PageLines(const ParsedPage& page) {
  Lines lines;
  std::vector<uint32_t> ids;
  std::vector<PageLabel> labels;
  std::vector<PageCell> cells;
  for (const ExpositionFamily& family : page.families()) {
    if (family.alive) lines.push_back(FamilyLine(family));
  }
  page.Series(ids);
  for (uint32_t id : ids) {
    page.Labels(id, labels);
    page.Cells(id, cells);
    for (const PageCell& cell : cells) {
      if (!page.seen(cell.slot)) continue;
      std::string line =
          CellKey(page.families()[page.family_of(id)].name, labels, "", cell.role, cell.bound) +
          "\x1e=" + Hex(page.values()[cell.slot]) + "\x1f" + TimeText(page.timestamp_ms(cell.slot));
      for (const PageExemplar& exemplar : page.exemplars()) {
        if (exemplar.slot != cell.slot) continue;
        line += "\x1e#" + Hex(exemplar.value) + "\x1f" + TimeText(exemplar.timestamp_ms);
        std::vector<PageLabel> pairs;
        page.ExemplarLabels(exemplar, pairs);
        for (const PageLabel& label : pairs) line += "\x1f" + label.name + "\x1f" + label.value;
      }
      lines.push_back(line);
    }
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

// Returns the first difference between `page`, which has just read `body`, and a fresh parse; empty if they
// are equal. Pages that are cut or invalid are not compared, as series that they lack are kept.
inline std::string Difference(const ScrapedPage& page, std::string_view body, ExpositionFormat format,
                              const ExpositionLimits& limits) {
  FreshParse fresh(body, format, limits);
  const ExpositionReport &a = fresh.report, &b = page.report();
  const bool too_much = b.samples_over_limit > 0 || b.too_many_families || body.size() > limits.page_bytes;
  if (fresh.refused != too_much) return fresh.refused ? "read above a limit" : "refused within the limits";
  if (fresh.refused) return {};
  if (a.truncated || (a.samples == 0 && a.bad_lines > 0)) return {};
  auto differs = [](const char* what, size_t left, size_t right) {
    return std::string(what) + ": fresh " + std::to_string(left) + ", page " + std::to_string(right);
  };
  if (a.samples != b.samples) return differs("samples", a.samples, b.samples);
  if (a.bad_lines != b.bad_lines) return differs("bad_lines", a.bad_lines, b.bad_lines);
  if (a.by_error != b.by_error) return "by_error";
  if (a.duplicates != b.duplicates) return differs("duplicates", a.duplicates, b.duplicates);
  if (a.type_conflicts != b.type_conflicts) return differs("conflicts", a.type_conflicts, b.type_conflicts);
  if (a.open_end != b.open_end || a.truncated != b.truncated) return "end";
  Lines lines = PageLines(page);
  if (lines == fresh.lines) return {};
  auto [left, right] = std::mismatch(fresh.lines.begin(), fresh.lines.end(), lines.begin(), lines.end());
  return "fresh: " + (left == fresh.lines.end() ? "-" : *left) +
         "\npage:  " + (right == lines.end() ? "-" : *right);
}

}  // namespace gpulens::exposition_testing
