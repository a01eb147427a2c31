// The links of a GPU one by one: error counters of all of them each minute, and everything else when
// kDetailLinks is asked for. Their requests travel in the batch of field values of the round.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "reader/process/query_backoff.h"
#include "sources/nvml/reader/items.h"

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
    driver::QueryBackoff again;
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
  driver::QueryBackoff remotes_;
};

}  // namespace gpulens::nvml
