// The labels of a page's series as the rules of its target want them.
#pragma once

#include <utility>
#include <vector>

#include "scrape/series_rules.h"
#include "scrape/top_values.h"

namespace gpulens {

// Follows one ScrapedPage; whoever makes series of ours from it asks here for labels in place of the page:
//
//   labels.Follow();                  // whenever the page's generation changed
//   labels.Labels(series, labels_);   // in place of page.Labels
//
// Different series may have equal labels then; it is for the caller to combine them. Not thread-safe.
class GovernedLabels {
 public:
  GovernedLabels(const ScrapedPage& page, SeriesRules rules);

  bool active() const noexcept { return !rules_.empty(); }
  const SeriesRules& rules() const noexcept { return rules_; }
  // After each Update with another generation. Ranks values by what the page says now.
  void Follow();
  // Of a living series, without those that have no value. Whether they differ from the page's.
  bool Labels(uint32_t series, std::vector<PageLabel>& out) const;

 private:
  double Weight(uint32_t series);

  const ScrapedPage& page_;
  const SeriesRules rules_;
  std::vector<TopValues> tops_;  // beside rules_.top
  std::vector<PageLabel> labels_;
  std::vector<PageCell> cells_;
};

}  // namespace gpulens
