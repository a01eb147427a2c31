// What admission costs a request: reserving and settling in three budgets and the rates of its key.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "proxy/admission/admission.h"

namespace gpulens::proxy {
namespace {

const Instant kBenchNow = RealClock().Now();

struct World {
  explicit World(int64_t keys) {
    std::string text(kKeyColumns);
    for (int64_t i = 0; i < keys; ++i) {
      VirtualKey key;
      key.id = "key-" + std::to_string(i);
      key.tenant = "t" + std::to_string(i % 100);
      key.requests_per_minute = key.tokens_per_minute = 1'000'000'000'000;
      key.own_budgets.push_back({kMostLimitPico, {}});
      NewKey made = *MakeKey(key);
      text += "\n" + made.line;
      secrets.push_back(std::move(made.key));
    }
    BudgetSpec global, tenant;
    global.name = "global";
    tenant.name = "t7";
    global.limit_pico = tenant.limit_pico = kMostLimitPico;
    ok = admission.Reload(*KeyTable::Parse(text, "keys"), {global, tenant}).ok();
  }
  Admission admission;
  std::vector<std::string> secrets;
  bool ok = false;
};

World& WorldOf(int64_t keys) {
  static World one(1), many(10'000);
  return keys == 1 ? one : many;
}

void AdmitAndSettle(benchmark::State& state) {
  World& world = WorldOf(state.range(0));
  std::vector<ClientRef> clients;
  for (const std::string& secret : world.secrets)
    clients.push_back(world.admission.Authenticate(secret, kBenchNow).client);
  AdmissionRequest request;
  request.model = "gpt-5.6-sol";
  request.provider = "openai";
  request.tokens = 1;
  request.cost = {.expected_pico = 1000, .most_pico = 4000};
  size_t at = static_cast<size_t>(state.thread_index()) * 37, refused = 0;
  for (auto _ : state) {
    at = at + 7919 < clients.size() ? at + 7919 : (at + 7919) % clients.size();
    auto decision = world.admission.Admit(*clients[at], request, kBenchNow);
    refused += decision.refused.has_value();
    decision.grant.Settle(900, 1, kBenchNow);
  }
  if (refused) state.SkipWithError("refused");
}
BENCHMARK(AdmitAndSettle)->Arg(1)->Arg(10'000);
BENCHMARK(AdmitAndSettle)->Arg(10'000)->Threads(2);

void Authenticate(benchmark::State& state) {
  World& world = WorldOf(state.range(0));
  size_t at = 0;
  for (auto _ : state) {
    at = (at + 7919) % world.secrets.size();
    benchmark::DoNotOptimize(world.admission.Authenticate(world.secrets[at], kBenchNow));
  }
}
BENCHMARK(Authenticate)->Arg(1)->Arg(10'000);

void ReloadKeys(benchmark::State& state) {
  World& world = WorldOf(10'000);
  std::string text(kKeyColumns);
  for (int i = 0; i < 10'000; ++i)
    text += "\nk" + std::to_string(i) + "\t" + std::string(64, 'a') + "\tt\t-\t-\t1/day";
  for (auto _ : state) benchmark::DoNotOptimize(KeyTable::Parse(text, "keys"));
  benchmark::DoNotOptimize(world.ok);
}
BENCHMARK(ReloadKeys)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gpulens::proxy
