// Runs all enrichers periodically and merges their results.
#pragma once

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "plugins/plugin.h"

namespace gpulens {

// Thread-safe. The environment's loop outlives it, and has ended when it is destroyed.
class EnricherSet {
 public:
  struct Setup {
    const EnricherSpec* spec = nullptr;
    Config config;
    Duration period{};
    friend bool operator==(const Setup&, const Setup&) = default;
  };
  struct View {
    std::string_view name;
    bool up = false;
    Status last;
    std::array<uint64_t, kCodes> errors{};  // failed fetches, by Code
    uint64_t missing = 0;
    bool answered = false;  // has run once, or failed
  };
  struct One;
  using List = std::vector<std::shared_ptr<One>>;

  explicit EnricherSet(Env& env);
  ~EnricherSet();
  EnricherSet(const EnricherSet&) = delete;
  EnricherSet& operator=(const EnricherSet&) = delete;

  // Creates the enrichers of `setups`, reusing equal ones that are running. Changes nothing. An error when
  // one cannot be created for another reason than kUnavailable.
  Result<List> Make(const std::vector<Setup>& setups);
  // Replaces the running enrichers.
  void Adopt(List list);
  // Waits until each has run once or failed, at most `longest`.
  void AwaitFirst(Duration longest);
  // Starts no further Fetch.
  void Stop();

  // Changes when a result of Describe or Resource may have changed.
  uint64_t generation() const;
  // The merged results; earlier enrichers take precedence.
  AttributeSet Describe(const Entity& entity) const;
  AttributeSet Resource() const;
  // Fills `out`, reusing its memory.
  void Read(std::vector<View>& out) const;

 private:
  void StartOne(const std::shared_ptr<One>& one);
  void Fetched(One& one, const Status& status);
  void TryAgain(const std::shared_ptr<One>& one);

  Env& env_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable answered_;
  List list_, leaving_;  // leaving: their last fetch is not over
  uint64_t changes_ = 0;
  bool stopped_ = false;
};

}  // namespace gpulens
