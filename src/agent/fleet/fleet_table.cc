#include "agent/fleet/fleet_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "base/parse.h"
#include "catalog/exported_name.h"
#include "catalog/gpu.h"
#include "catalog/inference.h"
#include "catalog/self.h"
#include "wire/otlp/otlp_fields.h"
#include "wire/otlp/proto_cursor.h"

namespace gpulens {
namespace {

constexpr int64_t kMsNs = 1'000'000;
// Arrivals that are nearer are parts of one.
constexpr int64_t kOneArrivalMs = 1000;
// A time that is further ahead of the gateway's clock is replaced by the time of arrival.
constexpr int64_t kAheadMs = 60'000;
// An engine without samples for this long leaves its place to another, and its node in the end.
constexpr int64_t kEngineLeavesMs = 60'000, kEngineForgottenMs = 600'000;
constexpr int64_t kForgetEveryMs = 1000;

// What becomes of a metric's points.
struct Use {
  enum Kind : uint8_t {
    kGpuValue,
    kGpuInfo,
    kGpuState,
    kGpuHealth,
    kGpuCondition,
    kEngineValue,
    kFirstToken,
    kFirstTokenSum,
    kFirstTokenCount,
    kBuild,
    kSimulated,
    kTarget,
  };
  Kind kind = kGpuValue;
  uint8_t value = 0;  // of FleetGpuValue or FleetEngineValue
};

// By native name and by that of Prometheus formats.
class Uses {
 public:
  Uses() {
    using G = FleetGpuValue;
    using E = FleetEngineValue;
    Add(kGpuUtilization, G::kBusy);
    Add(kGpuMemoryUsed, G::kMemoryUsed);
    Add(kGpuMemoryTotal, G::kMemoryTotal);
    Add(kGpuPowerDraw, G::kPower);
    Add(kGpuPowerUtilization, G::kPowerShare);
    Add(kGpuTemperature, G::kTemperature);
    Add(kGpuHealthScore, G::kHealth);
    Add(kGpuThrottleMask, G::kThrottleMask);
    Add(kGpuXidErrors, G::kXids);
    Add(kGpuXidLastErrorCode, G::kXidCode);
    Add(kGpuInfo, Use{Use::kGpuInfo, 0});
    Add(kGpuState, Use{Use::kGpuState, 0});
    Add(kGpuHealthState, Use{Use::kGpuHealth, 0});
    Add(kGpuHealthCondition, Use{Use::kGpuCondition, 0});
    Add(kInferenceRequestsRunning, E::kRunning);
    Add(kInferenceRequestsWaiting, E::kWaiting);
    Add(kInferenceKvCacheUsage, E::kCacheShare);
    Add(kInferenceTimeToFirstToken, Use{Use::kFirstToken, 0});
    Add(kInferenceTimeToFirstToken, Use{Use::kFirstTokenSum, 0}, "_sum");
    Add(kInferenceTimeToFirstToken, Use{Use::kFirstTokenCount, 0}, "_count");
    Add(kSelfBuildInfo, Use{Use::kBuild, 0});
    Add(kSelfSimulated, Use{Use::kSimulated, 0});
    Add(kTargetInfo, Use{Use::kTarget, 0});
  }

  const Use* Find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &found->second;
  }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const noexcept { return StableHash(text); }
  };

  void Add(const MetricDesc& metric, Use use, std::string_view part = {}) {
    if (part.empty()) by_name_[std::string(metric.name)] = use;
    std::string name;
    AppendPrometheusName(name, metric);
    by_name_[name.append(part)] = use;
  }
  void Add(const MetricDesc& metric, FleetGpuValue value) {
    Add(metric, Use{Use::kGpuValue, static_cast<uint8_t>(value)});
  }
  void Add(const MetricDesc& metric, FleetEngineValue value) {
    Add(metric, Use{Use::kEngineValue, static_cast<uint8_t>(value)});
  }

  std::unordered_map<std::string, Use, Hash, std::equal_to<>> by_name_;
};

const Uses& KnownUses() {
  static const Uses uses;
  return uses;
}

// Attributes of a resource or a point. Views into the request; empty: absent.
struct Words {
  std::string_view instance, host, cluster, own_cluster, rack, index, uuid, model, mig, state, health, reason,
      sensor, task, pod, space, job, job_name, target, engine, engine_model, rank, version;
  int64_t number = -1;  // of gpu.index
};

struct Word {
  std::string_view key;
  std::string_view Words::* place;
};
constexpr Word kWords[] = {
    {"service.instance.id", &Words::instance},
    {"host.name", &Words::host},
    {"k8s.cluster.name", &Words::cluster},
    {"cluster", &Words::own_cluster},
    {"rack", &Words::rack},
    {"gpu.index", &Words::index},
    {"gpu.uuid", &Words::uuid},
    {"gpu.model", &Words::model},
    {"gpu.mig.instance_id", &Words::mig},
    {"gpu.state", &Words::state},
    {"gpu.health.state", &Words::health},
    {"gpu.health.reason", &Words::reason},
    {"gpu.temperature.sensor", &Words::sensor},
    {"gpu.task.type", &Words::task},
    {"k8s.pod.name", &Words::pod},
    {"k8s.namespace.name", &Words::space},
    {"slurm.job.id", &Words::job},
    {"slurm.job.name", &Words::job_name},
    {"target", &Words::target},
    {"inference.engine", &Words::engine},
    {"model.name", &Words::engine_model},
    {"inference.dp_rank", &Words::rank},
    {"version", &Words::version},
};

// Rows of kWords by the length of the key, so that most keys of others cost one look.
struct WordsByLength {
  std::array<std::vector<const Word*>, 24> rows;
  WordsByLength() {
    for (const Word& word : kWords) rows[word.key.size()].push_back(&word);
  }
};

// Labels have underscores for dots.
bool SameKey(std::string_view key, std::string_view dotted) noexcept {
  for (size_t i = 0; i < key.size(); ++i) {
    if (key[i] != dotted[i] && (key[i] != '_' || dotted[i] != '.')) return false;
  }
  return true;
}

void TakeWord(std::string_view key_value, Words& out) noexcept {
  static const WordsByLength by_length;
  std::string_view key, value;
  int64_t number = -1;
  ProtoField field, part;
  for (ProtoCursor cursor(key_value); cursor.Next(field);) {
    if (field.number == otlp::kKey) {
      key = field.bytes;
    } else if (field.number == otlp::kValue) {
      for (ProtoCursor any(field.bytes); any.Next(part);) {
        if (part.number == otlp::kString && part.wire == WireType::kBytes) value = part.bytes;
        else if (part.number == otlp::kInt && part.wire == WireType::kVarint)
          number = static_cast<int64_t>(part.value);
      }
    }
  }
  if (key.size() >= by_length.rows.size()) return;
  for (const Word* word : by_length.rows[key.size()]) {
    if (!SameKey(key, word->key)) continue;
    if (word->place == &Words::index && value.empty()) out.number = number;
    // Any value marks a part of a GPU.
    out.*word->place = word->place == &Words::mig ? word->key : value;
    return;
  }
}

std::string_view Cut(std::string_view text) noexcept {
  if (text.size() <= FleetTable::kMostText) return text;
  size_t end = FleetTable::kMostText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

void Keep(std::string& to, std::string_view text) {
  text = Cut(text);
  if (to != text) to.assign(text);
}

// The end of a series at the time of another value of it is ignored.
void Keep(FleetValue& to, double value, int64_t at_ms) noexcept {
  const bool ended = !std::isfinite(value);
  if (ended ? at_ms <= to.at_ms : at_ms < to.at_ms) return;
  to = {ended ? kNotMeasured : value, at_ms};
}

struct Point {
  Words words;
  double value = kNotMeasured;  // of a histogram, its sum
  double count = kNotMeasured;
  int64_t at_ms = 0;
};

// Makes room for a step in the histories of the node's GPUs. False: it is older than these.
bool Advance(FleetNode& node, int64_t step) {
  if (node.step == 0) node.step = step;
  if (step + static_cast<int64_t>(kFleetSteps) <= node.step) return false;
  for (; node.step < step; node.step = std::max(node.step + 1, step - static_cast<int64_t>(kFleetSteps))) {
    const size_t next = static_cast<size_t>(node.step + 1) % kFleetSteps;
    for (FleetGpu& gpu : node.gpus) gpu.busy[next] = FleetGpu::kNoBusy, gpu.power[next] = FleetGpu::kNoPower;
  }
  return true;
}

}  // namespace

// Reads one request, under the table's lock.
struct FleetTable::Reader {
  FleetTable& table;
  const int64_t now_ms;
  Words resource;
  FleetNode* node = nullptr;  // the last one

  void Request(std::string_view request) {
    ProtoField field;
    for (ProtoCursor cursor(request); cursor.Next(field);)
      if (field.number == otlp::kResourceList) Resource(field.bytes);
  }

  void Resource(std::string_view message) {
    resource = {}, node = nullptr;
    ProtoField field, part;
    for (ProtoCursor cursor(message); cursor.Next(field);) {
      if (field.number != otlp::kResource) continue;
      for (ProtoCursor inner(field.bytes); inner.Next(part);)
        if (part.number == otlp::kResourceAttributes) TakeWord(part.bytes, resource);
    }
    for (ProtoCursor cursor(message); cursor.Next(field);) {
      if (field.number != otlp::kScopeList) continue;
      for (ProtoCursor scope(field.bytes); scope.Next(part);)
        if (part.number == otlp::kItems) Metric(part.bytes);
    }
  }

  void Metric(std::string_view message) {
    const Use* use = nullptr;
    ProtoField field, part;
    for (ProtoCursor cursor(message); cursor.Next(field);) {
      if (field.number != otlp::kName) continue;
      use = KnownUses().Find(field.bytes);
      break;
    }
    if (!use) return;
    for (ProtoCursor cursor(message); cursor.Next(field);) {
      const bool histogram = field.number == otlp::kHistogram;
      if (field.number != otlp::kGauge && field.number != otlp::kSum && !histogram) continue;
      if (histogram != (use->kind == Use::kFirstToken)) continue;
      for (ProtoCursor data(field.bytes); data.Next(part);)
        if (part.number == otlp::kPoints) TakePoint(*use, histogram, part.bytes);
    }
  }

  void TakePoint(const Use& use, bool histogram, std::string_view message) {
    Point point;
    point.words.cluster = resource.cluster, point.words.own_cluster = resource.own_cluster;
    point.words.rack = resource.rack, point.words.host = resource.host;
    bool ended = false;
    ProtoField field;
    for (ProtoCursor cursor(message); cursor.Next(field);) {
      if (field.number == (histogram ? otlp::kHistogramAttributes : otlp::kNumberAttributes)) {
        TakeWord(field.bytes, point.words);
      } else if (field.number == (histogram ? otlp::kHistogramFlags : otlp::kNumberFlags)) {
        ended = (field.value & otlp::kNoRecordedValue) != 0;
      } else if (field.wire != WireType::kFixed64) {
        continue;
      } else if (field.number == otlp::kTime) {
        point.at_ms = AsFixed<int64_t>(field.bytes) / kMsNs;
      } else if (field.number == (histogram ? otlp::kHistogramSum : otlp::kAsDouble)) {
        point.value = AsFixed<double>(field.bytes);
      } else if (histogram && field.number == otlp::kHistogramCount) {
        point.count = static_cast<double>(AsFixed<uint64_t>(field.bytes));
      } else if (!histogram && field.number == otlp::kAsInt) {
        point.value = static_cast<double>(AsFixed<int64_t>(field.bytes));
      }
    }
    if (ended) point.value = point.count = kNotMeasured;
    if (!FindNode(use, point)) return;
    if (use.kind <= Use::kGpuCondition) OfGpu(use, point);
    else if (use.kind <= Use::kFirstTokenCount) OfEngine(use, point);
    else if (!ended) OfNode(use, point);
  }

  // Finds or makes the point's node, and notes that it came.
  bool FindNode(const Use& use, Point& point) {
    const Words& words = point.words;
    const std::string_view instance = Cut(resource.instance.empty() ? words.host : resource.instance);
    const std::string_view cluster = Cut(words.own_cluster.empty() ? words.cluster : words.own_cluster);
    if (instance.empty()) return false;
    // Information about any program that sends makes no node of it.
    const bool makes = use.kind != Use::kTarget && use.kind != Use::kSimulated;
    if (!node || node->instance != instance || node->cluster != cluster) {
      node = table.Find(instance, cluster, makes ? now_ms : 0);
      if (!node) {
        table.totals_.refused += makes;
        return false;
      }
    }
    if (now_ms - node->seen_ms >= kOneArrivalMs) {
      const int64_t gap = now_ms - node->seen_ms;
      // A pause is no interval; but a new interval is learnt within some arrivals.
      if (node->interval_ms == 0) node->interval_ms = node->seen_ms == 0 ? 0 : gap;
      else node->interval_ms += (std::min(gap, 4 * node->interval_ms) - node->interval_ms) / 4;
      node->seen_ms = now_ms;
    }
    if (point.at_ms <= 0) point.at_ms = now_ms;
    if (point.at_ms > now_ms + kAheadMs) {
      node->ahead_ms = point.at_ms - now_ms;
      point.at_ms = now_ms;
    } else {
      node->ahead_ms = 0;
    }
    node->newest_ms = std::max(node->newest_ms, point.at_ms);
    if (!resource.host.empty()) Keep(node->host, resource.host);
    if (!words.rack.empty()) Keep(node->rack, words.rack);
    return true;
  }

  FleetGpu* FindGpu(const Words& words) {
    const int64_t index = words.index.empty() ? words.number : ParseInt<int64_t>(words.index).value_or(-1);
    const std::string_view uuid = Cut(words.uuid);
    if (index < 0 && uuid.empty()) return nullptr;
    auto& gpus = node->gpus;
    auto at = gpus.begin();
    if (index >= 0) at = std::ranges::lower_bound(gpus, index, {}, &FleetGpu::index);
    else at = std::ranges::find(gpus, uuid, &FleetGpu::uuid);
    if (at == gpus.end() || (index >= 0 && at->index != index)) {
      if (gpus.size() >= kMostGpus) return ++node->refused, nullptr;
      if (index < 0) at = gpus.begin();
      if (gpus.capacity() == gpus.size()) {
        const auto place = at - gpus.begin();
        gpus.reserve(gpus.empty() ? 8 : 2 * gpus.size());
        at = gpus.begin() + place;
      }
      at = gpus.insert(at, FleetGpu());
      at->index = index;
    }
    if (!uuid.empty() && at->uuid != uuid) {
      if (!at->uuid.empty()) ++node->replaced, node->replaced_ms = now_ms;
      at->uuid.assign(uuid);
    }
    return &*at;
  }

  void OfGpu(const Use& use, const Point& point) {
    const Words& words = point.words;
    if (!words.mig.empty()) return;
    FleetGpu* const gpu = FindGpu(words);
    if (!gpu) return;
    const bool known = std::isfinite(point.value), holds = known && point.value != 0;
    const auto keep_word = [&](std::string& to, int64_t& at_ms, std::string_view word) {
      if (holds && point.at_ms >= at_ms) Keep(to, word), at_ms = point.at_ms;
      else if (!holds && to == Cut(word) && point.at_ms > at_ms) to.clear(), at_ms = point.at_ms;
    };
    switch (use.kind) {
      case Use::kGpuInfo:
        if (known) Keep(gpu->model, words.model);
        break;
      case Use::kGpuState:
        keep_word(gpu->state, gpu->state_at_ms, words.state);
        if (holds) KeepOwner(*gpu, point);
        break;
      case Use::kGpuHealth: keep_word(gpu->health, gpu->health_at_ms, words.health); break;
      case Use::kGpuCondition: keep_word(gpu->condition, gpu->condition_at_ms, words.reason); break;
      default: KeepValue(*gpu, static_cast<FleetGpuValue>(use.value), point);
    }
  }

  void KeepOwner(FleetGpu& gpu, const Point& point) {
    if (point.at_ms < gpu.owner_at_ms) return;
    gpu.owner_at_ms = point.at_ms;
    const Words& words = point.words;
    std::string& text = table.key_;
    text.clear();
    if (!words.job.empty())
      text.append("slurm ")
          .append(words.job)
          .append(words.job_name.empty() ? "" : " ")
          .append(words.job_name);
    else if (!words.pod.empty())
      text.append(words.space).append(words.space.empty() ? "" : "/").append(words.pod);
    Keep(gpu.owner, text);
  }

  void KeepValue(FleetGpu& gpu, FleetGpuValue which, const Point& point) {
    const Words& words = point.words;
    double value = point.value;
    FleetValue& to = gpu.values[static_cast<size_t>(which)];
    if (which == FleetGpuValue::kBusy && (words.task == "encoder" || words.task == "decoder")) return;
    if (which == FleetGpuValue::kTemperature) {
      if (words.sensor == "memory") return;
      // The hottest place of the die, where a driver reports several.
      if (to.at_ms == point.at_ms && !(value > to.value)) return;
    }
    if (which == FleetGpuValue::kXids && value > to.value && point.at_ms >= to.at_ms)
      gpu.xid_rise_ms = point.at_ms;
    Keep(to, value, point.at_ms);
    if (which != FleetGpuValue::kBusy && which != FleetGpuValue::kPower) return;
    const int64_t step = point.at_ms / kFleetStepMs;
    if (!std::isfinite(value) || !Advance(*node, step)) return;
    const size_t place = static_cast<size_t>(step) % kFleetSteps;
    if (which == FleetGpuValue::kBusy)
      gpu.busy[place] = static_cast<uint8_t>(std::lround(std::clamp(value, 0.0, 1.0) * 100));
    else gpu.power[place] = static_cast<uint16_t>(std::lround(std::clamp(value, 0.0, 65534.0)));
  }

  FleetEngine* FindEngine(const Words& words, int64_t at_ms) {
    const std::string_view target = Cut(words.target), model = Cut(words.engine_model),
                           rank = Cut(words.rank);
    auto& engines = node->engines;
    for (FleetEngine& one : engines)
      if (one.target == target && one.model == model && one.rank == rank) return &one;
    FleetEngine* place = nullptr;
    if (engines.size() < kMostEngines) {
      place = &engines.emplace_back();
    } else {
      place = &*std::ranges::min_element(engines, {}, &FleetEngine::NewestMs);
      if (place->NewestMs() + kEngineLeavesMs > at_ms) return ++node->refused, nullptr;
      *place = {};
    }
    place->target = target, place->model = model, place->rank = rank;
    Keep(place->engine, words.engine);
    return place;
  }

  void OfEngine(const Use& use, const Point& point) {
    FleetEngine* const engine = FindEngine(point.words, point.at_ms);
    if (!engine) return;
    switch (use.kind) {
      case Use::kFirstToken:
        Keep(engine->sum, point.value, point.at_ms);
        Keep(engine->count, point.count, point.at_ms);
        break;
      case Use::kFirstTokenSum: Keep(engine->sum, point.value, point.at_ms); break;
      case Use::kFirstTokenCount: Keep(engine->count, point.value, point.at_ms); break;
      default: return Keep(engine->values[use.value], point.value, point.at_ms);
    }
    const FleetValue &sum = engine->sum, &count = engine->count;
    if (sum.at_ms != count.at_ms || sum.at_ms == engine->base_sum.at_ms) return;
    const double requests = count.value - engine->base_count.value;
    const double mean = (sum.value - engine->base_sum.value) / requests;
    // Without a request since then there is no time of one; after a reset it is not known.
    if (requests > 0 && mean >= 0)
      Keep(engine->values[static_cast<size_t>(FleetEngineValue::kFirstToken)], mean, sum.at_ms);
    engine->base_sum = sum, engine->base_count = count;
  }

  void OfNode(const Use& use, const Point& point) {
    if (use.kind == Use::kBuild) Keep(node->version, point.words.version);
    else if (use.kind == Use::kSimulated) node->simulated = point.value != 0;
    else if (!point.words.host.empty()) Keep(node->host, point.words.host);
  }
};

int64_t FleetEngine::NewestMs() const noexcept {
  int64_t newest = std::max(sum.at_ms, count.at_ms);
  for (const FleetValue& value : values) newest = std::max(newest, value.at_ms);
  return newest;
}

int64_t FleetGpu::NewestMs() const noexcept {
  int64_t newest = std::max(state_at_ms, health_at_ms);
  for (const FleetValue& value : values) newest = std::max(newest, value.at_ms);
  return newest;
}

int64_t FleetTable::AwayAfterMs(const Options& options, const FleetNode& node) noexcept {
  return std::max<int64_t>(options.away_after.count() / kMsNs, 3 * node.interval_ms);
}

void FleetTable::Configure(const Options& options) {
  std::lock_guard lock(mutex_);
  options_ = options;
  if (nodes_.size() <= options_.nodes) return;
  nodes_.sort([](const FleetNode& a, const FleetNode& b) { return a.seen_ms > b.seen_ms; });
  while (nodes_.size() > options_.nodes) Erase(std::prev(nodes_.end()));
}

FleetTable::Options FleetTable::options() const {
  std::lock_guard lock(mutex_);
  return options_;
}

void FleetTable::Observe(OtlpSignal signal, std::string_view request) {
  if (signal != OtlpSignal::kMetrics) return;
  const int64_t now_ms = clock_.Now().unix_ns / kMsNs;
  std::lock_guard lock(mutex_);
  FollowClock(now_ms);
  if (options_.nodes == 0) return;
  Reader{*this, now_ms, {}, nullptr}.Request(request);
}

void FleetTable::Read(
    const std::function<void(const std::list<FleetNode>&, const Totals&, int64_t now_ms)>& read) {
  const int64_t now_ms = clock_.Now().unix_ns / kMsNs;
  std::lock_guard lock(mutex_);
  FollowClock(now_ms);
  Forget(now_ms);
  read(nodes_, totals_, now_ms);
}

// Returns null for a node that is not known, and has no place or (now_ms 0) is not to be made.
FleetNode* FleetTable::Find(std::string_view instance, std::string_view cluster, int64_t now_ms) {
  key_.assign(cluster).append(1, '\0').append(instance);
  if (const auto found = by_name_.find(key_); found != by_name_.end()) return &*found->second;
  if (now_ms == 0) return nullptr;
  Forget(now_ms);
  if (nodes_.size() >= options_.nodes) {
    // A search of all nodes for each point of those without a place would hold up the receivers.
    if (now_ms - full_ms_ < kForgetEveryMs) return nullptr;
    const auto oldest = std::ranges::min_element(nodes_, {}, &FleetNode::seen_ms);
    if (now_ms - oldest->seen_ms < AwayAfterMs(options_, *oldest)) {
      Log(LogLevel::kWarn, "fleet", "full",
          "more than " + std::to_string(options_.nodes) +
              " nodes send through this gateway: further ones are passed on and not shown. See fleet.nodes.");
      full_ms_ = now_ms;
      return nullptr;
    }
    Erase(oldest);
  }
  FleetNode& made = nodes_.emplace_front();
  made.id = next_id_++;
  made.instance = instance;
  made.cluster = cluster;
  by_name_.emplace(key_, nodes_.begin());
  return &made;
}

void FleetTable::Erase(Nodes::iterator node) {
  std::string key = node->cluster;
  by_name_.erase(key.append(1, '\0').append(node->instance));
  nodes_.erase(node);
  ++totals_.forgotten;
}

// After a clock that was ahead, times of before would hide what comes, and show what was as new.
void FleetTable::FollowClock(int64_t now_ms) {
  if (now_ms + kAheadMs < latest_ms_) {
    Log(LogLevel::kWarn, "fleet", "clock", "the clock was set back: all nodes are forgotten until they send");
    nodes_.clear();
    by_name_.clear();
    forgot_ms_ = full_ms_ = 0;
    latest_ms_ = now_ms;
  }
  latest_ms_ = std::max(latest_ms_, now_ms);
}

void FleetTable::Forget(int64_t now_ms) {
  if (now_ms - forgot_ms_ < kForgetEveryMs) return;
  forgot_ms_ = now_ms;
  const int64_t after = options_.forget_after.count() / kMsNs;
  for (auto node = nodes_.begin(); node != nodes_.end();) {
    const auto next = std::next(node);
    std::erase_if(node->gpus, [&](const FleetGpu& one) { return node->newest_ms - one.NewestMs() > after; });
    std::erase_if(node->engines, [&](const FleetEngine& one) {
      return node->newest_ms - one.NewestMs() > kEngineForgottenMs;
    });
    if (now_ms - node->seen_ms > after) Erase(node);
    node = next;
  }
}

}  // namespace gpulens
