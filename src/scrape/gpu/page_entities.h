// Which GPU, and which part of it, a series of a page is about: read from its labels.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/layout.h"
#include "scrape/gpu/page_row.h"
#include "wire/exposition/exposition_page.h"

namespace gpulens::gpu_page {

// The value of a label, its name compared without regard to case; empty when it is not there.
std::string_view LabelOf(const std::vector<PageLabel>& labels, std::string_view name) noexcept;

// What one series is about. Views into its labels.
struct Subject {
  EntityRef whole;       // the GPU, without workload when the series is of a part; null: no GPU is named
  EntityRef part;        // the part with its workload; null: the series is of the whole
  std::string_view gpu;  // what the GPU is told apart by
  uint64_t part_number = 0;
  bool first_part = true;  // no other part repeats the numbers of the whole
  bool taken = true;       // false: another aggregation than the one that is read, or a part's own number
};

// Keeps entities by what they are known by, so that one GPU stays one object while it is on the page. Not
// thread-safe.
class Entities {
 public:
  // `more` are attributes that each of them gets.
  Entities(const PageLabels* labels, std::vector<std::pair<std::string, std::string>> more)
      : labels_(labels), more_(std::move(more)) {}

  void SetLabels(const PageLabels* labels) { labels_ = labels; }
  Subject Of(const std::vector<PageLabel>& labels);
  // Of an NVSwitch; null when none is named.
  EntityRef SwitchOf(const std::vector<PageLabel>& labels);
  // Attributes from labels by a list of pairs, the first of equal keys.
  AttributeSet Pick(const std::vector<PageLabel>& labels, std::span<const LabelPair> pairs,
                    std::span<const AttributeSet::Attribute> first = {}) const;
  // Drops what was not asked for since the last call.
  void Forget();

 private:
  struct Known {
    EntityRef entity;
    uint64_t used = 0;
  };
  std::string_view FirstOf(const std::vector<PageLabel>& labels,
                           std::span<const std::string_view> names) const noexcept;
  std::string_view PartOf(const std::vector<PageLabel>& labels) const noexcept;
  EntityRef Keep(std::string_view type, std::vector<AttributeSet::Attribute> attributes, EntityRef parent);
  void AddWorkload(const std::vector<PageLabel>& labels,
                   std::vector<AttributeSet::Attribute>& attributes) const;

  const PageLabels* labels_;
  const std::vector<std::pair<std::string, std::string>> more_;
  std::map<std::string, Known, std::less<>> known_;
  uint64_t round_ = 1;
};

}  // namespace gpulens::gpu_page
