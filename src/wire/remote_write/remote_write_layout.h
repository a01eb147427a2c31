// The parts of remote write that do not change from tick to tick: for one layout, every time series with its
// labels, and where its number lies. Made once per layout, then only read.
//
// Names come from a SeriesNamer; bounds and suffixes are those of an OpenMetrics page, names are without
// UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/layout.h"
#include "core/named_series.h"
#include "wire/remote_write/remote_write_fields.h"

namespace gpulens {

// Names and values of labels.
using RemoteWriteLabels = std::vector<std::pair<std::string, std::string>>;

// Properties that the samples of one metric share.
struct RemoteWriteFamily {
  uint32_t name = 0, help = 0, unit = 0;  // symbols
  remote_write::Type type = remote_write::Type::kUnknown;
  double scale = 1;
};

// One time series of the receiver.
struct RemoteWriteLine {
  enum Flag : uint8_t {
    kInt = 1,         // its cell is an integer
    kScaled = 2,      // times the family's scale
    kWhole = 4,       // then rounded
    kNative = 8,      // a histogram with its buckets, from all cells of the slot
    kOnlyIfSet = 16,  // of a state set: left out while its cell is 0
  };
  uint32_t slot = 0, cell = 0;
  uint32_t family = 0;
  uint32_t name = 0;                 // a symbol, the value of `__name__`
  uint32_t first_ref = 0, refs = 0;  // in RemoteWriteLayout::refs
  uint32_t end = 0;                  // in RemoteWriteLayout::arena; it begins where the line before ends
  uint8_t flags = 0;
  int64_t start_ms = 0;  // when its counting began; 0: unknown
};

struct RemoteWriteLayout {
  struct Place {
    uint32_t offset = 0, size = 0;
  };
  std::string text;
  std::vector<Place> symbols;  // in `text`, each once
  std::vector<uint32_t> refs;  // symbols: name, value, name, value, …, by name
  std::vector<RemoteWriteLine> lines;
  std::vector<RemoteWriteFamily> families;
  // Slot of the flag whether the target of the frame's readings answered; none: the layout has no such flag.
  std::optional<uint32_t> up_slot;
  // Of 1.0: each line as a field of the request, its number and time at its end.
  std::string arena;

  // The numbers of these symbols among those of all layouts; kept by RemoteWrite.
  std::vector<uint32_t> global;
  uint64_t plan = 0;

  std::string_view Symbol(uint32_t symbol) const noexcept {
    return std::string_view(text).substr(symbols[symbol].offset, symbols[symbol].size);
  }
};

struct RemoteWriteNaming {
  bool arena = false;              // for 1.0
  bool native_histograms = false;  // histograms as one series with custom bounds
  RemoteWriteLabels labels;        // of every series that has none of that name
  // The row of the flag that becomes RemoteWriteLayout::up_slot; null: there is none.
  const MetricDesc* target_up = nullptr;
};

// A label's name as every receiver takes it: each byte that it cannot hold is an underscore, as on a page.
std::string RemoteWriteLabelName(std::string_view name);
// Valid UTF-8: receivers refuse a whole request for one string that is not.
std::string RemoteWriteText(std::string_view text);

RemoteWriteLayout NameRemoteWrite(const Layout& layout, const SeriesNamer& namer,
                                  const RemoteWriteNaming& naming);

}  // namespace gpulens
