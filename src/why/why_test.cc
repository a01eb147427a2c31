#include "why/why.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "base/sanitizers.h"
#include "history/history.h"
#include "why/testing/why_world.h"

namespace gpulens {
namespace {

using why_world::kEndMs;
using why_world::kSeconds;
using why_world::Signal;
using why_world::World;
using Truth = std::set<std::pair<std::string, std::string>>;  // rule, subject

const WhyRule& RuleOf(std::string_view name) {
  for (const WhyRule& rule : WhyRules())
    if (rule.name == name) return rule;
  ADD_FAILURE() << "no rule " << name;
  return WhyRules()[0];
}

WhyReport Explain(World& world, std::optional<WhySubject> about = {}) {
  Result<WhyReport> report =
      ExplainWhy(world.Render(), {.about = std::move(about), .to_ms = kEndMs, .window_seconds = 300});
  EXPECT_TRUE(report) << report.error().detail;
  return *std::move(report);
}

Truth FoundIn(const WhyReport& report) {
  Truth found;
  for (const WhyFinding& finding : report.findings)
    found.emplace(finding.rule->name, WhySubjectText(finding.subject));
  return found;
}

// ---- Causes
// -------------------------------------------------------------------------------------------------

// How strong a cause is, and when: `level` is 1 at the threshold; it lasts from `from` to `to`, in seconds of
// the world.
struct Dose {
  double level;
  int from, to = kSeconds;
};

// Puts a cause into the world and returns its subject. `signals` are those that the rule needs, for gaps.
struct Applied {
  WhySubject subject;
  std::vector<Signal*> signals;
  Truth also;  // other rules that are right to find something then
};
using Apply = std::function<Applied(World&, const Dose&, int subject)>;

double Share(double value) { return std::clamp(value, 0.0, 1.0); }

Applied Throttle(World& world, const Dose& dose, int gpu, std::string_view rule, const char* cause) {
  const WhySubject subject = World::Gpu(gpu);
  const double share = Share(RuleOf(rule).threshold * dose.level);
  std::vector<Signal*> time = world.Find(subject, "gpu.throttle.time", {{"gpu.throttle.cause", cause}});
  for (int i = dose.from; i < dose.to; ++i) {
    time[0]->values[static_cast<size_t>(i)] = share;
    // A GPU of the job that is held down nearly always is slow among equals, too; that is tried by itself.
    for (Signal* clock : world.Find(subject, "gpu.clock.frequency"))
      clock->values[static_cast<size_t>(i)] *= gpu < World::kJobGpus ? 0.95 : 1 - 0.4 * share;
  }
  std::vector<Signal*> all = time;
  for (Signal* flag : world.Find(subject, "gpu.throttle.reason", {{"gpu.throttle.cause", cause}})) {
    for (int i = dose.from; i < dose.to; ++i) flag->values[static_cast<size_t>(i)] = world.Chance(share);
    all.push_back(flag);
  }
  return {subject, all, {}};
}

Applied Pressure(World& world, const Dose& dose, std::string_view rule, const char* resource) {
  std::vector<Signal*> some = world.Find(
      {}, "host.pressure.time", {{"host.pressure.resource", resource}, {"host.pressure.level", "some"}});
  some[0]->Set(Share(RuleOf(rule).threshold * dose.level), dose.from, dose.to);
  return {{WhyKind::kHost, ""}, some, {}};
}

std::string EngineName(int subject) { return subject % 2 == 0 ? "chat-a" : "code-b"; }

std::map<std::string, Apply, std::less<>> Causes() {
  std::map<std::string, Apply, std::less<>> causes;
  causes["power_cap"] = [](World& w, const Dose& d, int g) {
    return Throttle(w, d, g, "power_cap", "power_software");
  };
  causes["power_brake"] = [](World& w, const Dose& d, int g) {
    return Throttle(w, d, g, "power_brake", "power_brake");
  };
  causes["thermal_hardware"] = [](World& w, const Dose& d, int g) {
    return Throttle(w, d, g, "thermal_hardware", "temp_hardware");
  };
  causes["thermal_software"] = [](World& w, const Dose& d, int g) {
    Applied applied = Throttle(w, d, g, "thermal_software", "temp_software");
    w.Set(applied.subject, "gpu.temperature", {{"gpu.temperature.sensor", "edge"}}, 86);
    w.Set(applied.subject, "gpu.temperature.margin", {}, 0);
    w.Set(applied.subject, "gpu.temperature", {{"gpu.temperature.sensor", "memory"}}, w.Uniform(70, 92));
    return applied;
  };
  causes["thermal_memory"] = [](World& w, const Dose& d, int g) {
    Applied applied = Throttle(w, d, g, "thermal_memory", "temp_software");
    w.Set(applied.subject, "gpu.temperature", {{"gpu.temperature.sensor", "memory"}}, w.Uniform(95, 100));
    return applied;
  };
  causes["pcie_slow"] = [](World& w, const Dose& d, int g) -> Applied {
    const WhySubject s = World::Gpu(g);
    const bool narrow = w.Chance(0.5);
    // Below the threshold: both ends are at their best, or the GPU is idle.
    if (narrow) {
      w.Set(s, "gpu.pcie.link.width.current", {}, d.level > 1 ? 8 : 16, d.from, d.to);
    } else {
      w.Set(s, "gpu.pcie.link.gen.current", {}, w.Whole(1, 4), d.from, d.to);
      if (d.level < 1) w.Set(s, "gpu.utilization", {}, 0.02, d.from, d.to);
    }
    Applied applied{s, w.Find(s, narrow ? "gpu.pcie.link.width.current" : "gpu.pcie.link.gen.current"), {}};
    if (d.level > 1) return applied;
    w.Set(s, "gpu.idle", {}, 0);  // not for long enough to be idle
    return applied;
  };
  causes["numa_remote"] = [](World& w, const Dose& d, int) -> Applied {
    std::vector<Signal*> other = w.Find({}, "host.numa.memory.allocations", {{"host.numa.result", "other"}});
    std::vector<Signal*> local = w.Find({}, "host.numa.memory.allocations", {{"host.numa.result", "local"}});
    const double share = Share(RuleOf("numa_remote").threshold * d.level);
    for (size_t n = 0; n < other.size(); ++n) {
      for (int i = d.from; i < d.to; ++i) {
        const auto at = static_cast<size_t>(i);
        other[n]->values[at] = local[n]->values[at] * share / (1.0001 - share);
      }
    }
    return {{WhyKind::kHost, ""}, other, {}};
  };
  causes["cpu_pressure"] = [](World& w, const Dose& d, int) { return Pressure(w, d, "cpu_pressure", "cpu"); };
  causes["memory_pressure"] = [](World& w, const Dose& d, int) {
    return Pressure(w, d, "memory_pressure", "memory");
  };
  causes["storage_wait"] = [](World& w, const Dose& d, int) { return Pressure(w, d, "storage_wait", "io"); };
  causes["nvlink_errors"] = [](World& w, const Dose& d, int g) -> Applied {
    const WhySubject s = World::Gpu(g);
    std::vector<Signal*> all;
    for (const char* type : {"replay", "recovery"}) {
      std::vector<Signal*> one =
          w.Find(s, "gpu.interconnect.errors", {{"gpu.interconnect.error_type", type}});
      one[0]->Set(0);
      all.push_back(one[0]);
    }
    // As many as the dose has, anywhere in the time.
    const double errors =
        std::floor(RuleOf("nvlink_errors").threshold * d.level + 0.5) + (d.level > 1 ? 1 : 0);
    for (int i = 0; i < errors; ++i)
      all[w.Chance(0.5)]->values[static_cast<size_t>(w.Whole(d.from, d.to - 1))] += 1;
    return {s, all, {}};
  };
  causes["slow_gpu"] = [](World& w, const Dose& d, int g) -> Applied {
    const int gpu = g % World::kJobGpus;
    const double share = RuleOf("slow_gpu").threshold * d.level;
    std::vector<Signal*> clocks = w.Find(World::Gpu(gpu), "gpu.clock.frequency");
    for (Signal* clock : clocks) {
      for (int i = d.from; i < d.to; ++i) clock->values[static_cast<size_t>(i)] = 1920 * (1 - share);
    }
    // The others within two per cent, so that the dose is the distance from their median.
    for (int other = 0; other < World::kJobGpus; ++other) {
      if (other == gpu) continue;
      for (Signal* clock : w.Find(World::Gpu(other), "gpu.clock.frequency"))
        for (double& value : clock->values) value = 1920 + w.Uniform(-15, 15);
    }
    return {World::Gpu(gpu), clocks, {}};
  };
  causes["tensor_low"] = [](World& w, const Dose& d, int g) -> Applied {
    const WhySubject s = World::Gpu(g);
    std::vector<Signal*> tensor = w.Find(s, "gpu.pipe.tensor.active");
    // A level above 1 is lower activity.
    tensor[0]->Set(RuleOf("tensor_low").threshold / d.level, d.from, d.to);
    w.Set(s, "gpu.utilization", {}, 0.97, d.from, d.to);
    w.Set(s, "gpu.dram.active", {}, w.Uniform(0.05, 0.4), d.from, d.to);
    return {s, tensor, {}};
  };
  causes["memory_bound"] = [](World& w, const Dose& d, int g) -> Applied {
    const WhySubject s = World::Gpu(g);
    std::vector<Signal*> dram = w.Find(s, "gpu.dram.active");
    dram[0]->Set(std::min(RuleOf("memory_bound").threshold * d.level, 0.85), d.from, d.to);
    w.Set(s, "gpu.pipe.tensor.active", {}, w.Uniform(0.15, 0.4));
    return {s, dram, {}};
  };
  causes["kv_cache_full"] = [](World& w, const Dose& d, int e) -> Applied {
    const WhySubject s{WhyKind::kEngine, EngineName(e)};
    std::vector<Signal*> usage = w.Find(s, "inference.kv_cache.usage");
    usage[0]->Set(d.level > 1 ? w.Uniform(0.955, 1) : w.Uniform(0.85, 0.945), d.from, d.to);
    return {s, usage, {}};
  };
  causes["kv_preemptions"] = [](World& w, const Dose& d, int e) -> Applied {
    const WhySubject s{WhyKind::kEngine, EngineName(e)};
    std::vector<Signal*> count = w.Find(s, "inference.scheduler.preemptions");
    count[0]->Set(0);
    const int last = std::max(d.from, d.to - 54);  // a page of the engine may be 5 s old
    const int number = d.level > 1 ? static_cast<int>(std::ceil(3 * d.level)) : w.Whole(0, 2);
    for (int i = 0; i < number && last < d.to; ++i)
      count[0]->values[static_cast<size_t>(w.Whole(last, std::max(last, d.to - 6)))] += 1;
    w.Set(s, "inference.tokens.recomputed", {}, w.Uniform(50, 500), d.from, d.to);
    return {s, count, {}};
  };
  causes["queue_wait"] = [](World& w, const Dose& d, int e) -> Applied {
    const WhySubject s{WhyKind::kEngine, EngineName(e)};
    std::vector<Signal*> waiting = w.Find(s, "inference.requests.waiting");
    const double running = w.Uniform(20, 60), share = std::min(RuleOf("queue_wait").threshold * d.level, 0.9);
    w.Set(s, "inference.requests.running", {}, running);
    waiting[0]->Set(running * share / (1 - share), d.from, d.to);
    return {s, waiting, {}};
  };
  causes["prefix_hits_fall"] = [](World& w, const Dose& d, int e) -> Applied {
    const WhySubject s{WhyKind::kEngine, EngineName(e)};
    std::vector<Signal*> hits = w.Find(s, "inference.prefix_cache.hits");
    const double tokens = w.Find(s, "inference.prefix_cache.queries")[0]->values[0],
                 before = w.Uniform(0.6, 0.7);
    const double fall = std::min(RuleOf("prefix_hits_fall").threshold * d.level, before);
    hits[0]->Set(tokens * before);
    hits[0]->Set(tokens * (before - fall), d.from, d.to);
    return {s, hits, {}};
  };
  causes["ecc_errors"] = [](World& w, const Dose& d, int g) -> Applied {
    const WhySubject s = World::Gpu(g);
    std::vector<Signal*> errors = w.Find(
        s, "gpu.ecc.errors", {{"gpu.ecc.error_type", "correctable"}, {"gpu.ecc.count_type", "volatile"}});
    const double count = d.level > 1 ? std::ceil(10 * d.level) : std::floor(9.99 * d.level);
    for (int i = 0; i < count; ++i) errors[0]->values[static_cast<size_t>(w.Whole(d.from, d.to - 7))] += 1;
    return {s, errors, {}};
  };
  causes["row_remap"] = [](World& w, const Dose& d, int g) -> Applied {
    const WhySubject s = World::Gpu(g);
    std::vector<Signal*> pending = w.Find(s, "gpu.row_remap.reset_pending");
    pending[0]->Set(d.level > 1 ? 1 : 0, d.from, d.to);
    return {s, pending, {}};
  };
  causes["clock_limit"] = [](World& w, const Dose& d, int g) -> Applied {
    const WhySubject s = World::Gpu(g);
    std::vector<Signal*> limit = w.Find(s, "gpu.clock.limit");
    // In a job all boards are set alike.
    for (int other = 0; other < w.gpu_count; ++other) {
      if (other != g && (g >= World::kJobGpus || other >= World::kJobGpus)) continue;
      const double to = 1980 * (1 - std::min(RuleOf("clock_limit").threshold * d.level, 0.6));
      for (Signal* clock : w.Find(World::Gpu(other), "gpu.clock.frequency")) {
        for (int i = d.from; i < d.to; ++i)
          clock->values[static_cast<size_t>(i)] = std::min(clock->values[static_cast<size_t>(i)], to);
      }
    }
    limit[0]->Set(1980 * (1 - std::min(RuleOf("clock_limit").threshold * d.level, 0.6)), d.from, d.to);
    return {s, limit, {}};
  };
  causes["idle_allocated"] = [](World& w, const Dose& d, int g) -> Applied {
    const WhySubject s = World::Gpu(g);
    std::vector<Signal*> idle = w.Find(s, "gpu.idle"), busy = w.Find(s, "gpu.utilization");
    // A level above 1 is less use.
    busy[0]->Set(0.05 / d.level, d.from, d.to);
    idle[0]->Set(d.level > 1 ? 1 : 0, d.from, d.to);
    for (const char* quiet : {"gpu.sm.active", "gpu.pipe.tensor.active", "gpu.dram.active"})
      w.Set(s, quiet, {}, 0.01, d.from, d.to);
    if (d.level > 1) w.Set(s, "gpu.pcie.link.gen.current", {}, 1, d.from + 10, d.to);  // as idle GPUs do
    w.Set(s, "gpu.clock.frequency", {}, 345, d.from, d.to);
    return {s, {idle[0], busy[0]}, {}};
  };
  causes["data_wait"] = [](World& w, const Dose& d, int g) -> Applied {
    std::vector<Signal*> wait =
        w.Find({}, "process.phase.time",
               {{"process.pid", std::to_string(5000 + g)}, {"process.phase", "data_loading"}});
    wait[0]->Set(RuleOf("data_wait").threshold * d.level, d.from, d.to);
    return {World::Gpu(g), wait, {}};
  };
  // A level below 1 is a rank that is late, and no straggler yet.
  causes["late_rank"] = [](World& w, const Dose& d, int g) -> Applied {
    const std::pair<std::string, std::string> rank = {"nccl.rank", std::to_string(g % World::kJobGpus)};
    std::vector<Signal*> flag = w.Find({}, "nccl.rank.straggler", {rank});
    flag[0]->Set(d.level > 1 ? 1 : 0, d.from, d.to);
    w.Set({}, "nccl.rank.lateness", {rank}, 0.02, d.from, d.to);
    w.Set({}, "nccl.rank.lost_time", {rank}, 0.07, d.from, d.to);
    return {{WhyKind::kHost, ""}, flag, {}};
  };
  causes["hung_collective"] = [](World& w, const Dose& d, int) -> Applied {
    std::vector<Signal*> flag = w.Find({}, "nccl.communicator.hung");
    flag[0]->Set(d.level > 1 ? 1 : 0, d.from, d.to);
    w.Set({}, "nccl.communicator.ranks.missing", {}, 1, d.from, d.to);
    return {{WhyKind::kHost, ""}, flag, {}};
  };
  return causes;
}

// A variation: what is done to the world besides the cause.
enum Variation {
  kHolds,
  kNearMiss,
  kTooShort,
  kOver,
  kPair,
  kSmallGap,
  kLargeGap,
  kReset,
  kStale,
  kVariations
};
constexpr const char* kVariationNames[] = {"holds",     "near miss", "too short", "over", "pair",
                                           "small gap", "large gap", "reset",     "stale"};

// Counters of events and states that are true at once have no least time.
bool CountsEvents(std::string_view rule) {
  return rule == "nvlink_errors" || rule == "ecc_errors" || rule == "kv_preemptions";
}

struct Score {
  int right = 0, wrong = 0, missed = 0;
  std::map<std::string, int> by_variation;  // mistakes
};

// Applies one variation and returns what is true then. The subject's number is below the GPUs'.
Truth Vary(World& world, const std::string& rule_name, Variation variation, const Apply& apply, int subject) {
  const WhyRule& rule = RuleOf(rule_name);
  const bool falls = rule_name == "prefix_hits_fall", counts = CountsEvents(rule_name);
  // Since a moment before the rule's time; a fall needs a time before it.
  const int since = falls ? kSeconds - world.Whole(62, 90) : kSeconds - rule.seconds - world.Whole(8, 12);
  Dose dose{world.Uniform(1.04, 1.8), falls || !world.Chance(0.5) ? std::max(since, 0) : 0};
  if (counts) dose.from = kSeconds - rule.seconds + 8;
  bool holds = true;
  // Unknown time counts as free of the cause: what is barely there is not found then.
  if (variation == kSmallGap || variation == kReset) dose.level = world.Uniform(1.35, 1.8);
  if (variation == kNearMiss) dose.level = world.Uniform(0.5, 0.96), holds = false;
  if (variation == kTooShort) {
    dose.from = kSeconds - static_cast<int>(rule.seconds * world.Uniform(0.1, 0.5));
    holds = false;
    // Sums of time and counts do not depend on how long, but how much.
    if (counts) dose.level = world.Uniform(0.2, 0.8), dose.from = kSeconds - rule.seconds / 2;
    if (falls || rule.name.starts_with("thermal") || rule.name == "power_cap" || rule.name == "power_brake" ||
        rule.name == "data_wait" || rule.kind == WhyKind::kHost)
      dose.level = 1.08;
  }
  if (variation == kOver) {
    dose.to = kSeconds - (counts ? rule.seconds + 8 : 35);
    dose.from = std::max(0, dose.to - 90);
    if (counts && dose.to < 20) dose.to = 20, dose.from = 0;
    holds = false;
  }
  Applied applied = apply(world, dose, subject);
  if (variation == kSmallGap) {
    for (Signal* signal : applied.signals) {
      // Not where a count has its events, and not the last reading.
      const int at = kSeconds - world.Whole(14, 18);
      if (!counts) signal->Mark(SeriesSample::kGap, at, at + 2 * signal->period / 3);
    }
  }
  if (variation == kLargeGap) {
    const int from = counts ? 0 : kSeconds - rule.seconds - 8;
    for (Signal* signal : applied.signals)
      signal->Mark(SeriesSample::kGap, from, kSeconds - (world.Chance(0.5) ? 0 : 6));
    holds = false;
  }
  if (variation == kStale) {
    for (Signal* signal : applied.signals)
      signal->Mark(SeriesSample::kStale, counts ? 0 : kSeconds - rule.seconds * 2 / 3);
    holds = false;
  }
  if (variation == kReset) {
    // Without the cause: a driver or an engine that begins again.
    for (Signal& signal : world.signals)
      if (world.Chance(0.5))
        signal.resets[static_cast<size_t>(world.Whole(kSeconds - 55, kSeconds - 10))] = true;
  }
  Truth truth = applied.also;
  if (holds) truth.emplace(rule_name, WhySubjectText(applied.subject));
  return truth;
}

TEST(Why, ALateRankIsNamed) {
  World world(7);
  world.Set({}, "nccl.rank.straggler", {{"nccl.rank", "3"}}, 1);
  world.Set({}, "nccl.rank.lateness", {{"nccl.rank", "3"}}, 0.02);
  world.Set({}, "nccl.rank.lost_time", {{"nccl.rank", "3"}}, 0.07);
  const WhyReport report = Explain(world);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(
      report.findings[0].sentence,
      "Rank 3 of communicator 0xab on node-1 arrives 20 ms later than the median of the ranks: all others "
      "wait for it.");
  EXPECT_NEAR(report.findings[0].cost.share, 0.07, 0.01);
}

TEST(Why, AProcessThatWaitsForDataIsNamed) {
  World world(8);
  world.Set({}, "process.phase.time", {{"process.pid", "5004"}, {"process.phase", "data_loading"}}, 0.4);
  const WhyReport report = Explain(world);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].subject, World::Gpu(4));
  EXPECT_EQ(report.findings[0].sentence, "Process 5004 (python3) waits for its next batch 40 % of the time.");
}

TEST(Why, EachRuleFindsItsCauseAndNothingElse) {
  const auto causes = Causes();
  ASSERT_EQ(causes.size(), WhyRules().size());
  // Of each variation: 108 nodes for each rule. A sanitizer looks for other faults, and takes ten times as
  // long.
  constexpr int kOfEach = kAddressSanitizer || kThreadSanitizer ? 1 : 12;
  std::map<std::string, Score> scores;
  std::vector<std::string> misses;
  uint64_t seed = 1;
  for (const auto& [name, apply] : causes) {
    for (int variation = 0; variation < kVariations; ++variation) {
      for (int i = 0; i < kOfEach; ++i) {
        World world(++seed);
        const int subject = world.Whole(0, world.gpu_count - 1);
        Truth truth = Vary(world, name, static_cast<Variation>(variation), apply, subject);
        if (variation == kPair) {
          // Another cause, of another subject where both would change the same readings.
          auto other = causes.begin();
          do {
            other = std::next(causes.begin(), world.Whole(0, static_cast<int>(causes.size()) - 1));
          } while (other->first == name);
          int second = world.Whole(World::kJobGpus, world.gpu_count - 1);
          if (RuleOf(other->first).kind == WhyKind::kEngine) second = subject + 1;
          else if (second == subject) second = second == World::kJobGpus ? second + 1 : World::kJobGpus;
          // Both rules about a job look at all of its GPUs.
          if ((name == "slow_gpu" && other->first == "clock_limit") ||
              (name == "clock_limit" && other->first == "slow_gpu") ||
              (other->first == "slow_gpu" && subject < World::kJobGpus))
            continue;
          truth.merge(Vary(world, other->first, kHolds, other->second, second));
        }
        const Truth found = FoundIn(Explain(world));
        auto note = [&](const char* what, const std::pair<std::string, std::string>& who) {
          scores[who.first].by_variation[kVariationNames[variation]]++;
          misses.push_back(std::string(what) + " " + who.first + " of " + who.second + " in seed " +
                           std::to_string(seed) + ", " + kVariationNames[variation] + " of " + name);
        };
        for (const auto& who : truth) {
          if (found.contains(who)) scores[who.first].right++;
          else scores[who.first].missed++, note("missed", who);
        }
        for (const auto& who : found)
          if (!truth.contains(who)) scores[who.first].wrong++, note("wrong", who);
      }
    }
  }
  std::printf("%-18s %9s %9s %6s %6s %6s\n", "rule", "precision", "recall", "right", "wrong", "missed");
  for (const WhyRule& rule : WhyRules()) {
    const Score& score = scores[std::string(rule.name)];
    const double precision = score.right / std::max(1.0, static_cast<double>(score.right + score.wrong));
    const double recall = score.right / std::max(1.0, static_cast<double>(score.right + score.missed));
    std::printf("%-18s %9.4f %9.4f %6d %6d %6d\n", std::string(rule.name).c_str(), precision, recall,
                score.right, score.wrong, score.missed);
    EXPECT_GE(score.right, 3 * kOfEach) << rule.name;
    EXPECT_GE(precision, 0.99) << rule.name;
    EXPECT_GE(recall, 0.99) << rule.name;
  }
  for (size_t i = 0; i < misses.size() && i < 60; ++i) std::printf("%s\n", misses[i].c_str());
}

TEST(Why, AWellNodeHasNoFindingAndListsWhatWasLookedAt) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    World world(seed);
    WhyReport report = Explain(world);
    EXPECT_TRUE(FoundIn(report).empty()) << seed << " " << FoundIn(report).begin()->first;
    EXPECT_EQ(report.looked.size(), WhyRules().size());
  }
}

TEST(Why, AnAbsentSeriesIsNamed) {
  World world(3);
  std::erase_if(world.signals, [](const Signal& s) { return s.name == "gpu.dram.active"; });
  WhyReport report = Explain(world);
  std::string reasons;
  for (const WhyUnknown& row : report.unknown)
    reasons.append(row.rule->name).append(": ").append(WhySubjectsText(row.subjects)).append(": ") +=
        row.reason + "\n";
  EXPECT_EQ(reasons,
            "slow_gpu: GPU 4, 5: not one of three or more equal GPUs of a job\n"
            "tensor_low: GPU 0-5: no series gpu.dram.active\n"
            "memory_bound: GPU 0-5: no series gpu.dram.active\n");
}

TEST(Why, AHistoryThatHasJustBegunIsUnknown) {
  World world(4);
  std::vector<SeriesWindow> windows = world.Render();
  for (SeriesWindow& window : windows)
    std::erase_if(window.samples,
                  [](const SeriesSample& sample) { return sample.unix_ms < kEndMs - 12'500; });
  Result<WhyReport> report = ExplainWhy(windows, {.about = {}, .to_ms = kEndMs});
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->findings.empty());
  EXPECT_GT(report->wait_seconds, 30);
  EXPECT_LE(report->wait_seconds, 60);
  bool reported = false;
  for (const WhyUnknown& row : report->unknown)
    reported |= row.rule->name == "power_cap" && row.reason == "history too short: has 12 s, needs 48 s";
  EXPECT_TRUE(reported);
}

TEST(Why, NothingAtAllIsUnknown) {
  Result<WhyReport> report = ExplainWhy({}, {.about = {}, .to_ms = kEndMs});
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->findings.empty());
  EXPECT_TRUE(report->looked.empty());
  EXPECT_EQ(report->unknown.size(), WhyRules().size());
}

TEST(Why, AQuestionAboutOneThingHasWhatConcernsIt) {
  World world(5);
  Causes()["power_cap"](world, {1.5, 0}, 4);
  Causes()["power_brake"](world, {3, 0}, 5);
  Causes()["cpu_pressure"](world, {2, 0}, 0);
  auto names = [&](WhySubject about) {
    std::string text;
    for (const auto& [rule, who] : FoundIn(Explain(world, std::move(about)))) text += rule + " " + who + ";";
    return text;
  };
  EXPECT_EQ(names({WhyKind::kGpu, "4"}), "cpu_pressure host;power_cap GPU 4;");
  EXPECT_EQ(names({WhyKind::kJob, "ml/pod-5"}), "cpu_pressure host;power_brake GPU 5;");
  EXPECT_EQ(names({WhyKind::kJob, "48213"}), "cpu_pressure host;");
  EXPECT_EQ(names({WhyKind::kProcess, "5004"}), "cpu_pressure host;power_cap GPU 4;");
  EXPECT_EQ(names({WhyKind::kEngine, "chat-a"}), "cpu_pressure host;");
  Result<WhyReport> none =
      ExplainWhy(world.Render(), {.about = WhySubject{WhyKind::kGpu, "9"}, .to_ms = kEndMs});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().detail, "no GPU 9 in the history; there are: 0, 1, 2, 3, 4, 5");
}

TEST(Why, AFindingShowsItsSeriesValuesTimeAndCost) {
  World world(6);
  Causes()["power_cap"](world, {1.6, 200}, 4);
  world.Set(World::Gpu(4), "gpu.power.limit", {{"gpu.power.limit_type", "enforced"}}, 500);
  WhyReport report = Explain(world);
  ASSERT_EQ(report.findings.size(), 1u);
  const WhyFinding& finding = report.findings[0];
  EXPECT_TRUE(
      finding.sentence.starts_with("Clocks are held down 80 % of the time by the power limit of 500 W, which "
                                   "is below the board's default of 700 W: "))
      << finding.sentence;
  EXPECT_NEAR(static_cast<double>(kEndMs - finding.since_ms) / 1000, 130, 5);
  EXPECT_FALSE(finding.since_begin);
  EXPECT_EQ(finding.job, "ml/pod-4");
  // 80 % of the time, at 68 % of 1,920 of 1,980 MHz.
  EXPECT_NEAR(finding.cost.share, 0.8 * (1 - 0.68 * 1920 / 1980), 0.03);
  EXPECT_TRUE(finding.cost.at_most);
  ASSERT_EQ(finding.evidence.size(), 6u);
  EXPECT_EQ(finding.evidence[0].metric, "gpu.throttle.time");
  EXPECT_NEAR(finding.evidence[0].value, 0.8, 0.01);
  EXPECT_EQ(finding.evidence[0].attributes[0].second, "4");
}

// A driver may have counters of time that never count; its flags do then.
TEST(Why, AFlagCountsWhereTheCounterDoesNot) {
  World world(7);
  world.Set(World::Gpu(5), "gpu.throttle.time", {}, 0);
  world.Set(World::Gpu(5), "gpu.throttle.reason", {{"gpu.throttle.cause", "temp_hardware"}}, 1,
            kSeconds - 40);
  WhyReport report = Explain(world);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].rule->name, "thermal_hardware");
  EXPECT_EQ(report.findings[0].evidence[0].metric, "gpu.throttle.reason");
}

// What the history does not keep, a rule could never read in an agent.
TEST(Why, TheHistoryKeepsWhatRulesRead) {
  std::set<std::string_view> kept;
  for (const MetricDesc* metric : KeptMetrics()) kept.insert(metric->name);
  for (std::string_view name : WhyMetrics()) EXPECT_TRUE(kept.contains(name)) << name;
}

TEST(Why, TheTableIsWhole) {
  std::set<std::string_view> names;
  for (const WhyRule& rule : WhyRules()) {
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    for (std::string_view text : {rule.title, rule.condition, rule.cost, rule.advice, rule.source})
      EXPECT_FALSE(text.empty());
    EXPECT_GT(rule.least_seconds, 0);
    EXPECT_LE(rule.least_seconds, rule.seconds);
    EXPECT_EQ(WhyConditionText(rule).find('{'), std::string::npos) << WhyConditionText(rule);
    for (const WhyRole& role : rule.roles) EXPECT_FALSE(role.any_of.empty());
  }
  EXPECT_EQ(WhyConditionText(WhyRules()[0]),
            "the power limit holds the clock down for more than 50 % of 60 s");
}

}  // namespace
}  // namespace gpulens
