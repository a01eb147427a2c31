#include "history/series_window.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace gpulens {
namespace {

constexpr size_t kMaxAttributes = 16;

Status Wrong(std::string_view text, std::string_view why) {
  return {Code::kInvalidArgument, "selector " + Printable(text.substr(0, 100)) + ": " + std::string(why)};
}

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-' || c == '/' || c == ':';
}

std::string_view TakeName(std::string_view& rest) {
  const size_t size = static_cast<size_t>(std::ranges::find_if_not(rest, IsNameCharacter) - rest.begin());
  const std::string_view name = rest.substr(0, size);
  rest.remove_prefix(size);
  return name;
}

bool Take(std::string_view& rest, char c) {
  if (rest.empty() || rest.front() != c) return false;
  rest.remove_prefix(1);
  return true;
}

// Takes a value behind its opening quote, with the closing one. False: there is none, or a wrong escape.
bool TakeValue(std::string_view& rest, std::string& value) {
  while (!rest.empty()) {
    char c = rest.front();
    rest.remove_prefix(1);
    if (c == '"') return true;
    if (c == '\\') {
      if (rest.empty() || (rest.front() != '"' && rest.front() != '\\')) return false;
      c = rest.front();
      rest.remove_prefix(1);
    }
    value += c;
  }
  return false;
}

void TakeBlanks(std::string_view& rest) {
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
}

// What is known of one step.
struct Step {
  double min = kNotMeasured, max = kNotMeasured, last = kNotMeasured;  // of its samples
  double weighted = 0, weight = 0;  // its samples by the seconds for which they were the latest, within it
  double held = kNotMeasured;       // the value before them that was the latest
  double increase = 0, seconds = 0;
  bool fresh = false, held_fresh = false;  // not stale

  void Add(const SeriesSample& sample) {
    min = std::isnan(last) ? sample.value : std::min(min, sample.value);
    max = std::isnan(last) ? sample.value : std::max(max, sample.value);
    last = sample.value;
    fresh |= sample.mark == SeriesSample::kOk;
  }
  bool any() const { return !std::isnan(last); }
};

}  // namespace

bool SeriesSelector::Matches(std::string_view series_name, const AttributeSet& set) const {
  if (series_name != name) return false;
  return std::ranges::all_of(attributes, [&](const auto& wanted) {
    return set.Has(wanted.first) && set.Text(wanted.first) == wanted.second;
  });
}

Result<SeriesSelector> ParseSelector(std::string_view text) {
  std::string_view rest = text;
  SeriesSelector selector;
  selector.name = TakeName(rest);
  if (selector.name.empty()) return Wrong(text, "begins with the name of a metric, such as gpu.power.draw");
  if (rest.empty()) return selector;
  if (!Take(rest, '{')) return Wrong(text, "after the name comes { or nothing");
  TakeBlanks(rest);
  while (!Take(rest, '}')) {
    if (selector.attributes.size() == kMaxAttributes) return Wrong(text, "has more than 16 attributes");
    std::pair<std::string, std::string> attribute;
    attribute.first = TakeName(rest);
    if (attribute.first.empty()) return Wrong(text, "an attribute's name is missing");
    if (!Take(rest, '=') || !Take(rest, '"')) return Wrong(text, "an attribute is written name=\"value\"");
    if (!TakeValue(rest, attribute.second))
      return Wrong(text, "a value ends with a quote; within it \\\" and \\\\ are escapes");
    selector.attributes.push_back(std::move(attribute));
    TakeBlanks(rest);
    if (Take(rest, ',')) TakeBlanks(rest);
    else if (!rest.starts_with('}')) return Wrong(text, "after an attribute comes , or }");
  }
  if (!rest.empty()) return Wrong(text, "after } comes nothing");
  return selector;
}

SteppedSeries ToSteps(const SeriesWindow& window, int64_t from_ms, int64_t to_ms, int64_t step_ms) {
  SteppedSeries out;
  out.start_ms = from_ms;
  out.step_ms = step_ms;
  if (step_ms <= 0 || to_ms <= from_ms) return out;
  const int64_t count = (to_ms - from_ms + step_ms - 1) / step_ms;
  const int64_t end_ms = from_ms + count * step_ms;
  std::vector<Step> steps(static_cast<size_t>(count));
  const bool counter = IsMonotonic(window.series.kind);
  // Calls `use(step, seconds)` for each step with the time of it that lies in [begin, end).
  const auto spread = [&](int64_t begin, int64_t end, const auto& use) {
    begin = std::max(begin, from_ms);
    end = std::min(end, end_ms);
    while (begin < end) {
      const int64_t i = (begin - from_ms) / step_ms;
      const int64_t until = std::min(end, from_ms + (i + 1) * step_ms);
      use(steps[static_cast<size_t>(i)], static_cast<double>(until - begin) / 1000);
      begin = until;
    }
  };
  // The last value holds until it is clear that the next one is missing.
  const int64_t holds =
      2 * std::chrono::duration_cast<std::chrono::milliseconds>(window.series.period).count();
  const SeriesSample* counted = nullptr;  // the last good one of a counter, since a gap or reset
  for (size_t i = 0; i < window.samples.size(); ++i) {
    const SeriesSample& sample = window.samples[i];
    const SeriesSample* next = i + 1 < window.samples.size() ? &window.samples[i + 1] : nullptr;
    if (sample.mark == SeriesSample::kGap || sample.reset) counted = nullptr;
    if (sample.mark == SeriesSample::kGap) continue;
    Step* own = nullptr;
    if (sample.unix_ms >= from_ms && sample.unix_ms < end_ms) {
      own = &steps[static_cast<size_t>((sample.unix_ms - from_ms) / step_ms)];
      own->Add(sample);
    }
    const int64_t end = next ? next->unix_ms : std::min(to_ms, holds > 0 ? sample.unix_ms + holds : to_ms);
    spread(sample.unix_ms, end, [&](Step& step, double seconds) {
      if (&step == own) {
        step.weighted += sample.value * seconds;
        step.weight += seconds;
      } else {
        step.held = sample.value;
        step.held_fresh = sample.mark == SeriesSample::kOk;
      }
    });
    // A stale value is an old one: it shows no increase, and not that there was none.
    if (!counter || sample.mark == SeriesSample::kStale) continue;
    const SeriesSample* before = std::exchange(counted, &sample);
    if (!before || sample.value < before->value) continue;
    const double per_second =
        (sample.value - before->value) * 1000 / static_cast<double>(sample.unix_ms - before->unix_ms);
    spread(before->unix_ms, sample.unix_ms, [&](Step& step, double seconds) {
      step.increase += per_second * seconds;
      step.seconds += seconds;
    });
  }
  for (const Step& step : steps) {
    out.last.push_back(step.any() ? step.last : step.held);
    out.stale.push_back(step.any() ? !step.fresh : !std::isnan(step.held) && !step.held_fresh);
    if (counter) {
      out.rate.push_back(step.seconds > 0 ? step.increase / step.seconds : kNotMeasured);
      continue;
    }
    out.min.push_back(step.any() ? step.min : step.held);
    out.max.push_back(step.any() ? step.max : step.held);
    out.avg.push_back(step.weight > 0 ? step.weighted / step.weight : out.last.back());
  }
  return out;
}

}  // namespace gpulens
