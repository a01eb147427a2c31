// A state from a damaged file: refused with a reason, or read so that its text is read again as the same, and
// a ledger that begins with it keeps its sums.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "ledger/ledger.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  const Result<ledger::LedgerState> state =
      ledger::ParseState(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!state) {
    CHECK(state.error().code == Code::kDataLoss && !state.error().detail.empty());
    return 0;
  }
  const Result<ledger::LedgerState> again = ledger::ParseState(ledger::StateText(*state));
  CHECK(again.ok() && *again == *state);

  constexpr int64_t kSecond = 1'000'000'000;
  ledger::Ledger one(ledger::Ledger::Options(), [](std::string_view, int64_t) {
    ledger::Rates rates;
    rates.pico_per_gpu_hour = 2'500'000'000'000;
    return rates;
  });
  const Instant begin{5000 * kSecond, 1'700'000'000 * kSecond};
  one.Restore(*state, begin, state->boot_id);
  for (int i = 1; i <= 30; ++i) {
    const Instant now = begin + std::chrono::seconds(i);
    for (size_t k = 0; k < state->gpus.size() && k < 4; ++k) {
      ledger::GpuReading reading;
      reading.gpu = state->gpus[k].gpu, reading.at_ns = now.boot_ns;
      reading.energy_uj = int64_t{i} * 100'000'000;
      one.Observe(reading);
    }
    const ledger::Ledger::Closed closed = one.Close(now);
    CHECK(closed.residual_uj == 0 && closed.residual_ms == 0 && closed.residual_pico == 0);
  }
  return 0;
}
