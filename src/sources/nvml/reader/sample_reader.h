// The samples that the driver takes by itself, many a second: the least, mean and greatest since the
// round before. They show what a reading each second does not: a power peak, an idle gap.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "reader/process/query_backoff.h"
#include "sources/nvml/reader/items.h"

namespace gpulens::nvml {

// Used by one thread. Allocates when a kind is read for the first time.
class SampleReader {
 public:
  void Attach();
  // Emits three fields per kind. Fewer than two new samples: kNotFound. What the GPU does not have is learnt,
  // and said again when `again`. The result is a code that ends the round, or kSuccess.
  int Read(const ItemContext& in, bool again);

  static constexpr size_t kKinds = 5;

 private:
  struct Memory {
    unsigned long long last_us = 0;  // Of the newest sample that was seen; 0: none yet.
    unsigned room = 0;               // Samples that the driver keeps.
    driver::QueryBackoff again;
  };

  int ReadKind(const ItemContext& in, size_t kind);

  std::array<Memory, kKinds> memory_{};
  std::vector<Sample> buffer_;
};

}  // namespace gpulens::nvml
