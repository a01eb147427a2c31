// What hl-smi prints, as plain structs. Pure functions over bytes from outside: bounded, nothing is believed
// that is not whole, and what is not there is absent.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::hl_smi {

inline constexpr size_t kMostOutput = 1u << 20;
inline constexpr size_t kMostCards = 128, kMostColumns = 128, kMostPorts = 64;
inline constexpr size_t kMostText = 256;  // of an id or a name
// A number that a driver uses to say that it does not know. Not a number, so nothing can be reckoned with it.
inline constexpr double kSaysNothing = std::numeric_limits<double>::quiet_NaN();

// One Gaudi card, as `-Q … -f csv` tells it. Numbers in base units, or kSaysNothing.
struct Card {
  std::optional<int> index, module_id;
  std::string uuid, name, serial, bus_id, driver_version;
  std::optional<double> memory_total_bytes, memory_used_bytes, memory_free_bytes;
  std::optional<double> power_draw_watts, power_max_watts;
  std::optional<double> temperature_celsius;
  std::optional<double> utilization;                  // 0-1
  std::optional<double> ecc_volatile, ecc_aggregate;  // uncorrected errors
  std::optional<double> clock_soc_mhz, clock_soc_limit_mhz, clock_tpc_limit_mhz;
  std::optional<double> rows_replaced, rows_pending;

  // What stays the same when hl-smi numbers the cards anew after a reboot: UUID, else serial number, else PCI
  // address, else the index. Never empty in a table that was read.
  std::string key;
};

struct Cards {
  std::vector<Card> list;
  size_t bad_rows = 0;   // cut, or a card that stood there before
  size_t bad_cells = 0;  // neither a number in a known unit nor one of the words for "unknown"
};

// A table with its header: columns in any order, unknown ones passed over, units in the header, in the cells
// or nowhere. kDataLoss: no header, or no column that we know.
Result<Cards> ParseCards(std::string_view csv);

// Bytes of one network port since the driver was loaded.
struct Port {
  std::optional<int> card;  // where the text tells it
  int port = 0;
  std::optional<uint64_t> received, transmitted;
};

// `-n stats`, both as a section a port and as a line a port. Ports without either count are left out.
std::vector<Port> ParsePorts(std::string_view text);

}  // namespace gpulens::hl_smi
