#include "plugins/analyzers/cost/engine_readings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "catalog/inference.h"

namespace gpulens::cost {
namespace {

using ledger::EngineReading;
using ledger::EngineWork;

// A metric that feeds a number. Of several rows of one number, those of the lowest rank that the model has
// count.
struct WorkRow {
  const MetricDesc* metric;
  double EngineWork::* number;
  int rank = 0;
  bool sum = false;  // the sum of a histogram
  std::string_view key = {}, value = {}, except = {};
};
constexpr WorkRow kRows[] = {
    {&kInferencePromptTokens, &EngineWork::prompt_tokens},
    {&kInferenceRequestPromptTokens, &EngineWork::prompt_tokens, 1, true},
    {&kInferenceCachedTokens, &EngineWork::cached_tokens},
    {&kInferencePromptTokensBySource,
     &EngineWork::cached_tokens,
     1,
     false,
     "inference.token_source",
     {},
     "computed"},
    {&kInferencePrefixCacheHits, &EngineWork::cached_tokens, 2},
    {&kInferenceGenerationTokens, &EngineWork::generated_tokens},
    {&kInferenceRequestGenerationTokens, &EngineWork::generated_tokens, 1, true},
    {&kInferencePrefillTime, &EngineWork::prefill_seconds, 0, true},
    {&kInferenceDecodeTime, &EngineWork::decode_seconds, 0, true},
    {&kInferenceRecomputedTokens, &EngineWork::recomputed_tokens},
    {&kInferenceRequestsAborted, &EngineWork::cancelled_requests},
    {&kInferenceRequestsFinished, &EngineWork::cancelled_requests, 1, false, "finish_reason", "abort"},
    {&kInferenceRequestsFinished, &EngineWork::finished_requests},
    {&kInferenceRequestsAborted, &EngineWork::finished_requests},
    {&kInferenceRequestDuration, &EngineWork::finished_requests, 1},
    {&kInferenceRequestsRunning, &EngineWork::running},
    {&kInferenceRequestsWaiting, &EngineWork::waiting},
    {&kInferenceSpecDraftTokens, &EngineWork::rejected_tokens},
    {&kInferenceSpecAcceptedTokens, &EngineWork::rejected_tokens},
};

constexpr double EngineWork::* kNumbers[] = {
    &EngineWork::prompt_tokens,     &EngineWork::cached_tokens,
    &EngineWork::generated_tokens,  &EngineWork::prefill_seconds,
    &EngineWork::decode_seconds,    &EngineWork::recomputed_tokens,
    &EngineWork::rejected_tokens,   &EngineWork::cancelled_requests,
    &EngineWork::finished_requests, &EngineWork::running,
    &EngineWork::waiting,
};

bool IsUsed(const MetricDesc* desc) {
  return std::ranges::any_of(kRows, [&](const WorkRow& row) { return row.metric == desc; });
}

// A series that may count, in the making of a plan.
struct Candidate {
  const WorkRow* row;
  uint32_t slot, cell;
  std::string rest;
  EngineRanks ranks{};
  bool counts = true;
};

// The lowest rank of otherwise equal series counts.
void DropCopies(std::vector<Candidate>& candidates) {
  std::map<std::pair<const WorkRow*, std::string>, Candidate*> lowest;
  for (Candidate& one : candidates) {
    auto [at, first] = lowest.try_emplace({one.row, one.rest}, &one);
    if (first) continue;
    if (one.ranks < at->second->ranks) std::exchange(at->second, &one)->counts = false;
    else one.counts = false;
  }
}

// Of the rows of one number, those of the lowest rank; a difference needs both of its parts.
void DropFallbacks(std::vector<Candidate>& candidates) {
  auto has = [&](const MetricDesc* metric) {
    return std::ranges::any_of(candidates, [&](const Candidate& one) { return one.row->metric == metric; });
  };
  const bool both = has(&kInferenceSpecDraftTokens) && has(&kInferenceSpecAcceptedTokens);
  for (Candidate& one : candidates) {
    for (const Candidate& other : candidates) {
      const bool lower = other.row->number == one.row->number && other.row->rank < one.row->rank;
      if (lower && (other.row->metric != &kInferenceRequestsAborted ||
                    one.row->number == &EngineWork::cancelled_requests))
        one.counts = false;
    }
    if (one.row->number == &EngineWork::rejected_tokens && !both) one.counts = false;
    // Aborted requests are counted apart from those that finished, and are no substitute for them.
    const bool ended = one.row->number == &EngineWork::finished_requests;
    if (ended && one.row->metric == &kInferenceRequestsAborted && !has(&kInferenceRequestsFinished))
      one.counts = false;
  }
}

int64_t PidOf(const Entity& engine) {
  const AttributeSet::Value value = engine.facts.Find("process.pid", int64_t{0});
  const int64_t* pid = std::get_if<int64_t>(&value);
  return pid ? *pid : 0;
}

}  // namespace

void EngineReadings::Plan(const Frame& frame, Source& source) {
  std::vector<Engine> before = std::exchange(source.engines, {});
  const Layout& layout = *frame.layout;
  source.layout_id = layout.id();
  auto is_used = [&](const SeriesInfo& info) {
    return info.desc && info.entity && info.entity->type == "engine" && IsUsed(info.desc);
  };
  // Which layers each target has.
  std::map<std::string, bool> has_engine;
  for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
    if (!is_used(layout[slot])) continue;
    const bool engine = layout[slot].attributes.Text("inference.layer") == "engine";
    bool& known = has_engine[layout[slot].attributes.Text("target")];
    known = known || engine;
  }
  std::map<std::string, std::map<std::string, std::vector<Candidate>>> work;  // by target and model
  std::map<std::string, std::pair<EngineIdentity, EntityRef>> identities;
  for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
    const SeriesInfo& info = layout[slot];
    if (!is_used(info)) continue;
    const std::string target = info.attributes.Text("target");
    if (target.empty() ||
        info.attributes.Text("inference.layer") != (has_engine[target] ? "engine" : "worker"))
      continue;
    auto [identity, first] = identities.try_emplace(target);
    if (first) identity->second = {{target, PidOf(*info.entity), PodOf(info.attributes)}, info.entity};
    auto& models = work[target];
    const std::string model = info.attributes.Text("model.name");
    if (models.size() >= kMostModels && !models.contains(model)) continue;
    for (const WorkRow& row : kRows) {
      if (row.metric != info.desc) continue;
      if (!row.value.empty() && info.attributes.Text(row.key) != row.value) continue;
      if (!row.except.empty() && info.attributes.Text(row.key) == row.except) continue;
      uint32_t cell = info.first_cell;
      if (info.shape && row.sum && !info.shape->has_sum) continue;
      if (info.shape && !row.sum && !info.shape->has_count) continue;
      if (info.shape) cell += row.sum ? info.shape->sum_cell() : info.shape->sum_cell() + info.shape->has_sum;
      Candidate candidate{.row = &row, .slot = slot, .cell = cell, .rest = {}};
      static_cast<void>(SplitRanks(info.attributes, candidate.rest, candidate.ranks));
      models[model].push_back(std::move(candidate));
    }
  }
  for (auto& [target, models] : work) {
    if (source.engines.size() >= kMostEngines) break;
    Engine& engine = source.engines.emplace_back();
    std::tie(engine.identity, engine.entity) = identities[target];
    engine.reading.engine = target;
    for (auto& [model, candidates] : models) {
      DropCopies(candidates);
      DropFallbacks(candidates);
      const size_t place = engine.reading.work.size();
      engine.reading.work.push_back({.model = model});
      for (const Candidate& one : candidates) {
        if (!one.counts) continue;
        const double sign = one.row->metric == &kInferenceSpecAcceptedTokens ? -1 : 1;
        engine.inputs.push_back({one.cell, one.slot, one.row->number, sign, place});
      }
    }
    auto old = std::ranges::find(before, target,
                                 [](const Engine& one) -> const std::string& { return one.identity.name; });
    if (old != before.end()) engine.last_at_ns = old->last_at_ns;
  }
}

bool EngineReadings::Follow(const Snapshot& snapshot) {
  bool changed = false;
  for (Source& source : sources_) source.seen = source.fresh = false;
  for (size_t i = 0; i < snapshot.frames.size(); ++i) {
    const SnapshotEntry& entry = snapshot.frames[i];
    auto at = i < sources_.size() && sources_[i].name == entry.source
                  ? sources_.begin() + static_cast<std::ptrdiff_t>(i)
                  : std::ranges::find(sources_, entry.source, &Source::name);
    if (at == sources_.end())
      at = sources_.insert(at, Source{.name = std::string(entry.source), .engines = {}});
    if (std::exchange(at->seen, true)) continue;
    at->fresh = at->run != entry.frame->run;
    at->run = entry.frame->run;
    if (at->layout_id == entry.frame->layout->id()) continue;
    Plan(*entry.frame, *at);
    changed = true;
  }
  changed = std::erase_if(sources_, [](const Source& source) { return !source.seen; }) > 0 || changed;
  if (!changed) return false;
  std::vector<EngineIdentity> before = std::exchange(engines_, {});
  List();
  return before != engines_;
}

// A target has one page; of two frames with one target the first counts.
void EngineReadings::List() {
  for (const Source& source : sources_) {
    for (const Engine& engine : source.engines) {
      const std::string& name = engine.identity.name;
      if (std::ranges::find(engines_, name, &EngineIdentity::name) == engines_.end())
        engines_.push_back(engine.identity);
    }
  }
}

EntityRef EngineReadings::EngineEntity(std::string_view engine) const {
  for (const Source& source : sources_) {
    for (const Engine& one : source.engines) {
      if (one.identity.name == engine) return one.entity;
    }
  }
  return {};
}

bool EngineReadings::Read(const Frame& frame, Engine& engine) {
  EngineReading& out = engine.reading;
  for (EngineWork& work : out.work) {
    for (double EngineWork::* number : kNumbers) work.*number = std::nan("");
  }
  bool any = false;
  uint32_t age_ms = 0;
  for (const Input& input : engine.inputs) {
    const Quality quality = frame.quality[input.slot];
    if (quality == Quality::kAbsent) continue;
    if (quality == Quality::kStale) return false;
    const Cell cell = frame.cells[input.cell];
    const bool integer = (*frame.layout)[input.slot].desc->number == Number::kInt;
    const double value = integer ? static_cast<double>(cell.i) : cell.d;
    if (!std::isfinite(value)) return false;
    double& number = out.work[input.work].*input.number;
    number = (std::isnan(number) ? 0 : number) + input.sign * value;
    age_ms = std::max(age_ms, frame.AgeMs(input.slot));
    any = true;
  }
  if (!any) return false;
  for (EngineWork& work : out.work) {
    // Of a draft, the accepted tokens may be counted first.
    if (work.rejected_tokens < 0) work.rejected_tokens = 0;
  }
  out.at_ns = frame.read_at.boot_ns - int64_t{age_ms} * 1'000'000;
  if (out.at_ns <= engine.last_at_ns) return false;
  engine.last_at_ns = out.at_ns;
  return true;
}

std::span<const EngineReading* const> EngineReadings::Take(const Snapshot& snapshot) {
  out_.clear();
  for (Source& source : sources_) {
    if (!source.fresh || source.engines.empty()) continue;
    auto entry = std::ranges::find(snapshot.frames, source.name, &SnapshotEntry::source);
    if (entry == snapshot.frames.end()) continue;
    for (Engine& engine : source.engines) {
      if (Read(*entry->frame, engine)) out_.push_back(&engine.reading);
    }
  }
  return out_;
}

}  // namespace gpulens::cost
