// What an encoder derives once from each layout it meets, and keeps while snapshots carry that layout.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>

#include "core/layout.h"

namespace gpulens {

// Not thread-safe; one per user. Does not allocate while the layouts stay.
template <class Text>
class PerLayout {
 public:
  // The derived text; `make(const Layout&)` is asked the first time. Valid until Forget drops it.
  template <class Make>
  Text& Of(const Ref<const Layout>& layout, Make&& make) {
    auto at = known_.find(layout->id());
    if (at == known_.end()) at = known_.emplace(layout->id(), Known{layout, make(*layout), 0}).first;
    at->second.used = round_;
    return at->second.text;
  }
  // Drops what was not asked for since the last call.
  void Forget() {
    std::erase_if(known_, [this](const auto& item) { return item.second.used != round_; });
    ++round_;
  }
  size_t size() const noexcept { return known_.size(); }

 private:
  struct Known {
    Ref<const Layout> layout;  // so that its id stays taken
    Text text;
    uint64_t used = 0;
  };
  std::unordered_map<uint64_t, Known> known_;
  uint64_t round_ = 1;
};

}  // namespace gpulens
