// The enrichers at work: they look again and again, and together they describe entities.
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
  };
  struct View {
    std::string_view name;
    bool up = false;
    Status last;
    std::array<uint64_t, kCodes> errors{};  // looks that failed, by Code
    uint64_t missing = 0;
    bool answered = false;  // has looked, or said why it cannot
  };
  struct One;
  using List = std::vector<std::shared_ptr<One>>;

  explicit EnricherSet(Env& env);
  ~EnricherSet();
  EnricherSet(const EnricherSet&) = delete;
  EnricherSet& operator=(const EnricherSet&) = delete;

  // What `setups` want, of which equal ones that are at work stay as they are. Changes nothing. Not ok: one
  // cannot be made for another reason than that it has nothing to ask here.
  Result<List> Make(const std::vector<Setup>& setups);
  // From now on these, and no others, look and describe.
  void Adopt(List list);
  // Until each has looked once or said why it cannot; at most so long.
  void AwaitFirst(Duration longest);
  // No look after those under way.
  void Stop();

  // Another number when an answer of Describe or Resource may have changed.
  uint64_t generation() const;
  // The answers laid over each other; those of the first enricher on top.
  AttributeSet Describe(const Entity& entity) const;
  AttributeSet Resource() const;
  // Fills `out`, whose memory is used again.
  void Read(std::vector<View>& out) const;

 private:
  void StartOne(const std::shared_ptr<One>& one);
  void Looked(One& one, const Status& status);
  void TryAgain(const std::shared_ptr<One>& one);

  Env& env_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable answered_;
  List list_, leaving_;  // leaving: their last look is not over
  uint64_t changes_ = 0;
  bool stopped_ = false;
};

}  // namespace gpulens
