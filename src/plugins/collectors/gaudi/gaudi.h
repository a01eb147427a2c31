// Series of one Gaudi card, from the output of hl-smi.
#pragma once

#include <array>
#include <map>

#include "core/frame_writer.h"
#include "sources/hl_smi/hl_smi.h"

namespace gpulens {

// Used inside the collector's run: not thread-safe. Declares a series with its first value.
class GaudiSeries {
 public:
  void Update(const hl_smi::CardReading& reading, Instant at, FrameWriter& out);
  // Ends all series of this card.
  void Retire(SeriesTable& table);
  uint64_t seen = 0;  // for the owner: the update in which the card was last there

 private:
  static constexpr size_t kFields = 16;
  struct PortSeries {
    Series received, transmitted, received_rate, transmitted_rate;
  };

  bool SameCard(const hl_smi::GaudiCard& card) const noexcept;
  void Declare(const hl_smi::GaudiCard& card, SeriesTable& table);
  void UpdateNumbers(const hl_smi::GaudiCard& card, FrameWriter& out);
  void UpdateShares(const hl_smi::GaudiCard& card, FrameWriter& out);
  void UpdatePorts(const hl_smi::CardReading& reading, FrameWriter& out);

  EntityRef entity_;
  hl_smi::GaudiCard known_;  // as it was declared
  Series info_, power_share_, memory_percent_;
  std::array<Series, kFields> fields_;
  std::map<int, PortSeries> ports_;
  Instant ports_reported_;
};

}  // namespace gpulens
