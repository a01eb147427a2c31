#include "agent/api/live.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "wire/json/json_object.h"

namespace gpulens {
namespace {

// A member that is a list, left out while nothing is added.
class LazyList {
 public:
  LazyList(std::string& out, std::string_view key) : out_(out), key_(key) {}
  ~LazyList() {
    if (begun_) out_ += ']';
  }
  LazyList(const LazyList&) = delete;
  LazyList& operator=(const LazyList&) = delete;

  std::string& Next() {
    if (std::exchange(begun_, true)) out_ += ',';
    else out_.append(",\"").append(key_).append("\":[");
    return out_;
  }
  void Id(uint64_t id) { Next() += std::to_string(id); }

 private:
  std::string& out_;
  const std::string_view key_;
  bool begun_ = false;
};

bool SameValue(double a, double b) noexcept { return a == b || (std::isnan(a) && std::isnan(b)); }

// Calls `gone(i)` for series that only `before` has, by position in it, `came(j)` for those that only `after`
// has, and `both(i, j)`. Both lists are by id.
template <class Gone, class Came, class Both>
void Compare(const History::Current& before, const History::Current& after, Gone gone, Came came, Both both) {
  const std::vector<KeptSeries>&old = *before.series, &now = *after.series;
  size_t i = 0, j = 0;
  while (i < old.size() || j < now.size()) {
    if (j == now.size() || (i < old.size() && old[i].id < now[j].id)) gone(i++);
    else if (i == old.size() || now[j].id < old[i].id) came(j++);
    else both(i++, j++);
  }
}

std::string SeriesMessage(const History::Current& before, const History::Current& after) {
  std::string out = "{\"type\":\"series\",\"layout\":" + std::to_string(after.layout);
  {
    LazyList add(out, "add");
    Compare(
        before, after, [](size_t) {}, [&](size_t j) { AppendSeriesJson(add.Next(), (*after.series)[j]); },
        [](size_t, size_t) {});
  }
  {
    LazyList remove(out, "remove");
    Compare(
        before, after, [&](size_t i) { remove.Id((*before.series)[i].id); }, [](size_t) {},
        [](size_t, size_t) {});
  }
  return out += '}';
}

// Times that changed; null of a source that is there no more.
void AppendRead(std::string& out, const History::Current& before, const History::Current& after) {
  bool any = false;
  auto append = [&](std::string_view name) -> std::string& {
    out += std::exchange(any, true) ? "," : ",\"read\":{";
    AppendJsonString(out, name);
    return out += ':';
  };
  for (size_t i = 0; i < after.read.size(); ++i) {
    const auto& [name, ms] = after.read[i];
    if (name.empty()) continue;
    // Mostly at the same place.
    const bool same_place = i < before.read.size() && before.read[i].first == name;
    const auto old = same_place
                         ? before.read.begin() + static_cast<ptrdiff_t>(i)
                         : std::ranges::find(before.read, name, &std::pair<std::string, int64_t>::first);
    if (old == before.read.end() || old->second != ms) append(name) += std::to_string(ms);
  }
  for (const auto& [name, ms] : before.read) {
    if (name.empty()) continue;
    if (std::ranges::find(after.read, name, &std::pair<std::string, int64_t>::first) == after.read.end())
      append(name) += "null";
  }
  if (any) out += '}';
}

// Calls `each(id, old value, value, old age, age)` for the series of `after`; one that came was absent
// before.
template <class Each>
void ForEachChange(const History::Current& before, const History::Current& after, Each each) {
  auto came = [&](size_t j) {
    each((*after.series)[j].id, kNotMeasured, after.values[j], 0u, after.stale_ms[j]);
  };
  auto both = [&](size_t i, size_t j) {
    each((*after.series)[j].id, before.values[i], after.values[j], before.stale_ms[i], after.stale_ms[j]);
  };
  if (before.layout != after.layout) return Compare(before, after, [](size_t) {}, came, both);
  for (size_t i = 0; i < after.values.size(); ++i) both(i, i);
}

std::string TickMessage(const History::Current& before, const History::Current& after) {
  std::string out;
  out.reserve(4096);
  out = "{\"type\":\"tick\",\"tick\":" + std::to_string(after.tick) +
        ",\"at\":" + std::to_string(after.unix_ms);
  AppendRead(out, before, after);
  {
    LazyList values(out, "v");
    ForEachChange(before, after, [&](uint32_t id, double old, double now, uint32_t, uint32_t) {
      if (std::isnan(now) || SameValue(old, now)) return;
      values.Id(id);
      AppendJsonNumber(values.Next(), now);
    });
  }
  {
    LazyList stale(out, "stale");
    ForEachChange(before, after, [&](uint32_t id, double, double, uint32_t old, uint32_t now) {
      if (now == 0 || old == now) return;
      stale.Id(id);
      stale.Id(now);
    });
  }
  {
    LazyList fresh(out, "fresh");
    ForEachChange(before, after, [&](uint32_t id, double, double, uint32_t old, uint32_t now) {
      if (old != 0 && now == 0) fresh.Id(id);
    });
  }
  {
    LazyList gone(out, "gone");
    ForEachChange(before, after, [&](uint32_t id, double old, double now, uint32_t, uint32_t) {
      if (!std::isnan(old) && std::isnan(now)) gone.Id(id);
    });
  }
  return out += '}';
}

}  // namespace

std::vector<std::string> LiveDelta(const History::Current& before, const History::Current& after) {
  std::vector<std::string> messages;
  if (before.layout != after.layout) messages.push_back(SeriesMessage(before, after));
  if (before.tick != after.tick) messages.push_back(TickMessage(before, after));
  return messages;
}

LiveServer::LiveServer(IoLoop& loop, NodeReadings readings, size_t clients) : readings_(std::move(readings)) {
  WebSocketServer::Options options;
  options.limits.http.connections = clients;
  // Minutes of ticks, in few bytes: all clients share them.
  options.limits.queued_frames = 256;
  options.limits.queued_bytes = 1 << 20;
  server_ = std::make_unique<WebSocketServer>(loop, [this] { return Full(); }, std::move(options));
}

// A new client, which is counted already: a tick that comes now waits for the lock, and sends it what
// changed.
SharedBytes LiveServer::Full() {
  std::lock_guard lock(mutex_);
  if (!valid_) {
    BeginHistory(readings_);
    readings_.history->ReadCurrent(sent_);
    interval_ = readings_.interval();
    full_ = {};
    if (sent_.tick == 0) return {};  // the first tick sends it
    valid_ = true;
  }
  return Encode();
}

SharedBytes LiveServer::Encode() {
  if (full_.bytes.empty()) full_ = SharedBytes(NowJson(readings_, sent_, true));
  return full_;
}

void LiveServer::Tick() {
  std::lock_guard lock(mutex_);
  full_ = {};
  if (server_->clients() == 0) {
    valid_ = false;
    return;
  }
  readings_.history->ReadCurrent(next_);
  if (next_.tick == 0) return;
  const Duration interval = readings_.interval();
  const bool whole = !valid_ || interval != interval_ || next_.node != sent_.node;
  std::vector<std::string> messages;
  if (!whole) messages = LiveDelta(sent_, next_);
  std::swap(sent_, next_);
  interval_ = interval;
  valid_ = true;
  if (whole) return server_->Broadcast(Encode());
  for (std::string& message : messages) server_->Broadcast(std::move(message));
}

void LiveServer::Event(std::string_view json) {
  if (server_->clients() == 0) return;
  std::string message = "{\"type\":\"event\",\"event\":";
  server_->Broadcast(SharedBytes(message.append(json).append("}")));
}

}  // namespace gpulens
