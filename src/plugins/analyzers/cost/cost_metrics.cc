#include "plugins/analyzers/cost/cost_metrics.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/text.h"

namespace gpulens::cost {
namespace {

constexpr double kPicoPerDollar = 1e12;
constexpr double kSecondsOfHour = 3600;
constexpr double kMgPerGram = 1000;
constexpr double kNsOfSecond = 1e9;
// Readings closer than this part of the window replace each other.
constexpr int64_t kKnotsOfWindow = 60;

constexpr std::string_view kByProcesses = "processes";
constexpr std::string_view kAllGpus = "all_gpus";

// Adds to a list over a window, in which knots are at least a sixtieth of it apart. The knot at or before the
// begin of the window stays, so that the window is covered.
template <class T>
void Append(std::vector<T>& list, const T& next, int64_t window_ns) {
  const int64_t apart = window_ns / kKnotsOfWindow;
  if (list.size() >= 2 && next.at_ns - list[list.size() - 2].at_ns < apart) list.back() = next;
  else list.push_back(next);
  size_t old = 0;
  while (old + 2 < list.size() && list[old + 1].at_ns <= next.at_ns - window_ns) ++old;
  list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(old));
}

// A counter that restarted, or that is not known any more.
bool Fell(double before, double now) noexcept {
  return std::isnan(now) != std::isnan(before) || now < before;
}

// The same attributes in another object are the same series.
template <class Known>
void Follow(Known& known, const EntityRef& entity) {
  if (!entity || known.entity == entity) return;
  known.renamed = known.renamed || (known.entity && !(known.entity->attributes == entity->attributes));
  known.entity = entity;
}

template <size_t kCount>
void RetireAll(std::array<Series, kCount>& all, FrameWriter& out) {
  for (Series& series : all) {
    if (series) out.table().Retire(series);
    series = {};
  }
}

void Put(Series& series, const MetricDesc& desc, const EntityRef& entity, std::optional<double> value,
         FrameWriter& out, std::string_view binding = {}) {
  if (!value) {
    if (series) out.Clear(series);
  } else if (binding.empty()) {
    out.DeclareAndSet(series, desc, entity, {}, *value);
  } else {
    out.DeclareAndSet(series, desc, entity, {{"gpu.cost.binding", binding}}, *value);
  }
}

double KnownOrNan(double value) noexcept { return value >= 0 ? value : std::nan(""); }

}  // namespace

void IdleState::Observe(std::optional<double> utilization, int64_t at_ns, double below,
                        Duration hold) noexcept {
  if (!utilization) {
    idle_.reset();
    since_ns_ = 0;
    return;
  }
  const bool low = *utilization < below;
  if (idle_.has_value() && *idle_ == low) {
    since_ns_ = 0;
    return;
  }
  if (!low && (!idle_.has_value() || *utilization >= 2 * below)) {
    idle_ = false;
    since_ns_ = 0;
    return;
  }
  if (since_ns_ == 0) since_ns_ = at_ns;
  if (at_ns - since_ns_ < hold.count()) return;
  idle_ = low;
  since_ns_ = 0;
}

TokenPrices PricesOf(double cost, double prompt_tokens, double generated_tokens,
                     std::optional<double> prefill_share) noexcept {
  TokenPrices prices;
  if (std::isnan(prompt_tokens) || std::isnan(generated_tokens)) return prices;
  if (prompt_tokens > 0 && generated_tokens > 0) {
    if (!prefill_share) return prices;
    prices.per_prompt = cost * *prefill_share / prompt_tokens;
    prices.per_generation = cost * (1 - *prefill_share) / generated_tokens;
  } else if (prompt_tokens > 0) {
    prices.per_prompt = cost / prompt_tokens;
  } else if (generated_tokens > 0) {
    prices.per_generation = cost / generated_tokens;
  }
  return prices;
}

void CostMetrics::Observe(const ledger::GpuReading& reading, const EntityRef& entity) {
  auto found = std::ranges::find(gpus_, reading.gpu, &Gpu::key);
  if (found == gpus_.end()) {
    found = gpus_.emplace(gpus_.end());
    found->key = reading.gpu;
  }
  Gpu& gpu = *found;
  if (reading.at_ns <= gpu.at_ns) return;
  if (gpu.at_ns != 0) gpu.interval_ns = reading.at_ns - gpu.at_ns;
  gpu.at_ns = reading.at_ns;
  gpu.model = reading.model;
  Follow(gpu, entity);
  gpu.power_watts = reading.power_watts;
  gpu.idle.Observe(reading.utilization, reading.at_ns, options_.idle_below, options_.idle_hold);
  if (!reading.energy_uj) {
    gpu.knots.clear();
  } else {
    if (!gpu.knots.empty() && *reading.energy_uj < gpu.knots.back().energy_uj) gpu.knots.clear();
    Append(gpu.knots, {.at_ns = reading.at_ns, .energy_uj = *reading.energy_uj}, options_.window.count());
  }
  size_t count = 0;
  for (const ledger::GpuUser& user : reading.users) {
    if (user.owner.engine.empty()) continue;
    auto held = std::find_if(gpu.held.begin(), gpu.held.begin() + static_cast<std::ptrdiff_t>(count),
                             [&](const Held& one) { return one.engine == user.owner.engine; });
    if (held == gpu.held.begin() + static_cast<std::ptrdiff_t>(count)) {
      if (gpu.held.size() == count) gpu.held.emplace_back();
      held = gpu.held.begin() + static_cast<std::ptrdiff_t>(count++);
      held->engine = user.owner.engine;
      held->memory_bytes = 0;
      held->memory_known = true;
    }
    held->memory_bytes += user.memory_bytes.value_or(0);
    held->memory_known = held->memory_known && user.memory_bytes.has_value();
  }
  gpu.held.resize(count);
  // A GPU that a pod of an engine has, and whose processes are not known.
  if (count == 0 && !reading.allocated.engine.empty())
    gpu.held.emplace_back().engine = reading.allocated.engine;
}

void CostMetrics::Observe(const ledger::EngineReading& reading, const EntityRef& entity) {
  auto found = std::ranges::find(engines_, reading.engine, &Engine::name);
  if (found == engines_.end()) {
    found = engines_.emplace(engines_.end());
    found->name = reading.engine;
  }
  Engine& engine = *found;
  if (reading.at_ns <= engine.at_ns) return;
  if (engine.at_ns != 0) engine.interval_ns = reading.at_ns - engine.at_ns;
  engine.at_ns = reading.at_ns;
  Follow(engine, entity);
  Work sum{.at_ns = reading.at_ns};
  for (const ledger::EngineWork& work : reading.work) {
    sum.prompt += KnownOrNan(work.prompt_tokens);
    sum.generated += KnownOrNan(work.generated_tokens);
    sum.prefill_s += KnownOrNan(work.prefill_seconds);
    sum.decode_s += KnownOrNan(work.decode_seconds);
    sum.running += KnownOrNan(work.running);
  }
  if (!engine.work.empty()) {
    const Work& last = engine.work.back();
    if (Fell(last.prompt, sum.prompt) || Fell(last.generated, sum.generated) ||
        Fell(last.prefill_s, sum.prefill_s) || Fell(last.decode_s, sum.decode_s))
      engine.work.clear();
  }
  if (engine.work.empty()) {
    sum.decoding_s = sum.decode_s / ledger::DecodesAtOnce(sum.running, sum.running);
  } else {
    const Work& last = engine.work.back();
    sum.decoding_s =
        last.decoding_s + (sum.decode_s - last.decode_s) / ledger::DecodesAtOnce(last.running, sum.running);
  }
  Append(engine.work, sum, options_.window.count());
}

std::optional<double> CostMetrics::EnergyAt(const Gpu& gpu, int64_t at_ns) noexcept {
  const auto after = std::ranges::lower_bound(gpu.knots, at_ns, {}, &Knot::at_ns);
  if (after == gpu.knots.end()) return std::nullopt;
  if (after->at_ns == at_ns) return static_cast<double>(after->energy_uj) * 1e-6;
  if (after == gpu.knots.begin()) return std::nullopt;
  const Knot& before = *std::prev(after);
  const double part =
      static_cast<double>(at_ns - before.at_ns) / static_cast<double>(after->at_ns - before.at_ns);
  return (static_cast<double>(before.energy_uj) +
          part * static_cast<double>(after->energy_uj - before.energy_uj)) *
         1e-6;
}

std::string_view CostMetrics::BindGpus(const Engine& engine) {
  parts_.clear();
  bool any = false;  // of any engine
  for (const Gpu& gpu : gpus_) {
    any = any || !gpu.held.empty();
    const auto own = std::ranges::find(gpu.held, engine.name, &Held::engine);
    if (own == gpu.held.end()) continue;
    int64_t all_bytes = 0;
    bool known = true;
    for (const Held& held : gpu.held) {
      all_bytes += held.memory_bytes;
      known = known && held.memory_known;
    }
    const double share = gpu.held.size() == 1 ? 1
                         : known && all_bytes > 0
                             ? static_cast<double>(own->memory_bytes) / static_cast<double>(all_bytes)
                             : 1 / static_cast<double>(gpu.held.size());
    parts_.push_back({.gpu = &gpu, .share = share});
  }
  if (!parts_.empty()) return kByProcesses;
  if (any || engines_.size() != 1 || gpus_.empty()) return {};
  for (const Gpu& gpu : gpus_) parts_.push_back({.gpu = &gpu});
  return kAllGpus;
}

void CostMetrics::LogPrice(Gpu& gpu, const ledger::Rates& in_force, Instant now, const LiveRates& rates) {
  // At the first tick an enricher may not have found out yet what this machine is.
  if (gpu.rates_version == rates.version() || (!in_force.pico_per_gpu_hour && writes_ < 2)) return;
  gpu.rates_version = rates.version();
  std::string origin = rates.table().PriceOrigin(gpu.model, now.unix_ns);
  auto logged = std::ranges::find(logged_, gpu.model, &std::pair<std::string, std::string>::first);
  if (logged == logged_.end()) logged = logged_.insert(logged_.end(), {gpu.model, {}});
  if (logged->second == origin) return;
  logged->second = std::move(origin);
  const std::string model = gpu.model.empty() ? "GPUs" : Printable(gpu.model);
  if (in_force.pico_per_gpu_hour) {
    Log(LogLevel::kInfo, "cost", "price",
        model + ": " + ledger::DecimalText(*in_force.pico_per_gpu_hour, ledger::kPicoDecimals) +
            " USD per GPU hour, from " + logged->second,
        gpu.model);
  } else {
    Log(options_.price_expected ? LogLevel::kWarn : LogLevel::kInfo, "cost", "price",
        "no price of " + model + ": " + logged->second +
            ". Set price_per_gpu_hour, price_file or instance_type; until then metrics of money are absent",
        gpu.model);
  }
}

void CostMetrics::WriteGpu(Gpu& gpu, Instant now, const LiveRates& rates, FrameWriter& out) {
  const ledger::Rates in_force = rates.At(gpu.model, now.unix_ns);
  LogPrice(gpu, in_force, now, rates);
  if (std::exchange(gpu.renamed, false)) RetireAll(gpu.series, out);
  std::optional<double> hour, second, idle, idle_rate, grams, grams_rate;
  if (in_force.pico_per_gpu_hour) {
    hour = static_cast<double>(*in_force.pico_per_gpu_hour) / kPicoPerDollar;
    second = *hour / kSecondsOfHour;
  }
  if (const auto state = gpu.idle.idle()) {
    idle = *state ? 1 : 0;
    if (second) idle_rate = *state ? *second : 0;
  }
  if (in_force.mg_per_kwh) {
    grams = static_cast<double>(*in_force.mg_per_kwh) / kMgPerGram;
    const double pue = static_cast<double>(in_force.pue_milli) / 1000;
    if (gpu.power_watts) grams_rate = *gpu.power_watts * pue / 1000 * *grams / kSecondsOfHour;
  }
  Put(gpu.series[0], kGpuCostPerGpuHour, gpu.entity, hour, out);
  Put(gpu.series[1], kGpuCostRate, gpu.entity, second, out);
  Put(gpu.series[2], kGpuIdle, gpu.entity, idle, out);
  Put(gpu.series[3], kGpuCostIdleRate, gpu.entity, idle_rate, out);
  Put(gpu.series[4], kGpuCo2Intensity, gpu.entity, grams, out);
  Put(gpu.series[5], kGpuCo2Rate, gpu.entity, grams_rate, out);
}

void CostMetrics::WriteEngine(Engine& engine, Instant now, const LiveRates& rates, FrameWriter& out) {
  std::optional<double> per_prompt, per_generation, per_watt, joules;
  if (std::exchange(engine.renamed, false)) RetireAll(engine.series, out);
  const std::string_view binding = BindGpus(engine);
  if (!binding.empty() && binding != engine.binding) {
    RetireAll(engine.series, out);
    engine.binding = binding;
    Log(LogLevel::kInfo, "cost", "engine_gpus",
        "engine " + Printable(engine.name) + ": " +
            (binding == kAllGpus ? "all " + std::to_string(parts_.size()) +
                                       " GPUs of this machine, as it is the only engine and none of its "
                                       "processes is known"
                                 : std::to_string(parts_.size()) + " GPUs, on which its processes are"),
        engine.name);
  }
  if (!parts_.empty() && engine.work.size() >= 2) {
    // The stretch ends with the last page that all GPUs were read after.
    int64_t from_ns = 0, to_ns = engine.work.back().at_ns;
    bool energy_known = true;
    for (const Part& part : parts_) {
      if (part.gpu->knots.size() < 2) energy_known = false;
      else {
        from_ns = std::max(from_ns, part.gpu->knots.front().at_ns);
        to_ns = std::min(to_ns, part.gpu->knots.back().at_ns);
      }
    }
    const auto stretch = [&](int64_t first_ns, int64_t last_ns) -> std::optional<std::pair<Work, Work>> {
      const auto first =
          std::ranges::find_if(engine.work, [&](const Work& w) { return w.at_ns >= first_ns; });
      auto last = engine.work.end();
      while (last != engine.work.begin() && std::prev(last)->at_ns > last_ns) --last;
      if (last == engine.work.begin() || first >= std::prev(last)) return std::nullopt;
      return std::pair(*first, *std::prev(last));
    };
    // Money needs no counter, so that its stretch may be longer.
    if (const auto whole = stretch(0, engine.work.back().at_ns)) {
      const auto& [first, last] = *whole;
      const double seconds = static_cast<double>(last.at_ns - first.at_ns) / kNsOfSecond;
      double dollars_per_hour = 0;
      bool price_known = true;
      for (const Part& part : parts_) {
        const auto pico = rates.At(part.gpu->model, now.unix_ns).pico_per_gpu_hour;
        price_known = price_known && pico.has_value();
        dollars_per_hour += part.share * static_cast<double>(pico.value_or(0)) / kPicoPerDollar;
      }
      // Time in prefill and decode over the stretch; while no request ended in it, since the engine started.
      std::optional<double> share;
      double prefill = last.prefill_s - first.prefill_s, decode = last.decoding_s - first.decoding_s;
      if (prefill + decode <= 0) prefill = last.prefill_s, decode = last.decoding_s;
      if (prefill + decode > 0) share = prefill / (prefill + decode);
      if (price_known) {
        const TokenPrices prices =
            PricesOf(dollars_per_hour / kSecondsOfHour * seconds, last.prompt - first.prompt,
                     last.generated - first.generated, share);
        per_prompt = prices.per_prompt;
        per_generation = prices.per_generation;
      }
    }
    if (const auto measured = energy_known ? stretch(from_ns, to_ns) : std::nullopt) {
      const auto& [first, last] = *measured;
      double energy = 0;
      for (const Part& part : parts_) {
        const auto begin = EnergyAt(*part.gpu, first.at_ns), end = EnergyAt(*part.gpu, last.at_ns);
        energy_known = energy_known && begin && end;
        if (begin && end) energy += part.share * (*end - *begin);
      }
      const double tokens = last.prompt - first.prompt + last.generated - first.generated;
      if (energy_known && tokens > 0 && energy > 0) {
        joules = energy / tokens;
        per_watt = tokens / energy;
      }
    }
  }
  Put(engine.series[0], kGpuCostPerPromptToken, engine.entity, per_prompt, out, engine.binding);
  Put(engine.series[1], kGpuCostPerGenerationToken, engine.entity, per_generation, out, engine.binding);
  Put(engine.series[2], kGpuTokensPerWatt, engine.entity, per_watt, out, engine.binding);
  Put(engine.series[3], kGpuJoulesPerToken, engine.entity, joules, out, engine.binding);
}

void CostMetrics::Write(Instant now, const LiveRates& rates, FrameWriter& out) {
  const auto is_gone = [&](auto& known) {
    if (now.boot_ns - known.at_ns <= 2 * (options_.window.count() + known.interval_ns)) return false;
    RetireAll(known.series, out);
    return true;
  };
  std::erase_if(gpus_, is_gone);
  std::erase_if(engines_, is_gone);
  ++writes_;
  for (Gpu& gpu : gpus_) {
    if (gpu.entity) WriteGpu(gpu, now, rates, out);
  }
  for (Engine& engine : engines_) {
    if (engine.entity) WriteEngine(engine, now, rates, out);
  }
}

}  // namespace gpulens::cost
