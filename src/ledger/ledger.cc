#include "ledger/ledger.h"

namespace gpulens::ledger {

struct Ledger::Impl {
  Options options;
  RatesAt rates;
  LedgerState state;
  uint64_t refused = 0;
};

Ledger::Ledger(Options options, RatesAt rates)
    : impl_(new Impl{std::move(options), std::move(rates), LedgerState(), 0}) {}
Ledger::~Ledger() = default;
void Ledger::Restore(const LedgerState& state, Instant, std::string_view boot_id) {
  impl_->state = state;
  impl_->state.boot_id = boot_id;
}
void Ledger::Observe(GpuReading) {}
void Ledger::Observe(EngineReading) {}
void Ledger::Observe(const ProgramSignal&) {}
Ledger::Closed Ledger::Close(Instant) { return {}; }
Ledger::Closed Ledger::Finish(Instant) { return {}; }
LedgerState Ledger::state() const { return impl_->state; }
uint64_t Ledger::refused() const noexcept { return impl_->refused; }

}  // namespace gpulens::ledger
