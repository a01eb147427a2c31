// Calls a plugin's Fetch periodically on the I/O loop, one at a time.
#pragma once

#include <functional>
#include <memory>

#include "plugins/plugin.h"

namespace gpulens {

// Start and Stop are thread-safe. The loop, the clock and the fetcher outlive the last fetch: `busy` is
// whether one is under way after Stop. Once the loop has ended, all may be destroyed in any order.
class RepeatedFetch {
 public:
  struct Pace {
    Duration period{};   // from the end of a fetch to the next
    Duration timeout{};  // of one fetch
  };

  // `fetched` is called on the I/O loop after each fetch; after Stop at most while `busy`.
  RepeatedFetch(Fetcher& fetcher, Pace pace, Env& env, std::function<void(const Status& status)> fetched);
  ~RepeatedFetch();
  RepeatedFetch(const RepeatedFetch&) = delete;
  RepeatedFetch& operator=(const RepeatedFetch&) = delete;

  void Start();
  void Stop();
  bool busy() const;

 private:
  struct State;
  static void Fetch(const std::shared_ptr<State>& state);
  static void Finished(const std::shared_ptr<State>& state, const Status& status);

  const std::shared_ptr<State> state_;
};

}  // namespace gpulens
