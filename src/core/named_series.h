// How a series is called on an exposition page: what dialects make and encoders write.
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

// One way a series is written. A plain value.
struct NamedSeries {
  std::string name = {};  // as samples carry it: with `_total` or `_info`; histograms without suffix
  std::string unit = {};  // the Prometheus word ("bytes"), or empty; only OpenMetrics shows it
  std::string_view help = {};
  Kind kind = Kind::kGauge;
  std::vector<std::pair<std::string, std::string>> labels = {};  // in the order to be written
  double scale = 1;
  bool whole = false;        // after scaling, the number is rounded to a whole one
  bool only_if_set = false;  // one state of a set, shown only while its value is not 0
  // Another family has the name that OpenMetrics would give this one (without `_total`): there it is
  // told as unknown, under its whole name.
  bool name_taken = false;
};

// Appends every spelling of a series; none hides it. A plain function does where the series alone tells
// how it is called; one that must know more of a tick has a look at it first.
//
// For one user, on one thread at a time.
class SeriesNamer {
 public:
  using NameFunction = std::function<void(const SeriesInfo& series, std::vector<NamedSeries>& out)>;
  using LookAt = std::function<bool(const Snapshot& snapshot)>;

  template <class MakeNames>
    requires std::invocable<MakeNames&, const SeriesInfo&, std::vector<NamedSeries>&>
  SeriesNamer(MakeNames make_names) : make_names_(std::move(make_names)) {}
  SeriesNamer(NameFunction make_names, LookAt look)
      : make_names_(std::move(make_names)), look_(std::move(look)) {}

  void operator()(const SeriesInfo& series, std::vector<NamedSeries>& out) const { make_names_(series, out); }
  // To be called when layouts or the resource have changed. True: what was spelt before may be called
  // differently now.
  bool Look(const Snapshot& snapshot) const { return look_ && look_(snapshot); }

 private:
  NameFunction make_names_;
  LookAt look_;
};

// For outputs that tell native names with typed attributes: whether a series is told at all, and with which
// attributes in place of its own, which `attributes` holds before. Empty: all are, as they are.
using AttributeFilter = std::function<bool(const SeriesInfo& series, AttributeSet& attributes)>;

}  // namespace gpulens
