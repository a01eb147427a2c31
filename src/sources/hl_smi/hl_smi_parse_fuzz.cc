// Any bytes as what hl-smi printed: both of its forms.
#include <cmath>

#include "base/check.h"
#include "sources/hl_smi/hl_smi.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::hl_smi;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto cards = ParseCards(text)) {
    CHECK(cards->list.size() <= kMostCards);
    for (const GaudiCard& card : cards->list) {
      CHECK(!card.key.empty());
      for (auto value :
           {card.memory_used_bytes, card.power_draw_watts, card.utilization, card.rows_pending}) {
        CHECK(!value || std::isnan(*value) || (std::isfinite(*value) && *value >= 0));
      }
    }
  }
  auto ports = ParsePorts(text);
  CHECK(ports.size() <= kMostPorts * kMostCards);
  for (const GaudiPort& port : ports) CHECK(port.port >= 0 && (port.received || port.transmitted));
  return 0;
}
