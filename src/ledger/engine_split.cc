#include "ledger/engine_split.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ledger/apportion.h"
#include "ledger/request_split.h"

namespace gpulens::ledger {
namespace {

// A counter of an engine beyond this is no count.
constexpr double kMostCount = 1e15;
// Of the learnt seconds per token: after so long, older times count half.
constexpr double kHalfLifeNs = 300e9;

bool Known(double value) noexcept { return value >= 0 && value <= kMostCount; }

// How much a counter grew; none if one of its values is not known.
std::optional<double> Growth(double before, double now) noexcept {
  if (!Known(before) || !Known(now)) return {};
  return now >= before ? now - before : now;
}

const EngineWork* WorkOf(const KeptPage& page, std::string_view model) {
  const auto at =
      std::lower_bound(page.work.begin(), page.work.end(), model,
                       [](const EngineWork& work, std::string_view name) { return work.model < name; });
  return at != page.work.end() && at->model == model ? &*at : nullptr;
}

EngineWindow::Model& ModelOf(EngineWindow& window, const std::string& model) {
  for (EngineWindow::Model& known : window.models) {
    if (known.model == model) return known;
  }
  return window.models.emplace_back(EngineWindow::Model{model});
}

// The part of a stretch between two pages that is in the window.
struct Overlap {
  double from = 0, to = 1;
  double Of(double growth) const { return growth * (to - from); }
  // Whole tokens: those of neighbouring overlaps add up to all.
  int64_t Tokens(double growth) const {
    return static_cast<int64_t>(std::floor(growth * to)) - static_cast<int64_t>(std::floor(growth * from));
  }
};

struct Sums {
  EngineFold times;
  std::vector<std::pair<double, double>> cancelled;  // by model: cancelled, finished
};

void AddStretch(const KeptPage& before, const KeptPage& now, const Overlap& overlap, EngineWindow& out,
                Sums& sums) {
  // A model that the page before did not have counts from 0.
  EngineWork none;
  none.prompt_tokens = none.cached_tokens = none.generated_tokens = 0;
  none.prefill_seconds = none.decode_seconds = none.recomputed_tokens = none.rejected_tokens = 0;
  none.cancelled_requests = none.finished_requests = 0;
  for (const EngineWork& work : now.work) {
    const EngineWork* found = WorkOf(before, work.model);
    const EngineWork& past = found != nullptr ? *found : none;
    EngineWindow::Model& model = ModelOf(out, work.model);
    const auto index = static_cast<size_t>(&model - out.models.data());
    sums.cancelled.resize(out.models.size());
    const auto growth = [&](double EngineWork::* counter) { return Growth(past.*counter, work.*counter); };
    // Tokens that came from a cache were not computed.
    std::optional<double> prefill = growth(&EngineWork::prompt_tokens);
    if (prefill) prefill = std::max(0.0, *prefill - growth(&EngineWork::cached_tokens).value_or(0));
    const std::optional<double> decode = growth(&EngineWork::generated_tokens);
    model.prefill_tokens += overlap.Tokens(prefill.value_or(0));
    model.decode_tokens += overlap.Tokens(decode.value_or(0));
    model.recomputed_tokens += overlap.Tokens(growth(&EngineWork::recomputed_tokens).value_or(0));
    model.rejected_tokens += overlap.Tokens(growth(&EngineWork::rejected_tokens).value_or(0));
    const std::optional<double> prefill_seconds = growth(&EngineWork::prefill_seconds);
    const std::optional<double> decode_seconds = growth(&EngineWork::decode_seconds);
    if (prefill && prefill_seconds) {
      sums.times.prefill_seconds += overlap.Of(*prefill_seconds);
      sums.times.prefill_tokens += overlap.Of(*prefill);
    }
    if (decode && decode_seconds) {
      sums.times.decode_seconds += overlap.Of(*decode_seconds) / DecodesAtOnce(past.running, work.running);
      sums.times.decode_tokens += overlap.Of(*decode);
    }
    sums.cancelled[index].first += overlap.Of(growth(&EngineWork::cancelled_requests).value_or(0));
    sums.cancelled[index].second += overlap.Of(growth(&EngineWork::finished_requests).value_or(0));
  }
}

// One of the shares into which an engine's account is divided.
struct ClassWeight {
  int model;
  RequestClass request_class;
  Cause waste;  // kNone: not wasted
  double seconds;
};

// `useful`: the account's time is useful but for what the engine wasted.
void ClassWeights(const EngineWindow& window, bool useful, std::vector<ClassWeight>& out) {
  out.clear();
  const auto add = [&](size_t model, RequestClass request_class, Cause waste, double seconds) {
    if (seconds > 0) out.push_back({static_cast<int>(model), request_class, waste, seconds});
  };
  for (size_t i = 0; i < window.models.size(); ++i) {
    const EngineWindow::Model& model = window.models[i];
    const auto one = [&](RequestClass request_class, double per_token, int64_t tokens, int64_t lost,
                         Cause lost_cause) {
      const double work = per_token * static_cast<double>(tokens),
                   waste = per_token * static_cast<double>(lost);
      if (!useful) return add(i, request_class, Cause::kNone, work + waste);
      add(i, request_class, Cause::kNone, work * (1 - model.cancelled));
      add(i, request_class, Cause::kCancelled, work * model.cancelled);
      add(i, request_class, lost_cause, waste);
    };
    one(RequestClass::kPrefill, window.prefill_seconds_per_token, model.prefill_tokens,
        model.recomputed_tokens, Cause::kPreemptRecompute);
    one(RequestClass::kDecode, window.decode_seconds_per_token, model.decode_tokens, model.rejected_tokens,
        Cause::kSpecRejected);
  }
}

}  // namespace

EngineWindow EngineWindowOf(const EngineTimeline& engine, int64_t start, int64_t end, int64_t longest,
                            EngineFold& fold) {
  EngineWindow out;
  Sums sums;
  bool covered = false, open = false, known = true;
  const auto& pages = engine.pages;
  const auto after = std::upper_bound(pages.begin(), pages.end(), start,
                                      [](int64_t t, const KeptPage& page) { return t < page.at; });
  for (size_t i = std::max<size_t>(1, static_cast<size_t>(after - pages.begin()));
       i < pages.size() && pages[i - 1].at < end; ++i) {
    const KeptPage& before = pages[i - 1];
    const KeptPage& now = pages[i];
    if (now.at - before.at > longest) continue;
    const double length = static_cast<double>(now.at - before.at);
    Overlap overlap;
    if (before.at < start) overlap.from = static_cast<double>(start - before.at) / length;
    if (now.at > end) overlap.to = static_cast<double>(end - before.at) / length;
    AddStretch(before, now, overlap, out, sums);
    covered = true;
    for (const KeptPage* page : {&before, &now}) {
      known = known && !page->work.empty();
      for (const EngineWork& work : page->work) {
        open = open || work.running > 0 || work.waiting > 0;
        known = known && Known(work.running) && Known(work.waiting);
      }
    }
  }
  using Open = WindowSplit::Open;
  out.open = open ? Open::kSome : covered && known ? Open::kNone : Open::kUnknown;
  for (size_t i = 0; i < out.models.size(); ++i) {
    const auto& [cancelled, finished] = sums.cancelled[i];
    if (cancelled > 0) out.models[i].cancelled = std::min(1.0, cancelled / std::max(cancelled, finished));
  }
  const double keep = std::exp2(-static_cast<double>(end - start) / kHalfLifeNs);
  const auto learn = [&](double EngineFold::* sum) { fold.*sum = fold.*sum * keep + sums.times.*sum; };
  if (covered) {
    learn(&EngineFold::prefill_seconds), learn(&EngineFold::prefill_tokens);
    learn(&EngineFold::decode_seconds), learn(&EngineFold::decode_tokens);
  }
  if (fold.prefill_seconds > 0 && fold.prefill_tokens > 0 && fold.decode_seconds > 0 &&
      fold.decode_tokens > 0) {
    out.prefill_seconds_per_token = fold.prefill_seconds / fold.prefill_tokens;
    out.decode_seconds_per_token = fold.decode_seconds / fold.decode_tokens;
  }
  return out;
}

void SplitEngines(const EnginePlaces& places, const std::vector<EngineWindow>& windows, OwnerTable& owners,
                  std::vector<Share>& shares) {
  std::vector<ClassWeight> classes;
  std::vector<double> seconds;
  std::vector<int64_t> weights, parts;
  const size_t count = shares.size();
  for (size_t i = 0; i < count; ++i) {
    const Share share = shares[i];
    // A copy: owners are added below.
    Owner owner = owners.At(share.key.owner);
    if (owner.engine.empty()) continue;
    const std::string own_model = owner.model;
    const auto place = places.find(owner.engine);
    if (place == places.end()) continue;
    const EngineWindow& window = windows[place->second];
    const bool useful = share.key.compute_state == ComputeState::kUseful;
    ClassWeights(window, useful, classes);
    if (classes.empty()) {
      if (window.open == WindowSplit::Open::kNone) shares[i].key.request_class = RequestClass::kHeld;
      continue;
    }
    seconds.clear();
    for (const ClassWeight& part : classes) seconds.push_back(part.seconds);
    weights.resize(classes.size()), parts.resize(classes.size());
    IntegerWeights(seconds, weights);
    const size_t first = shares.size();
    for (const ClassWeight& part : classes) {
      Share& to = shares.emplace_back();
      to.key = share.key;
      to.key.request_class = part.request_class;
      if (part.waste != Cause::kNone)
        to.key.compute_state = ComputeState::kActiveWasted, to.key.cause = part.waste;
      const std::string& model = window.models[static_cast<size_t>(part.model)].model;
      owner.model = model.empty() ? own_model : model;
      to.key.owner = owners.IdOf(owner);
      to.engine = static_cast<int>(place->second), to.model = part.model;
    }
    for (int64_t Share::* amount :
         {&Share::energy_uj, &Share::time_ns, &Share::had_ns, &Share::used_ns, &Share::unmetered_ns}) {
      if (share.*amount == 0) continue;
      Apportion(share.*amount, weights, parts);
      for (size_t k = 0; k < parts.size(); ++k) shares[first + k].*amount = parts[k];
    }
    shares[i] = Share();
    shares[i].key = share.key;
  }
}

void CountTokens(const std::vector<EngineWindow>& windows, std::vector<Share>& shares) {
  std::vector<size_t> to;
  std::vector<int64_t> weights, parts;
  const auto count = [&](size_t engine, size_t model, RequestClass request_class, int64_t tokens) {
    if (tokens <= 0) return;
    to.clear(), weights.clear();
    bool energy = false;
    for (size_t i = 0; i < shares.size(); ++i) {
      const Share& share = shares[i];
      if (share.engine != static_cast<int>(engine) || share.model != static_cast<int>(model) ||
          share.key.request_class != request_class || share.key.cause == Cause::kPreemptRecompute ||
          share.key.cause == Cause::kSpecRejected)
        continue;
      to.push_back(i);
      energy = energy || share.energy_uj > 0;
    }
    if (to.empty()) return;
    for (size_t i : to) weights.push_back(energy ? shares[i].energy_uj : shares[i].time_ns);
    parts.resize(to.size());
    Apportion(tokens, weights, parts);
    for (size_t k = 0; k < to.size(); ++k) shares[to[k]].tokens += parts[k];
  };
  for (size_t engine = 0; engine < windows.size(); ++engine) {
    for (size_t model = 0; model < windows[engine].models.size(); ++model) {
      count(engine, model, RequestClass::kPrefill, windows[engine].models[model].prefill_tokens);
      count(engine, model, RequestClass::kDecode, windows[engine].models[model].decode_tokens);
    }
  }
}

}  // namespace gpulens::ledger
