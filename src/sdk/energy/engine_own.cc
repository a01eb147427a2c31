// Who uses the devices, for the accounts of runs.
#include <algorithm>
#include <exception>

#include "sdk/energy/engine.h"

namespace gpulens::sdk {

// A source is others' code: nothing that it throws gets past here.
Status Engine::QueryWhoUses(Track& track, EnergyProcesses& out) {
  if (track.number == Track::kGone)
    return {Code::kUnavailable, "it was missing when its source was reopened"};
  in_since_ns_.store(Now(), std::memory_order_relaxed);
  in_.store(track.source.get(), std::memory_order_release);
  Status status;
  try {
    status = track.source->Processes(track.number, out);
  } catch (const std::exception& error) {
    status = {Code::kIo, std::string("it threw: ") + error.what()};
  } catch (...) {
    status = {Code::kIo, "it threw something"};
  }
  in_.store(nullptr, std::memory_order_release);
  return status;
}

void Engine::LookWhoUses() {
  for (size_t i = 0; i < tracks_.size(); ++i) {
    {
      std::lock_guard lock(mutex_);
      const int64_t now_ns = Now();
      if (std::ranges::none_of(owns_, [&](const auto& own) { return own->Wants(i, now_ns); })) continue;
    }
    EnergyProcesses processes;
    const Status status = QueryWhoUses(tracks_[i], processes);
    std::lock_guard lock(mutex_);
    const int64_t at_ns = Now();
    for (const auto& own : owns_) own->Saw(i, at_ns, status, processes);
  }
  std::lock_guard lock(mutex_);
  for (const auto& own : owns_) own->Tick();
}

OwnAccount* Engine::AddOwn(const DeviceLedger& ledger, int64_t begin_ns) {
  std::lock_guard lock(mutex_);
  owns_.push_back(std::make_unique<OwnAccount>(tracks_, ledger.selection(), ledger.timeout_ns(), begin_ns));
  return owns_.back().get();
}

void Engine::RemoveOwn(OwnAccount* account) {
  std::lock_guard lock(mutex_);
  std::erase_if(owns_, [&](const auto& own) { return own.get() == account; });
}

void Engine::EndOwn(OwnAccount& account, int64_t at_ns) {
  std::lock_guard lock(mutex_);
  account.End(at_ns);
}

bool Engine::OwnIsClosed(const OwnAccount& account) const {
  std::lock_guard lock(mutex_);
  return account.Closed();
}

bool Engine::OwnIsSettled(const OwnAccount& account) const {
  std::lock_guard lock(mutex_);
  return account.Settled();
}

OwnEnergy Engine::OwnResult(OwnAccount& account) {
  const int64_t now_ns = Now();
  std::lock_guard lock(mutex_);
  return account.Result(now_ns);
}

}  // namespace gpulens::sdk
