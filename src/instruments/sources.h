// Series that are not of the cells: something counts them by itself, and tells them whenever a registry is
// read.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include <gpulens/registry.h>

namespace gpulens {

struct RegistryAccess {
  static uint64_t IdOf(const Registry& registry) noexcept { return registry.id_; }
};

namespace instruments {

class Source {
 public:
  virtual ~Source() = default;
  // Under the sources' lock: appends series, those of one name beside each other. After a fork, of which it
  // knows by CellStore::forks, what the parent counted is nothing.
  virtual void Report(std::vector<Sample>& out) = 0;
};

// The lock under which all sources tell, and which nobody holds while the process forks.
std::unique_lock<std::mutex> LockSources();
// Under that lock. The source lives to the end of the process.
void AddSource(uint64_t registry, Source& source);
// Takes the lock.
void ReportSources(uint64_t registry, std::vector<Sample>& out);

}  // namespace instruments
}  // namespace gpulens
