#include <cmath>

#include "agent/api/history_pages.h"
#include "base/parse.h"
#include "base/version.h"
#include "wire/json/json_object.h"

namespace gpulens {
namespace {

double SecondsOf(Duration time) { return std::chrono::duration<double>(time).count(); }

// Appends pairs: `write(i)` of those elements for which it returns true.
template <class Write>
void AppendPairs(std::string& out, size_t count, Write write) {
  out += '[';
  bool first = true;
  for (size_t i = 0; i < count; ++i) {
    const size_t before = out.size();
    if (!first) out += ',';
    if (write(i)) first = false;
    else out.resize(before);
  }
  out += ']';
}

}  // namespace

void AppendSeriesJson(std::string& out, const KeptSeries& series) {
  JsonObject object(out);
  object.Count("id", series.id);
  object.Text("name", series.name);
  object.Text("unit", series.unit);
  object.Text("kind", KindName(series.kind));
  AppendJsonAttributes(object.Key("attributes"), series.attributes);
  object.Text("source", series.source);
  if (series.period.count() > 0) object.Number("period_s", SecondsOf(series.period));
}

std::string NowJson(const NodeReadings& readings, const History::Current& current, bool with_series) {
  std::string out;
  const History::Stats stats = readings.history->stats();
  {
    JsonObject page(out);
    page.Text("schema", "gpulens.now/1");
    page.Text("type", "full");
    AppendJsonAttributes(page.Key("node"), current.node);
    page.Text("version", Version());
    page.Flag("simulated", readings.simulated);
    if (readings.gateway && readings.gateway()) page.Flag("gateway", true);
    page.Whole("at", current.unix_ms);
    page.Count("tick", current.tick);
    page.Number("interval_s", SecondsOf(readings.interval()));
    page.Count("layout", current.layout);
    {
      JsonObject history(page.Key("history"));
      history.Number("window_s", SecondsOf(readings.history->options().window));
      if (stats.begin_ms == 0) history.Raw("begin", "null");
      else history.Whole("begin", stats.begin_ms);
      history.Count("series", stats.series);
      history.Count("samples", stats.samples);
      history.Count("bytes", stats.sample_bytes);
      history.Count("memory", stats.memory);
      history.Count("refused", stats.series_refused);
    }
    if (with_series) {
      page.List("series", *current.series,
                [](std::string& text, const KeptSeries& series) { AppendSeriesJson(text, series); });
    }
    {
      JsonObject read(page.Key("read"));
      for (const auto& [source, ms] : current.read) {
        if (!source.empty()) read.Whole(source, ms);
      }
    }
    const std::vector<KeptSeries>& series = *current.series;
    AppendPairs(page.Key("v"), series.size(), [&](size_t i) {
      if (std::isnan(current.values[i])) return false;
      out += std::to_string(series[i].id);
      out += ',';
      AppendJsonNumber(out, current.values[i]);
      return true;
    });
    AppendPairs(page.Key("stale"), series.size(), [&](size_t i) {
      if (current.stale_ms[i] == 0) return false;
      out += std::to_string(series[i].id);
      out += ',';
      out += std::to_string(current.stale_ms[i]);
      return true;
    });
  }
  return out;
}

void BeginHistory(const NodeReadings& readings) {
  readings.history->Begin();
  if (const Ref<const Snapshot> latest = readings.latest()) readings.history->Observe(*latest);
}

void AddNowPage(Api& api, const NodeReadings& readings) {
  api.Add("/api/now", [readings](const ApiRequest& request) -> Result<std::string> {
    BeginHistory(readings);
    History::Current current;
    readings.history->ReadCurrent(current);
    if (current.tick == 0) return Status{Code::kUnavailable, "nothing has been read yet"};
    const std::string* known = request.Find("known");
    if (known && !ParseInt<uint64_t>(*known))
      return Status{Code::kInvalidArgument, "known is the number of a layout"};
    return NowJson(readings, current, !known || ParseInt<uint64_t>(*known) != current.layout);
  });
}

}  // namespace gpulens
