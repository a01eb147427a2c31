#include "scrape/governed_labels.h"

namespace gpulens {

GovernedLabels::GovernedLabels(const ScrapedPage& page, SeriesRules rules)
    : page_(page), rules_(std::move(rules)) {
  for (const SeriesRules::Top& top : rules_.top) tops_.emplace_back(top.keep);
}

void GovernedLabels::Follow() {
  for (size_t i = 0; i < tops_.size(); ++i) {
    const SeriesRules::Top& rule = rules_.top[i];
    for (uint32_t series : page_.vanished()) tops_[i].Vanish(series);
    for (uint32_t series : page_.appeared()) {
      uint32_t family = page_.family_of(series);
      if (!rule.For(page_.families()[family].name)) continue;
      page_.Labels(series, labels_);
      for (const PageLabel& label : labels_) {
        if (label.name != rule.label || label.value.empty()) continue;
        tops_[i].Appear(series, family, label.value, Weight(series));
      }
    }
    tops_[i].Rank();
  }
}

// How much a series stands for: its number; of a histogram or summary, how often.
double GovernedLabels::Weight(uint32_t series) {
  page_.Cells(series, cells_);
  double weight = 0;
  for (const PageCell& cell : cells_) {
    bool tells =
        cell.role == SampleRole::kValue || cell.role == SampleRole::kCount || cell.role == SampleRole::kState;
    if (tells) weight = page_.values()[cell.slot];
  }
  return weight;
}

bool GovernedLabels::Labels(uint32_t series, std::vector<PageLabel>& out) const {
  page_.Labels(series, out);
  std::erase_if(out, [](const PageLabel& label) { return label.value.empty(); });
  bool changed = false;
  for (size_t i = 0; i < tops_.size(); ++i) {
    if (!tops_[i].Folds(series)) continue;
    for (PageLabel& label : out) {
      if (label.name != rules_.top[i].label || label.value == kOtherValue) continue;
      label.value = kOtherValue;
      changed = true;
    }
  }
  return rules_.Apply(out) || changed;
}

}  // namespace gpulens
