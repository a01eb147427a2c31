#include "cli/top/top_feed.h"

#include <algorithm>

#include "base/result.h"
#include "base/threads.h"
#include "catalog/gpu.h"
#include "cli/top/top_model.h"

namespace gpulens {
namespace {

constexpr Duration kEventsInterval = std::chrono::seconds(3);
constexpr size_t kMostUpdates = 8;

// Metrics of the charts of a GPU.
constexpr const MetricDesc* kChartMetrics[] = {&kGpuUtilization,    &kGpuPowerDraw,
                                               &kGpuMemoryUsed,     &kGpuTemperature,
                                               &kGpuClockFrequency, &kGpuInterconnectThroughput,
                                               &kGpuSmActive,       &kGpuPipeTensorActive};

std::string SelectorOf(const MetricDesc& metric, const TopChartRequest& request) {
  std::string text = std::string(metric.name) + "{" + request.key + "=\"";
  for (char c : request.value) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"}";
}

}  // namespace

TopUpdate TopFeed::ReadOnce() {
  TopUpdate update;
  const Instant now = RealClock().Now();
  std::string target = "/api/now";
  if (layout_ != 0) target += "?known=" + std::to_string(layout_);
  auto read_now = [&]() -> Status {
    ASSIGN_OR_RETURN(const std::string page, reader_.Get(target));
    ASSIGN_OR_RETURN(NodeNow parsed, ParseNodeNow(page));
    // An agent that was started again may have other series under the same number; its ticks begin again.
    if (!parsed.series && parsed.tick < tick_) {
      ASSIGN_OR_RETURN(const std::string whole, reader_.Get("/api/now"));
      ASSIGN_OR_RETURN(parsed, ParseNodeNow(whole));
      has_trends_ = false;
    }
    if (!parsed.series && parsed.layout != layout_)
      return {Code::kDataLoss, "the page has neither series nor a known layout"};
    layout_ = parsed.layout;
    tick_ = parsed.tick;
    update.now = std::move(parsed);
    return Ok();
  };
  update.failure = read_now();
  if (!update.failure) {
    layout_ = 0;
    has_trends_ = false;
    return update;
  }
  if (!has_trends_) {
    std::vector<std::pair<std::string_view, std::string>> parameters;
    for (const std::string& metric : TopModel::TrendMetrics()) parameters.emplace_back("select", metric);
    const double window =
        std::clamp(update.now->interval_s, 0.1, 15.0) * static_cast<double>(TopModel::kTrend);
    parameters.emplace_back("window",
                            std::to_string(std::min<int64_t>(3600, static_cast<int64_t>(window) + 1)) + "s");
    if (const auto page = reader_.Get(NodeTarget("/api/history", parameters))) {
      if (auto parsed = ParseNodeHistory(*page)) update.trends = *std::move(parsed);
    }
    has_trends_ = true;
  }
  if (!has_events_ || now - events_at_ >= kEventsInterval) {
    has_events_ = true;
    events_at_ = now;
    if (const auto page = reader_.Get("/api/events?since=1h&limit=200")) {
      if (auto parsed = ParseNodeEvents(*page)) update.events = *std::move(parsed);
    }
  }
  TopChartRequest charts;
  {
    std::lock_guard lock(mutex_);
    charts = charts_;
  }
  const int64_t step_s = std::max<int64_t>(1, charts.window_s / std::max<int64_t>(1, charts.steps));
  const bool due = !(charts == charts_done_) || now - charts_at_ >= std::chrono::seconds(step_s);
  if (!charts.key.empty() && due) {
    std::vector<std::pair<std::string_view, std::string>> parameters;
    for (const MetricDesc* metric : kChartMetrics)
      parameters.emplace_back("select", SelectorOf(*metric, charts));
    parameters.emplace_back("window", std::to_string(charts.window_s) + "s");
    parameters.emplace_back("step", std::to_string(step_s) + "s");
    parameters.emplace_back("values", "avg");
    if (const auto page = reader_.Get(NodeTarget("/api/history", parameters))) {
      if (auto parsed = ParseNodeHistory(*page)) update.charts = *std::move(parsed);
    }
    update.charts_of = charts.value;
    charts_done_ = charts;
    charts_at_ = now;
  }
  return update;
}

Status TopFeed::Start(std::function<void()> wake) {
  wake_ = std::move(wake);
  return StartThread(thread_, [this] { Run(); });
}

bool TopFeed::Stop(Duration longest) {
  std::unique_lock lock(mutex_);
  stop_ = true;
  changed_.notify_all();
  if (!thread_.joinable()) return true;
  if (!changed_.wait_for(lock, longest, [this] { return ended_; })) return false;
  lock.unlock();
  thread_.join();
  return true;
}

std::vector<TopUpdate> TopFeed::Take() {
  std::lock_guard lock(mutex_);
  return std::exchange(updates_, {});
}

void TopFeed::Request(TopChartRequest request) {
  std::lock_guard lock(mutex_);
  if (request == charts_) return;
  charts_ = std::move(request);
  changed_.notify_all();
}

void TopFeed::Run() {
  std::unique_lock lock(mutex_);
  Instant next = RealClock().Now();
  while (!stop_) {
    const TopChartRequest wanted = charts_;
    lock.unlock();
    TopUpdate update = ReadOnce();
    const Instant now = RealClock().Now();
    next = next + interval_;
    // After a node that was slow, the next round comes an interval later.
    if (next - now < interval_ / 4) next = now + interval_;
    lock.lock();
    updates_.push_back(std::move(update));
    if (updates_.size() > kMostUpdates) updates_.erase(updates_.begin());
    lock.unlock();
    wake_();
    lock.lock();
    changed_.wait_for(lock, next - RealClock().Now(), [&] { return stop_ || !(charts_ == wanted); });
  }
  ended_ = true;
  changed_.notify_all();
}

}  // namespace gpulens
