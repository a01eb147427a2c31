#include "instruments/sources.h"

#include <pthread.h>

#include <utility>

#include "base/check.h"
#include "base/ref.h"
#include "instruments/cells.h"

namespace gpulens::instruments {
namespace {

// Never destroyed, as the registries' book. The cells' lock is taken inside of ours, and so at a fork:
// handlers that were added last go first.
struct Sources {
  Sources() {
    CellStore::Instance();
    CHECK(::pthread_atfork([] { Instance().mutex.lock(); }, [] { Instance().mutex.unlock(); },
                           [] { Instance().mutex.unlock(); }) == 0);
  }
  static Sources& Instance() {
    static Immortal<Sources> sources;
    return *sources;
  }
  std::mutex mutex;  // guards what follows
  std::vector<std::pair<uint64_t, Source*>> all;
};

}  // namespace

std::unique_lock<std::mutex> LockSources() { return std::unique_lock(Sources::Instance().mutex); }

void AddSource(uint64_t registry, Source& source) { Sources::Instance().all.emplace_back(registry, &source); }

void ReportSources(uint64_t registry, std::vector<Sample>& out) {
  const auto lock = LockSources();
  for (const auto& [id, source] : Sources::Instance().all) {
    if (id == registry) source->Report(out);
  }
}

}  // namespace gpulens::instruments
