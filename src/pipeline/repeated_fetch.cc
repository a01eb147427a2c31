#include "pipeline/repeated_fetch.h"

#include <mutex>

#include "net/io_loop.h"

namespace gpulens {

// Held by callbacks too, which may come after the plugin has gone.
struct RepeatedFetch::State {
  Fetcher& fetcher;
  const Pace pace;
  Env& env;
  const std::function<void(const Status& status)> fetched;
  std::mutex mutex;  // guards what follows
  bool busy = false, stopped = false;
};

RepeatedFetch::RepeatedFetch(Fetcher& fetcher, Pace pace, Env& env,
                             std::function<void(const Status& status)> fetched)
    : state_(new State{fetcher, pace, env, std::move(fetched), {}, false, false}) {}

RepeatedFetch::~RepeatedFetch() { Stop(); }

void RepeatedFetch::Start() {
  state_->env.io->Post([state = state_] { Fetch(state); });
}

void RepeatedFetch::Stop() {
  std::lock_guard lock(state_->mutex);
  state_->stopped = true;
}

bool RepeatedFetch::busy() const {
  std::lock_guard lock(state_->mutex);
  return state_->busy;
}

void RepeatedFetch::Fetch(const std::shared_ptr<State>& state) {
  {
    std::lock_guard lock(state->mutex);
    if (state->stopped) return;
    state->busy = true;
  }
  IoLoop* io = state->env.io;
  state->fetcher.Fetch(state->env.clock->Now() + state->pace.timeout, [state, io](const Status& status) {
    io->Post([state, status] { Finished(state, status); });
  });
}

void RepeatedFetch::Finished(const std::shared_ptr<State>& state, const Status& status) {
  bool stopped = false;
  {
    std::lock_guard lock(state->mutex);
    stopped = state->stopped;
  }
  if (!stopped) state->fetched(status);
  {
    std::lock_guard lock(state->mutex);
    state->busy = false;
    if (state->stopped) return;
  }
  state->env.io->After(state->pace.period, [state] { Fetch(state); });
}

}  // namespace gpulens
