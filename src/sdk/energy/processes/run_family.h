// Which of the processes that a driver tells are a run's: its first process, those that descend from it, and
// those that carry its id, as ranks that another process has started. Reads /proc below a root.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace gpulens::sdk {

// Used by one thread. Who was found once to belong or not stays so while it lasts, also when its parent ends
// and it gets another one. At most kMostKept are kept.
class RunFamily {
 public:
  static constexpr size_t kMostKept = 8192;

  explicit RunFamily(std::string root = "/");

  // Whether /proc numbers processes as drivers do: not in a container that has numbers of its own.
  bool sees_host() const noexcept { return sees_host_; }
  // `run_id`: what GPULENS_RUN_ID is in the environment of its processes; empty: only descent counts. False
  // for a process that has ended.
  bool Has(uint32_t pid, uint32_t first, std::string_view run_id);

 private:
  struct Kept {
    uint64_t start_ticks;
    bool ours;
  };
  bool Read(uint32_t pid, const char* file, size_t limit);
  bool Descends(uint32_t pid, uint32_t first);
  bool Carries(uint32_t pid, std::string_view run_id);

  const std::string root_;
  bool sees_host_ = false;
  std::string run_id_, path_, text_;
  std::map<std::pair<uint32_t, uint32_t>, Kept> kept_;  // by first and pid
};

// That of this process; empty: it is in no run.
std::string OwnRunId();

}  // namespace gpulens::sdk
