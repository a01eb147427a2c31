// Names of series on exposition pages, and the functions that make them.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/layout.h"

namespace gpulens {

struct Snapshot;

// A series as an encoder writes it. A plain value.
struct NamedSeries {
  std::string name = {};  // of samples: with `_total` or `_info`; of histograms without suffix
  std::string unit = {};  // the word of Prometheus ("bytes"), or empty; for OpenMetrics only
  std::string_view help = {};
  Kind kind = Kind::kGauge;
  std::vector<std::pair<std::string, std::string>> labels = {};  // in order of output
  double scale = 1;
  bool whole = false;        // round after scaling
  bool only_if_set = false;  // a state of a set, written only while its value is not 0
  // Another family has the name that OpenMetrics would give this one (without `_total`), so there it has type
  // unknown and its full name.
  bool name_taken = false;
};

// Appends all names of a series; none hides it. Without `refresh` names depend on the series alone, else on
// the snapshot too. For one user, on one thread at a time.
class SeriesNamer {
 public:
  using NameFunction = std::function<void(const SeriesInfo& series, std::vector<NamedSeries>& out)>;
  using RefreshFunction = std::function<bool(const Snapshot& snapshot)>;

  template <class MakeNames>
    requires std::invocable<MakeNames&, const SeriesInfo&, std::vector<NamedSeries>&>
  SeriesNamer(MakeNames make_names) : make_names_(std::move(make_names)) {}
  SeriesNamer(NameFunction make_names, RefreshFunction refresh)
      : make_names_(std::move(make_names)), refresh_(std::move(refresh)) {}

  void operator()(const SeriesInfo& series, std::vector<NamedSeries>& out) const { make_names_(series, out); }
  // Call when layouts or the resource have changed. True: earlier names may have changed.
  bool Refresh(const Snapshot& snapshot) const { return refresh_ && refresh_(snapshot); }

 private:
  NameFunction make_names_;
  RefreshFunction refresh_;
};

// For outputs with native names and typed attributes: whether a series is exported, and a change of its
// `attributes`. Empty: all, unchanged.
using AttributeFilter = std::function<bool(const SeriesInfo& series, AttributeSet& attributes)>;

}  // namespace gpulens
