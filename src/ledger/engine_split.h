// Divides what engines have of a window by model and by class of request, with the engines' own counters.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/window_split.h"

namespace gpulens::ledger {

// What one engine did in one window, by its counters.
struct EngineWindow {
  struct Model {
    std::string model;
    int64_t prefill_tokens = 0, decode_tokens = 0;  // computed and generated
    int64_t recomputed_tokens = 0, rejected_tokens = 0;
    double cancelled = 0;  // share of the requests that ended, 0 to 1
  };
  WindowSplit::Open open = WindowSplit::Open::kUnknown;
  std::vector<Model> models;
  double prefill_seconds_per_token = 1, decode_seconds_per_token = 1;
};

// From the pages around the window: counters are interpolated between pages; a counter that fell began again
// at 0. Seconds of decode are sums over requests that decode at once, so they are divided by the mean number
// of running ones, where that is known. Pages further apart than `longest` do not count. Takes the engine's
// times and tokens into `fold`.
EngineWindow EngineWindowOf(const EngineTimeline& engine, int64_t start, int64_t end, int64_t longest,
                            EngineFold& fold);

// Engines by name, with their place in the windows.
using EnginePlaces = std::map<std::string, size_t, std::less<>>;

// Replaces the shares of owners with an engine by shares of its models and classes.
void SplitEngines(const EnginePlaces& places, const std::vector<EngineWindow>& windows, OwnerTable& owners,
                  std::vector<Share>& shares);

// Adds the tokens of each engine, model and class on its shares, by energy. `shares` in final order.
void CountTokens(const std::vector<EngineWindow>& windows, std::vector<Share>& shares);

}  // namespace gpulens::ledger
