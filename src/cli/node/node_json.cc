#include "cli/node/node_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>

#include "base/json.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens {

namespace {

constexpr size_t kMostDepth = 16;
constexpr size_t kMostAttributes = 128;
constexpr double kMostMs = 9e12;  // in nanoseconds, too, a time fits: it is in the year 2255

bool IsTime(double ms) { return ms >= -kMostMs && ms <= kMostMs; }

// A time out of range is 0.
int64_t Milliseconds(JsonScanner& json) {
  const double value = json.Double().value_or(0);
  return IsTime(value) ? static_cast<int64_t>(value) : 0;
}

uint32_t SeriesId(JsonScanner& json) {
  const auto id = json.Unsigned();
  if (id && *id <= UINT32_MAX) return static_cast<uint32_t>(*id);
  json.Fail("a number of a series is out of range");
  return 0;
}

// A number; null and all else is kNotMeasured.
double NumberOrGap(JsonScanner& json) { return json.Double().value_or(kNotMeasured); }

AttributeSet ReadAttributes(JsonScanner& json) {
  std::deque<std::string> texts;  // their addresses stay
  std::vector<AttributeSet::Attribute> attributes;
  json.Object([&](std::string_view key) {
    if (attributes.size() >= kMostAttributes || key.size() > 1024) return;
    AttributeSet::Value value;
    switch (json.Peek()) {
      case JsonScanner::kString: value = std::string_view(texts.emplace_back(json.Text())); break;
      case JsonScanner::kTrue:
      case JsonScanner::kFalse: value = json.Bool().value_or(false); break;
      case JsonScanner::kNumber: {
        std::string_view number;
        if (!json.Number(number)) return;
        if (const auto whole = ParseInt<int64_t>(number)) value = *whole;
        else value = ParseDouble(number).value_or(kNotMeasured);
        break;
      }
      default: return;
    }
    attributes.push_back({texts.emplace_back(key), value});
  });
  return AttributeSet(std::span<const AttributeSet::Attribute>(attributes));
}

Kind KindOf(std::string_view name) {
  for (Kind kind : {Kind::kGauge, Kind::kCounter, Kind::kUpDownCounter, Kind::kHistogram,
                    Kind::kGaugeHistogram, Kind::kSummary, Kind::kInfo, Kind::kStateSet}) {
    if (KindName(kind) == name) return kind;
  }
  return Kind::kUnknown;
}

// 0: not known, or out of range.
double Seconds(JsonScanner& json) {
  const double seconds = json.Double().value_or(0);
  return seconds > 0 && seconds < 1e6 ? seconds : 0;
}

Duration PeriodOf(JsonScanner& json) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(Seconds(json)));
}

// Reads a member of a series; false for another one.
bool ReadSeriesMember(JsonScanner& json, std::string_view key, KeptSeries& series) {
  if (key == "id") series.id = SeriesId(json);
  else if (key == "name") series.name = json.Text();
  else if (key == "unit") series.unit = json.Text();
  else if (key == "kind") series.kind = KindOf(json.Text());
  else if (key == "attributes") series.attributes = ReadAttributes(json);
  else if (key == "source") series.source = json.Text();
  else if (key == "period_s") series.period = PeriodOf(json);
  else return false;
  return true;
}

void ReadNumbers(JsonScanner& json, std::vector<double>& out, size_t& left) {
  json.Array([&] {
    if (left == 0) return static_cast<void>(json.Fail("too many samples", Code::kExhausted));
    --left;
    out.push_back(NumberOrGap(json));
  });
}

// One series of /api/history as it is in the page.
struct PageSeries {
  KeptSeries series;
  std::vector<double> at, value, start, stale, resets;
  SteppedSeries steps;
};

void ReadPageSeries(JsonScanner& json, PageSeries& out, size_t& left) {
  const std::pair<std::string_view, std::vector<double>*> arrays[] = {
      {"at", &out.at},         {"value", &out.value},     {"stale", &out.stale},
      {"resets", &out.resets}, {"min", &out.steps.min},   {"avg", &out.steps.avg},
      {"max", &out.steps.max}, {"last", &out.steps.last}, {"rate", &out.steps.rate}};
  json.Object([&](std::string_view key) {
    if (ReadSeriesMember(json, key, out.series)) return;
    if (key == "start") {
      out.steps.start_ms = Milliseconds(json);
      return;
    }
    for (const auto& [name, numbers] : arrays) {
      if (name == key) return ReadNumbers(json, *numbers, left);
    }
  });
}

// Calls `use(position)` for those of `positions` that are below `size`.
template <class Use>
void ForPositions(const std::vector<double>& positions, size_t size, Use use) {
  for (double position : positions) {
    if (position >= 0 && position < static_cast<double>(size)) use(static_cast<size_t>(position));
  }
}

Status TakeSamples(PageSeries& page, SeriesWindow& out) {
  if (page.at.size() != page.value.size())
    return {Code::kDataLoss, "a series has another number of times than of values"};
  out.samples.resize(page.at.size());
  for (size_t i = 0; i < page.at.size(); ++i) {
    SeriesSample& sample = out.samples[i];
    if (!IsTime(page.at[i])) return {Code::kDataLoss, "a time is no time"};
    sample.unix_ms = static_cast<int64_t>(page.at[i]);
    if (i > 0 && sample.unix_ms < out.samples[i - 1].unix_ms)
      return {Code::kDataLoss, "the times of a series go back"};
    sample.value = page.value[i];
    if (std::isnan(sample.value)) sample.mark = SeriesSample::kGap;
  }
  ForPositions(page.stale, out.samples.size(), [&](size_t i) {
    if (out.samples[i].mark == SeriesSample::kOk) out.samples[i].mark = SeriesSample::kStale;
  });
  ForPositions(page.resets, out.samples.size(), [&](size_t i) { out.samples[i].reset = true; });
  return Ok();
}

Status TakeSteps(PageSeries& page, int64_t step_ms) {
  SteppedSeries& steps = page.steps;
  steps.step_ms = step_ms;
  size_t count = 0;
  for (const auto* numbers : {&steps.min, &steps.avg, &steps.max, &steps.last, &steps.rate})
    count = std::max(count, numbers->size());
  for (const auto* numbers : {&steps.min, &steps.avg, &steps.max, &steps.last, &steps.rate}) {
    if (!numbers->empty() && numbers->size() != count)
      return {Code::kDataLoss, "the statistics of a series have different numbers of steps"};
  }
  steps.stale.assign(count, 0);
  ForPositions(page.stale, count, [&](size_t i) { steps.stale[i] = 1; });
  return Ok();
}

Status CheckSchema(const JsonScanner& json, std::string_view schema, std::string_view wanted) {
  if (json.failed() || schema == wanted) return Ok();
  return {Code::kDataLoss, "not the page " + std::string(wanted) + ", but " +
                               (schema.empty() ? "one without a schema" : Printable(schema.substr(0, 60)))};
}

}  // namespace

Result<NodeNow> ParseNodeNow(std::string_view text) {
  JsonScanner json(text, kMostDepth);
  NodeNow now;
  std::string schema;
  std::vector<std::pair<uint32_t, int64_t>> stale;
  json.Object([&](std::string_view key) {
    if (key == "schema") schema = json.Text();
    else if (key == "node") now.node = ReadAttributes(json);
    else if (key == "version") now.version = json.Text();
    else if (key == "simulated") now.simulated = json.Bool().value_or(false);
    else if (key == "at") now.at_ms = Milliseconds(json);
    else if (key == "tick") now.tick = json.Unsigned().value_or(0);
    else if (key == "interval_s") now.interval_s = Seconds(json);
    else if (key == "layout") now.layout = json.Unsigned().value_or(0);
    else if (key == "history") {
      json.Object([&](std::string_view member) {
        if (member == "window_s") now.history_s = Seconds(json);
        else if (member == "begin") now.history_begin_ms = Milliseconds(json);
      });
    } else if (key == "series") {
      now.series.emplace();
      json.Array([&] {
        if (now.series->size() >= kMostNodeSeries)
          return static_cast<void>(json.Fail("too many series", Code::kExhausted));
        KeptSeries series;
        json.Object([&](std::string_view member) { ReadSeriesMember(json, member, series); });
        now.series->push_back(std::move(series));
      });
    } else if (key == "read") {
      json.Object([&](std::string_view source) {
        if (now.read.size() >= kMostNodeSeries) return;
        std::string name(source);
        now.read.emplace_back(std::move(name), Milliseconds(json));
      });
    } else if (key == "v" || key == "stale") {
      const bool values = key == "v";
      bool second = false;
      uint32_t id = 0;
      json.Array([&] {
        if (now.values.size() + stale.size() > 2 * kMostNodeSeries)
          return static_cast<void>(json.Fail("too many values", Code::kExhausted));
        if (!second) id = SeriesId(json);
        else if (values) now.values.push_back({id, NumberOrGap(json), 0});
        else stale.emplace_back(id, Milliseconds(json));
        second = !second;
      });
      if (second) json.Fail("a value has no pair");
    }
  });
  RETURN_IF_ERROR(json.Finish());
  RETURN_IF_ERROR(CheckSchema(json, schema, "gpulens.now/1"));
  std::erase_if(now.values, [](const NodeValue& value) { return std::isnan(value.value); });
  std::ranges::sort(now.values, {}, &NodeValue::id);
  for (const auto& [id, age_ms] : stale) {
    auto at = std::ranges::lower_bound(now.values, id, {}, &NodeValue::id);
    if (at != now.values.end() && at->id == id) at->stale_ms = std::max<int64_t>(age_ms, 1);
  }
  return now;
}

Result<NodeHistory> ParseNodeHistory(std::string_view text) {
  JsonScanner json(text, kMostDepth);
  NodeHistory history;
  std::string schema;
  std::vector<PageSeries> pages;
  size_t left = kMostNodeSamples;
  json.Object([&](std::string_view key) {
    if (key == "schema") schema = json.Text();
    else if (key == "from") history.from_ms = Milliseconds(json);
    else if (key == "to") history.to_ms = Milliseconds(json);
    else if (key == "begin") history.begin_ms = Milliseconds(json);
    else if (key == "step_s") history.step_s = json.Double().value_or(0);
    else if (key == "series") {
      json.Array([&] {
        if (pages.size() >= kMostNodeSeries)
          return static_cast<void>(json.Fail("too many series", Code::kExhausted));
        ReadPageSeries(json, pages.emplace_back(), left);
      });
    }
  });
  RETURN_IF_ERROR(json.Finish());
  RETURN_IF_ERROR(CheckSchema(json, schema, "gpulens.history/1"));
  const bool stepped = history.step_s > 0 && history.step_s < 1e9;
  if (history.step_s != 0 && !stepped) return Status{Code::kDataLoss, "step_s is no time"};
  const auto step_ms = stepped ? std::max<int64_t>(1, std::llround(history.step_s * 1000)) : 0;
  for (PageSeries& page : pages) {
    SeriesWindow window;
    if (stepped) {
      RETURN_IF_ERROR(TakeSteps(page, step_ms));
      history.stepped.push_back(std::move(page.steps));
    } else {
      RETURN_IF_ERROR(TakeSamples(page, window));
    }
    window.series = std::move(page.series);
    history.series.push_back(std::move(window));
  }
  return history;
}

Result<std::vector<NodeEvent>> ParseNodeEvents(std::string_view text) {
  JsonScanner json(text, kMostDepth);
  std::vector<NodeEvent> events;
  std::string schema;
  json.Object([&](std::string_view key) {
    if (key == "schema") schema = json.Text();
    if (key != "events") return;
    json.Array([&] {
      if (events.size() >= kMostNodeEvents)
        return static_cast<void>(json.Fail("too many events", Code::kExhausted));
      NodeEvent& event = events.emplace_back();
      json.Object([&](std::string_view member) {
        if (member == "at") event.at_ms = Milliseconds(json);
        else if (member == "name") event.name = json.Text();
        else if (member == "severity") event.severity = json.Text();
        else if (member == "body") event.body = json.Text();
        else if (member == "attributes") event.attributes = ReadAttributes(json);
      });
    });
  });
  RETURN_IF_ERROR(json.Finish());
  RETURN_IF_ERROR(CheckSchema(json, schema, "gpulens.events/1"));
  return events;
}

std::string NodeTarget(std::string_view path,
                       const std::vector<std::pair<std::string_view, std::string>>& parameters) {
  std::string target(path);
  char between = '?';
  for (const auto& [name, value] : parameters) {
    target += between;
    target.append(name).append(1, '=').append(PercentEncoded(value));
    between = '&';
  }
  return target;
}

}  // namespace gpulens
