#include <algorithm>
#include <array>
#include <cmath>

#include "agent/api/history_pages.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "wire/json/json_object.h"

namespace gpulens {
namespace {

constexpr size_t kMaxSamples = 2'000'000;  // of an answer, or steps of all series
constexpr size_t kMaxSteps = 100'000;      // of a series: more than a screen, and a day of seconds, has
constexpr int64_t kDefaultWindowMs = 300'000;

enum Values : unsigned { kMin = 1, kAvg = 2, kMax = 4, kLast = 8, kRate = 16 };
constexpr std::array<std::pair<std::string_view, unsigned>, 5> kValues = {
    {{"min", kMin}, {"avg", kAvg}, {"max", kMax}, {"last", kLast}, {"rate", kRate}}};

struct Query {
  std::vector<SeriesSelector> selectors;
  int64_t from = 0, to = 0, step = 0;  // step 0: the samples
  unsigned values = kMin | kAvg | kMax | kLast | kRate;
};

Status Wrong(std::string detail) { return {Code::kInvalidArgument, std::move(detail)}; }

Result<unsigned> ValuesOf(std::string_view text) {
  unsigned values = 0;
  while (!text.empty()) {
    const std::string_view word = TakeUntil(text, ',');
    const auto found = std::ranges::find(kValues, word, &decltype(kValues)::value_type::first);
    if (found == kValues.end()) return Wrong("values are some of min, avg, max, last, rate");
    values |= found->second;
  }
  return values;
}

Result<Query> ParseQuery(const ApiRequest& request, const NodeReadings& readings) {
  Query query;
  for (const auto& [name, value] : request.parameters) {
    constexpr std::string_view kNames[] = {"select", "window", "end", "step", "values"};
    if (std::ranges::find(kNames, name) == std::end(kNames))
      return Wrong("there is no parameter " + Printable(name) + "; select, window, end, step, values");
  }
  for (std::string_view text : request.All("select")) {
    ASSIGN_OR_RETURN(SeriesSelector selector, ParseSelector(text));
    query.selectors.push_back(std::move(selector));
  }
  int64_t window = kDefaultWindowMs;
  if (const std::string* text = request.Find("window")) {
    ASSIGN_OR_RETURN(window, MillisecondsOf("window", *text));
  }
  query.to = readings.clock->Now().unix_ns / 1'000'000;
  if (const std::string* text = request.Find("end")) {
    const auto end = ParseInt<int64_t>(*text);
    if (!end || *end < 0 || *end > int64_t{1} << 53) return Wrong("end is a time in ms since 1970");
    query.to = *end;
  }
  query.from = query.to - window;
  if (const std::string* text = request.Find("step")) {
    ASSIGN_OR_RETURN(query.step, MillisecondsOf("step", *text));
  }
  if (const std::string* text = request.Find("values")) {
    if (query.step == 0) return Wrong("values needs step");
    ASSIGN_OR_RETURN(query.values, ValuesOf(*text));
  }
  return query;
}

template <class Items, class Write>
void AppendList(std::string& out, const Items& items, Write write) {
  out += '[';
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += ',';
    first = false;
    write(item);
  }
  out += ']';
}

void AppendNumbers(JsonObject& object, std::string& out, std::string_view key,
                   const std::vector<double>& numbers) {
  if (numbers.empty()) return;
  object.Key(key);
  AppendList(out, numbers, [&](double number) { AppendJsonNumber(out, number); });
}

// Appends the positions of those items for which `is` holds.
template <class Items, class Is>
void AppendPositions(JsonObject& object, std::string& out, std::string_view key, const Items& items, Is is) {
  if (std::ranges::none_of(items, is)) return;
  std::vector<size_t> positions;
  for (size_t i = 0; i < items.size(); ++i) {
    if (is(items[i])) positions.push_back(i);
  }
  object.Key(key);
  AppendList(out, positions, [&](size_t position) { out += std::to_string(position); });
}

void AppendSamples(JsonObject& object, std::string& out, const SeriesWindow& window) {
  object.Key("at");
  AppendList(out, window.samples, [&](const SeriesSample& sample) { out += std::to_string(sample.unix_ms); });
  object.Key("value");
  AppendList(out, window.samples, [&](const SeriesSample& sample) { AppendJsonNumber(out, sample.value); });
  AppendPositions(object, out, "stale", window.samples,
                  [](const SeriesSample& s) { return s.mark == SeriesSample::kStale; });
  AppendPositions(object, out, "resets", window.samples, [](const SeriesSample& s) { return s.reset; });
}

void AppendSteps(JsonObject& object, std::string& out, const SeriesWindow& window, const Query& query) {
  const SteppedSeries steps = ToSteps(window, query.from, query.to, query.step);
  object.Whole("start", steps.start_ms);
  const std::vector<double>* const lists[] = {&steps.min, &steps.avg, &steps.max, &steps.last, &steps.rate};
  for (size_t i = 0; i < kValues.size(); ++i) {
    if (query.values & kValues[i].second) AppendNumbers(object, out, kValues[i].first, *lists[i]);
  }
  AppendPositions(object, out, "stale", steps.stale, [](uint8_t stale) { return stale != 0; });
}

}  // namespace

Result<int64_t> MillisecondsOf(std::string_view parameter, std::string_view text) {
  constexpr std::pair<std::string_view, int64_t> kUnits[] = {
      {"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}};
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = ParseInt<int64_t>(text.substr(0, digits));
  for (const auto& [unit, ms] : kUnits) {
    if (number && *number > 0 && *number <= 1'000'000'000 && text.substr(digits) == unit) return *number * ms;
  }
  return Wrong(std::string(parameter) + " is a time such as 500ms, 5s, 5m or 1h");
}

void AddHistoryPage(Api& api, const NodeReadings& readings) {
  api.Add("/api/history", [readings](const ApiRequest& request) -> Result<std::string> {
    ASSIGN_OR_RETURN(const Query query, ParseQuery(request, readings));
    BeginHistory(readings);
    const size_t steps = query.step > 0 ? static_cast<size_t>((query.to - query.from) / query.step + 1) : 0;
    if (steps > kMaxSteps) return Status{Code::kExhausted, "more than 100000 steps; take a longer step"};
    ASSIGN_OR_RETURN(const std::vector<SeriesWindow> windows,
                     readings.history->Read(query.selectors, query.from, query.to, kMaxSamples));
    if (steps * windows.size() > kMaxSamples)
      return Status{Code::kExhausted,
                    "more than 2000000 steps of all series; take a longer step, or fewer series"};
    const History::Stats stats = readings.history->stats();
    std::string out;
    {
      JsonObject page(out);
      page.Text("schema", "gpulens.history/1");
      page.Whole("from", query.from);
      page.Whole("to", query.to);
      if (stats.begin_ms == 0) page.Raw("begin", "null");
      else page.Whole("begin", stats.begin_ms);
      if (query.step > 0) page.Number("step_s", static_cast<double>(query.step) / 1000);
      page.List("series", windows, [&](std::string& text, const SeriesWindow& window) {
        AppendSeriesJson(text, window.series);
        text.pop_back();  // of the object, which goes on
        std::string more;
        {
          JsonObject object(more);
          if (query.step > 0) AppendSteps(object, more, window, query);
          else AppendSamples(object, more, window);
        }
        more.front() = ',';
        text += more;
      });
    }
    return out;
  });
}

}  // namespace gpulens
