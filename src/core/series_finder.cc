#include "core/series_finder.h"

namespace gpulens {

const std::vector<uint32_t>& SeriesFinder::SlotsOf(const Layout& layout) {
  auto [at, added] = by_layout_.try_emplace(layout.id());
  if (added) {
    for (uint32_t slot = 0; slot < layout.slots(); ++slot) {
      if (layout[slot].desc == desc_) at->second.slots.push_back(slot);
    }
  }
  at->second.used = visit_;
  return at->second.slots;
}

// Drops layouts that were not part of the last walk.
void SeriesFinder::Forget() {
  std::erase_if(by_layout_, [this](const auto& item) { return item.second.used != visit_; });
  ++visit_;
}

}  // namespace gpulens
