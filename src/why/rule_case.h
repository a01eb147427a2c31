// One rule looking at one subject: its tracks, and how a rule reports what it found.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "why/node_series.h"

namespace gpulens::why_detail {

// How a condition went over the seconds that a rule looks at.
struct Held {
  double share = 0;  // of all these seconds, unknown ones do not count as held
  size_t seconds = 0;
  bool now = false;  // within the last seconds
  int64_t since_ms = 0;
  bool since_begin = false;
};

// What an evaluator returns: nothing found, a finding without its rule and subject, or why it cannot know.
struct Verdict {
  std::optional<WhyFinding> finding;
  std::string unknown;
};

class RuleCase {
 public:
  RuleCase(const WhyRule& rule, const NodeSeries& node, WhySubject subject);

  const WhyRule& rule;
  const NodeSeries& node;
  const WhySubject subject;
  std::vector<Track> tracks;  // one a role

  // Why a needed track does not suffice; empty: all do. `wait` grows to the seconds after which they do.
  std::string Missing(int& wait) const;
  std::string MissingOf(const Track& track, const WhyRole& role, int& wait) const;

  double At(size_t role, size_t i) const { return tracks[role].values[i]; }
  double Mean(size_t role) const { return tracks[role].Mean(static_cast<size_t>(rule.seconds)); }
  double Now(size_t role) const { return tracks[role].Now(); }
  bool Knows(size_t role) const { return tracks[role].KnownIn(static_cast<size_t>(rule.seconds)) > 0; }
  size_t size() const { return static_cast<size_t>(node.lookback()); }
  size_t first() const { return size() - std::min(size(), static_cast<size_t>(rule.seconds)); }

  // `holds(i)`: 1, 0, or -1 for unknown, for second i.
  template <class Holds>
  Held Hold(Holds holds) const {
    Held held;
    const size_t end = size(), fresh = static_cast<size_t>(tracks.empty() ? 10 : tracks[0].fresh) + 5;
    for (size_t i = first(); i < end; ++i) {
      if (holds(i) != 1) continue;
      ++held.seconds;
      if (i + fresh >= end) held.now = true;
    }
    held.share = static_cast<double>(held.seconds) / rule.seconds;
    size_t begin = end, without = 0;
    for (size_t i = end; i > 0 && without <= fresh; --i) {
      if (holds(i - 1) == 1) begin = i - 1, without = 0;
      else ++without;
    }
    held.since_ms = node.to_ms() - static_cast<int64_t>(end - begin) * 1000;
    held.since_begin = begin <= 1;
    return held;
  }
  // The mean of a track over the seconds in which `holds`.
  template <class Holds>
  double MeanWhile(size_t role, Holds holds) const {
    double sum = 0, count = 0;
    for (size_t i = first(); i < size(); ++i)
      if (double value = At(role, i); holds(i) == 1 && !std::isnan(value)) sum += value, ++count;
    return count > 0 ? sum / count : kNotMeasured;
  }

  // A finding with the evidence of `roles` that are known: means over the rule's time, of counters their
  // growth a second.
  WhyFinding Found(const Held& held, std::string sentence, std::initializer_list<size_t> roles,
                   WhyCost cost = {}) const;
  WhyEvidence Evidence(const Track& track) const;
};

// "83 %", "0.4 %", "612", "1,980".
std::string Percent(double share);
std::string Whole(double value);

// The evaluator of a rule. `rule.roles` are all read, and the needed ones suffice.
using Evaluator = Verdict (*)(const RuleCase&);
Evaluator EvaluatorOf(size_t rule_index) noexcept;

}  // namespace gpulens::why_detail
