// The links of a GPU one by one: error counters of all of them each minute, and everything else with
// kDetailLinks. Their requests are part of the round's batch of field values.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "reader/process/library_caller.h"
#include "sources/nvml/reader/gpu_items.h"

namespace gpulens::nvml {

// Used by one thread. Allocates in Attach alone. Which id a board knows for a counter is learnt: the
// newer ids count every link, the older ones exist for the first twelve.
class LinkReader {
 public:
  using Due = std::array<bool, kTierCount>;

  // Forgets all. The links were counted with the identity.
  void Attach(const GpuIdentity& identity, uint32_t details);
  // The most requests that a round can make.
  size_t most_requests() const noexcept;
  // Appends what is due; Take then gets the answers in the same order and emits them. The result is a code
  // that ends the round, or kSuccess.
  void AddRequests(const Due& due, int64_t boot_ns, std::vector<FieldValue>& requests);
  int Take(std::span<const FieldValue> answers, int64_t boot_ns, ReadingSink& sink);
  // What is on the other end of each link: three calls per link. As Take.
  int ReadRemotes(const ItemContext& in);

 private:
  struct Row;
  struct Memory {
    uint8_t variant = 0;  // Of the ids that may count this.
    reader::QueryBackoff again;
  };
  struct Group {
    uint8_t row = 0;
    uint8_t links = 0;  // Requests of this row.
  };
  static constexpr size_t kRows = 50;
  static const std::array<Row, kRows> kTable;

  unsigned LinksOf(const Row& row) const noexcept;
  int TakeGroup(const Group& group, std::span<const FieldValue> answers, int64_t boot_ns, ReadingSink& sink);

  unsigned nvlinks_ = 0, c2c_links_ = 0;
  uint32_t details_ = 0;
  std::array<Memory, kRows> memory_{};
  std::vector<Group> groups_;
  reader::QueryBackoff remotes_;
};

// The samples that the driver takes by itself, many a second: the least, mean and greatest since the
// round before. They show what a reading each second does not: a power peak, an idle gap.

// Used by one thread. Allocates when a kind is read for the first time.
class SampleReader {
 public:
  void Attach();
  // Emits three fields per kind. Fewer than two new samples: kNotFound. What the GPU does not have is learnt,
  // and repeated when `again`. The result is a code that ends the round, or kSuccess.
  int Read(const ItemContext& in, bool again);

  static constexpr size_t kKinds = 5;

 private:
  struct Memory {
    unsigned long long last_us = 0;  // Of the newest sample that was seen; 0: none yet.
    unsigned room = 0;               // Samples that the driver keeps.
    reader::QueryBackoff again;
  };

  int ReadKind(const ItemContext& in, size_t kind);

  std::array<Memory, kKinds> memory_{};
  std::vector<Sample> buffer_;
};

}  // namespace gpulens::nvml
