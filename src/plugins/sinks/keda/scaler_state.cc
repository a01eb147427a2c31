#include "plugins/sinks/keda/scaler_state.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "catalog/inference.h"
#include "catalog/self.h"

namespace gpulens::keda {
namespace {

constexpr std::string_view kTargetPrefix = "targets/", kOwnFrame = "gpulens";
constexpr std::string_view kNamespace = "k8s.namespace.name";
// Readings that come more often share a row.
constexpr int64_t kRowNs = 5'000'000'000;
constexpr int64_t kKeptNs = (kLongestWindow + std::chrono::minutes(1)).count();
constexpr uint8_t kNoRole = 255;

double ValueOf(const Frame& frame, uint32_t slot) {
  const SeriesInfo& info = (*frame.layout)[slot];
  const Cell cell = frame.cells[info.first_cell];
  return info.desc->number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
}

std::string Seconds(int64_t ns) { return std::to_string(ns / 1'000'000'000) + " s"; }

Status Unknown(std::string why) { return {Code::kUnavailable, std::move(why)}; }

std::string_view WhatIs(ScalerMetric metric) {
  switch (metric) {
    case ScalerMetric::kQueue: return "waiting requests";
    case ScalerMetric::kRunning: return "running requests";
    case ScalerMetric::kConcurrency: return "requests in flight";
    case ScalerMetric::kKvCache: return "use of the KV cache";
    case ScalerMetric::kTtft: return "time to first token";
    case ScalerMetric::kItl: return "time between tokens";
  }
  return "";
}

std::string Described(const ScalerQuery& query) {
  std::string out = "layer " + (query.layer.empty() ? "*" : query.layer);
  if (!query.engine.empty()) out += ", engine " + query.engine;
  if (!query.model.empty()) out += ", model " + query.model;
  if (!query.name_space.empty()) out += ", namespace " + query.name_space;
  for (const auto& [key, value] : query.attributes) out += ", " + key + "=" + value;
  return out;
}

// Adds observations; those without any change nothing, not even the bounds.
void Add(Buckets& to, Buckets growth) {
  if (growth.count <= 0) return;
  to = to.count <= 0 ? std::move(growth) : Merge(to, growth);
}

}  // namespace

void ScalerState::Update(const Snapshot& snapshot) {
  std::lock_guard lock(mutex_);
  ++updates_;
  for (const SnapshotEntry& entry : snapshot.frames) {
    const Frame& frame = *entry.frame;
    if (frame.source == kOwnFrame && frame.layout->id() != instances_layout_) {
      instances_layout_ = frame.layout->id();
      instances_.clear();
      for (uint32_t slot = 0; slot < frame.layout->slots(); ++slot) {
        const SeriesInfo& info = (*frame.layout)[slot];
        if (info.desc != &kSelfCollectorUp) continue;
        std::string name = info.attributes.Text("collector");
        if (name.starts_with(kTargetPrefix)) instances_.push_back(std::move(name));
      }
    }
    if (!frame.source.starts_with(kTargetPrefix)) continue;
    Target& target = targets_[frame.source];
    target.seen = updates_;
    const bool planned = frame.layout->id() == target.layout;
    if (!planned) Plan(target, frame);
    if (!planned || frame.run != target.run) Read(target, frame);
  }
  std::erase_if(targets_, [&](const auto& entry) { return entry.second.seen != updates_; });
}

void ScalerState::Plan(Target& target, const Frame& frame) {
  struct Copy {
    EngineRanks ranks;
    size_t pick;
  };
  target.layout = frame.layout->id();
  target.run = 0;
  target.picks.clear();
  target.up_slot = UINT32_MAX;
  for (auto& [key, engine] : target.engines) engine.planned = false;
  std::unordered_map<std::string, Copy> copies;
  const auto role_of = [](const MetricDesc* desc) -> uint8_t {
    if (desc == &kInferenceRequestsWaiting) return kWaiting;
    if (desc == &kInferenceRequestsRunning) return kRunning;
    if (desc == &kInferenceRequestsInFlight) return kInFlight;
    if (desc == &kInferenceKvCacheUsage) return kCache;
    if (desc == &kInferenceTimeToFirstToken) return kLevels;
    if (desc == &kInferenceInterTokenLatency) return kLevels + 1;
    return kNoRole;
  };
  for (uint32_t slot = 0; slot < frame.layout->slots(); ++slot) {
    const SeriesInfo& info = (*frame.layout)[slot];
    if (info.desc == &kSelfScrapeUp && info.entity) {
      target.scraped = true;
      target.up_slot = slot;
      target.facts = info.entity->attributes.OverlaidOn(info.entity->facts);
    }
    const uint8_t role = role_of(info.desc);
    if (role == kNoRole || !info.entity) continue;
    if (role == kCache && info.attributes.Has("cache.type") && info.attributes.Text("cache.type") != "gpu")
      continue;
    std::string model = info.attributes.Text("model.name");
    Engine& engine = target.engines[std::to_string(info.entity->attributes.hash()) + model];
    if (!std::exchange(engine.planned, true)) {
      engine.attributes = info.attributes;
      engine.model = std::move(model);
      for (Number& number : engine.levels) number = {};
    }
    const Pick pick{slot, role, &engine, info.attributes.hash()};
    // Of ranks that export copies, the lowest counts.
    Copy copy{{}, target.picks.size()};
    std::string rest;
    if (SplitRanks(info.attributes, rest, copy.ranks)) {
      const auto [at, is_new] = copies.try_emplace(std::to_string(role) + rest, copy);
      if (!is_new) {
        if (copy.ranks < at->second.ranks) {
          at->second.ranks = copy.ranks;
          target.picks[at->second.pick] = pick;
        }
        continue;
      }
    }
    target.picks.push_back(pick);
  }
  std::erase_if(target.engines, [](const auto& entry) { return !entry.second.planned; });
  std::unordered_set<uint64_t> series;
  for (const Pick& pick : target.picks) series.insert(pick.series);
  for (auto& [key, engine] : target.engines)
    for (Latency& latency : engine.latencies)
      std::erase_if(latency.last, [&](const auto& entry) { return !series.contains(entry.first); });
}

void ScalerState::Read(Target& target, const Frame& frame) {
  target.run = frame.run;
  if (target.up_slot != UINT32_MAX)
    target.up = frame.quality[target.up_slot] == Quality::kOk && ValueOf(frame, target.up_slot) == 1;
  struct Growth {
    Buckets of[2];
    bool fresh = false;
  };
  std::unordered_map<Engine*, Growth> grown;
  for (auto& [key, engine] : target.engines) {
    for (Number& number : engine.levels) number = {};
    grown[&engine];
  }
  for (const Pick& pick : target.picks) {
    const Quality quality = frame.quality[pick.slot];
    Growth& growth = grown[pick.engine];
    growth.fresh |= quality == Quality::kOk;
    if (pick.role >= kLevels) {
      if (quality == Quality::kOk) ReadLatency(pick, frame, growth.of[pick.role - kLevels]);
      continue;
    }
    Number& number = pick.engine->levels[pick.role];
    number.offered = true;
    if (quality == Quality::kAbsent) continue;
    const int64_t at_ns = frame.read_at.boot_ns - int64_t{frame.AgeMs(pick.slot)} * 1'000'000;
    number.at_ns = number.count == 0 ? at_ns : std::min(number.at_ns, at_ns);
    number.sum += ValueOf(frame, pick.slot);
    ++number.count;
  }
  for (auto& [engine, growth] : grown) {
    if (!growth.fresh) continue;  // the page did not answer
    for (size_t i = 0; i < 2; ++i)
      EndRow(engine->latencies[i], std::move(growth.of[i]), frame.read_at.boot_ns);
  }
}

// The first reading of an engine is a base; a series that appears later counts from 0, as clients of
// Prometheus make them at the first observation.
void ScalerState::ReadLatency(const Pick& pick, const Frame& frame, Buckets& growth) {
  const SeriesInfo& info = (*frame.layout)[pick.slot];
  if (!info.shape) return;
  std::vector<double> numbers;
  CopyNumbers({frame.cells.data() + info.first_cell, info.cells()}, info.desc->number, numbers);
  Buckets now = ReadBuckets(*info.shape, numbers);
  Latency& latency = pick.engine->latencies[pick.role - kLevels];
  auto [last, is_new] = latency.last.try_emplace(pick.series);
  if (!is_new) Add(growth, DeltaOf(last->second, now).buckets);
  else if (latency.readings > 0) Add(growth, now);
  last->second = std::move(now);
}

void ScalerState::EndRow(Latency& latency, Buckets growth, int64_t now_ns) {
  const int64_t from_ns = latency.readings == 0 ? now_ns : latency.read_ns;
  latency.read_ns = now_ns;
  ++latency.readings;
  while (!latency.rows.empty() && latency.rows.front().to_ns < now_ns - kKeptNs) latency.rows.pop_front();
  if (growth.count <= 0) return;
  if (!latency.rows.empty() && latency.rows.back().to_ns - latency.rows.back().from_ns < kRowNs &&
      latency.rows.back().to_ns == from_ns) {
    Add(latency.rows.back().growth, std::move(growth));
    latency.rows.back().to_ns = now_ns;
    return;
  }
  latency.rows.push_back({from_ns, now_ns, std::move(growth)});
}

bool ScalerState::Selects(const ScalerQuery& query, const AttributeSet& attributes) {
  if (!query.name_space.empty() && attributes.Has(kNamespace) &&
      attributes.Text(kNamespace) != query.name_space)
    return false;
  return std::ranges::all_of(query.attributes, [&](const auto& wanted) {
    return attributes.Has(wanted.first) && attributes.Text(wanted.first) == wanted.second;
  });
}

// Series without a model belong to the only model of the target.
bool ScalerState::SelectsModel(const ScalerQuery& query, const Target& target, const Engine& engine) {
  if (query.model.empty() || engine.model == query.model) return true;
  if (!engine.model.empty()) return false;
  bool any = false;
  for (const auto& [key, other] : target.engines) {
    if (!other.model.empty() && other.model != query.model) return false;
    any |= !other.model.empty();
  }
  return any;
}

std::vector<ScalerState::Replica> ScalerState::Matching(const ScalerQuery& query) const {
  std::vector<Replica> found;
  for (const auto& [source, target] : targets_) {
    const std::string_view name = std::string_view(source).substr(kTargetPrefix.size());
    if (target.engines.empty()) {
      // A page without an engine, or one that never answered.
      if (target.scraped && !target.up && Selects(query, target.facts)) found.push_back({name, {}});
      continue;
    }
    Replica replica{name, {}};
    for (const auto& [key, engine] : target.engines) {
      const AttributeSet attributes = engine.attributes.OverlaidOn(target.facts);
      if (!query.layer.empty() && attributes.Text("inference.layer") != query.layer) continue;
      if (!query.engine.empty() && attributes.Text("inference.engine") != query.engine) continue;
      if (Selects(query, attributes) && SelectsModel(query, target, engine))
        replica.engines.push_back(&engine);
    }
    if (!replica.engines.empty()) found.push_back(std::move(replica));
  }
  for (const std::string& instance : instances_)
    if (!targets_.contains(instance))
      found.push_back({std::string_view(instance).substr(kTargetPrefix.size()), {}});
  std::ranges::sort(found, {}, &Replica::name);
  return found;
}

ScalerState::Reading ScalerState::ReadLevel(const Replica& replica, Level level, const ScalerQuery& query,
                                            Instant now) {
  Reading reading{.value = {}, .offered = replica.engines.empty()};
  double sum = 0;
  size_t count = 0;
  bool whole = !replica.engines.empty();
  for (const Engine* engine : replica.engines) {
    const Number& number = engine->levels[level];
    if (!number.offered) continue;
    reading.offered = true;
    const int64_t age_ns = now.boot_ns - number.at_ns;
    if (number.count > 0 && age_ns <= query.max_age.count()) {
      sum += number.sum;
      count += number.count;
      continue;
    }
    whole = false;
    if (number.count > 0) reading.age_ns = std::max(reading.age_ns, age_ns);
  }
  if (whole && count > 0) reading.value = level == kCache ? sum / static_cast<double>(count) : sum;
  return reading;
}

// Waiting and running, else in flight.
ScalerState::Reading ScalerState::ReadRequests(const Replica& replica, const ScalerQuery& query,
                                               Instant now) {
  const Reading waiting = ReadLevel(replica, kWaiting, query, now);
  Reading both = ReadLevel(replica, kRunning, query, now);
  if (!waiting.offered || !both.offered) return ReadLevel(replica, kInFlight, query, now);
  both.age_ns = std::max(both.age_ns, waiting.age_ns);
  if (both.value && waiting.value) *both.value += *waiting.value;
  else both.value.reset();
  return both;
}

ScalerState::Reading ScalerState::ReadMetric(const Replica& replica, const ScalerQuery& query, Instant now) {
  switch (query.metric) {
    case ScalerMetric::kQueue: return ReadLevel(replica, kWaiting, query, now);
    case ScalerMetric::kRunning: return ReadLevel(replica, kRunning, query, now);
    case ScalerMetric::kKvCache: return ReadLevel(replica, kCache, query, now);
    default: return ReadRequests(replica, query, now);
  }
}

namespace {

// "1 of 4 targets is unknown: chat-a does not answer, its last reading is 63 s old".
std::string WhyUnknown(std::string_view what, size_t unknown, size_t all, std::string_view name, bool offered,
                       int64_t age_ns) {
  std::string why = std::string(what) + " of " + std::to_string(unknown) + " of " + std::to_string(all) +
                    (all == 1 ? " target is unknown: " : " targets is unknown: ") + std::string(name);
  if (!offered) return why + " does not report it";
  if (age_ns < 0) return why + " does not answer";
  return why + " does not answer, its last reading is " + Seconds(age_ns) + " old";
}

}  // namespace

Result<ScalerReading> ScalerState::Sum(const ScalerQuery& query, const std::vector<Replica>& replicas,
                                       Instant now) {
  ScalerReading out{.value = 0, .targets = replicas.size(), .known = 0};
  double sum = 0, greatest = 0;
  std::optional<Reading> unknown;  // the first
  std::string_view name;
  for (const Replica& replica : replicas) {
    const Reading reading = ReadMetric(replica, query, now);
    if (reading.value) {
      sum += *reading.value;
      greatest = std::max(greatest, *reading.value);
      ++out.known;
    } else if (!unknown) {
      unknown = reading;
      name = replica.name;
    }
  }
  const auto all = static_cast<double>(out.targets);
  const double one = query.greatest ? greatest : sum / all;
  out.value = query.value_type ? one : one * all;
  // None of these numbers is negative: what is known is a lower bound, which may call for more replicas.
  if (!unknown || (out.known > 0 && one > query.target)) return out;
  return Unknown(WhyUnknown(WhatIs(query.metric), out.targets - out.known, out.targets, name,
                            unknown->offered, unknown->age_ns));
}

Result<ScalerReading> ScalerState::QuantileOf(const ScalerQuery& query, const std::vector<Replica>& replicas,
                                              Instant now) {
  const size_t which = query.metric == ScalerMetric::kTtft ? 0 : 1;
  ScalerReading out{.value = 0, .targets = replicas.size(), .known = replicas.size()};
  Buckets all;
  size_t unknown = 0;
  bool any_window = false, idle = true;
  std::string why;
  int64_t why_age_ns = -1;
  for (const Replica& replica : replicas) {
    int64_t read_ns = 0;
    for (const Engine* engine : replica.engines) {
      const Latency& latency = engine->latencies[which];
      read_ns = std::max(read_ns, latency.read_ns);
      any_window |= latency.readings > 1;
      for (const Latency::Row& row : latency.rows)
        if (row.to_ns > now.boot_ns - query.window.count()) Add(all, row.growth);
    }
    const Reading requests = ReadRequests(replica, query, now);
    idle = idle && requests.value && *requests.value == 0;
    if (read_ns != 0 && now.boot_ns - read_ns <= query.max_age.count()) continue;
    if (unknown++ > 0) continue;
    why = replica.name;
    if (read_ns != 0) why_age_ns = now.boot_ns - read_ns;
  }
  // A quantile of a part is no bound of the whole.
  if (unknown > 0)
    return Unknown(WhyUnknown(WhatIs(query.metric), unknown, replicas.size(), why, true, why_age_ns));
  if (!any_window) return Unknown("the window begins with the second reading of a target");
  std::optional<double> quantile = Quantile(all, query.quantile);
  if (quantile && !std::isfinite(*quantile)) quantile.reset();
  if (!quantile && !(idle && query.zero_if_idle))
    return Unknown("no request observed a " + std::string(WhatIs(query.metric)) + " in the last " +
                   Seconds(query.window.count()));
  out.value = quantile.value_or(0);
  if (!query.value_type) out.value *= static_cast<double>(out.targets);
  return out;
}

Result<ScalerReading> ScalerState::Evaluate(const ScalerQuery& query, Instant now) const {
  std::lock_guard lock(mutex_);
  const std::vector<Replica> replicas = Matching(query);
  if (replicas.empty()) return Unknown("no target has an engine with " + Described(query));
  return IsLatency(query.metric) ? QuantileOf(query, replicas, now) : Sum(query, replicas, now);
}

Result<bool> ScalerState::IsActive(const ScalerQuery& query, Instant now) const {
  std::lock_guard lock(mutex_);
  const std::vector<Replica> replicas = Matching(query);
  if (replicas.empty()) return Unknown("no target has an engine with " + Described(query));
  double requests = 0;
  size_t unknown = 0, not_offered = 0;
  std::string why;
  int64_t age_ns = -1;
  for (const Replica& replica : replicas) {
    Reading reading = ReadRequests(replica, query, now);
    if (!reading.offered) {
      ++not_offered;
      // What waits alone can show that it is active.
      reading = ReadLevel(replica, kWaiting, query, now);
    }
    if (reading.value) {
      requests += *reading.value;
    } else if (reading.offered && unknown++ == 0) {
      why = replica.name;
      age_ns = reading.age_ns;
    }
  }
  if (requests > query.activation) return true;
  if (unknown > 0) return Unknown(WhyUnknown("activity", unknown, replicas.size(), why, true, age_ns));
  return not_offered > 0;
}

}  // namespace gpulens::keda
