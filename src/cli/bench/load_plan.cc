#include "cli/bench/load_plan.h"

#include <array>
#include <cmath>

#include "base/text.h"

namespace gpulens {
namespace {

// Words that most tokenizers keep whole.
constexpr std::array<std::string_view, 32> kWords{
    "time", "year",  "people", "way",  "day",   "man",  "thing",  "woman", "life",  "child",  "world",
    "hand", "part",  "place",  "case", "week",  "work", "system", "point", "group", "number", "night",
    "home", "water", "room",   "area", "money", "book", "word",   "issue", "side",  "house"};

// SplitMix64 (Steele, Lea and Flood, 2014): every seed is a good one.
uint64_t Next(uint64_t& state) noexcept {
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

void AppendWords(std::string& out, uint32_t count, uint64_t seed) {
  for (uint32_t i = 0; i < count; ++i) {
    if (!out.empty()) out += ' ';
    out += kWords[Next(seed) % kWords.size()];
  }
}

std::string Prompt(const LoadPlan& plan, uint64_t number) {
  const uint32_t shared = std::min(plan.shared_words, plan.prompt_words);
  std::string out;
  AppendWords(out, shared, plan.seed);
  // The number makes the rest unlike every other prompt from its first token on.
  if (shared < plan.prompt_words) {
    if (!out.empty()) out += ' ';
    out += std::to_string(number);
    uint64_t seed = plan.seed ^ (number + 1) * 0x9e3779b97f4a7c15;
    AppendWords(out, plan.prompt_words - shared - 1, Next(seed));
  }
  return out;
}

}  // namespace

std::string RequestBody(const LoadPlan& plan, uint64_t number) {
  std::string out = "{\"model\":";
  AppendJsonString(out, plan.model);
  out += plan.chat ? ",\"messages\":[{\"role\":\"user\",\"content\":" : ",\"prompt\":";
  AppendJsonString(out, Prompt(plan, number));
  out += plan.chat ? "}]" : "";
  out += ",\"max_tokens\":" + std::to_string(plan.max_tokens);
  if (plan.ignore_eos) out += ",\"ignore_eos\":true";
  if (plan.stream) out += ",\"stream\":true,\"stream_options\":{\"include_usage\":true}";
  return out += '}';
}

Duration ArrivalTimes::Next() noexcept {
  // In (0, 1], so that the logarithm is finite.
  const double uniform = (static_cast<double>(gpulens::Next(state_) >> 11) + 1) * 0x1p-53;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(-std::log(uniform) / rate_));
}

}  // namespace gpulens
