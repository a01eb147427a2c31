// Gaudi cards through the program hl-smi: parsers of its output (pure functions over bytes from outside:
// bounded, cut rows are dropped, unknown values absent), and a source that runs it repeatedly on a thread of
// its own, since it may hang.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/process.h"
#include "base/sandbox/launcher.h"
#include "base/threads.h"

namespace gpulens::hl_smi {

inline constexpr size_t kMostOutput = 1u << 20;
inline constexpr size_t kMostCards = 128, kMostColumns = 128, kMostPorts = 64;
inline constexpr size_t kMostText = 256;  // of an id or a name
// Replaces a driver's sentinel: NaN, so that nothing can be computed with it.
inline constexpr double kSentinel = std::numeric_limits<double>::quiet_NaN();

// One Gaudi card, from `-Q … -f csv`. Numbers in base units, or kSentinel.
struct GaudiCard {
  std::optional<int> index, module_id;
  std::string uuid, name, serial, bus_id, driver_version;
  std::optional<double> memory_total_bytes, memory_used_bytes, memory_free_bytes;
  std::optional<double> power_draw_watts, power_max_watts;
  std::optional<double> temperature_celsius;
  std::optional<double> utilization;                  // 0-1
  std::optional<double> ecc_volatile, ecc_aggregate;  // uncorrected errors
  std::optional<double> clock_soc_mhz, clock_soc_limit_mhz;
  std::optional<double> rows_replaced, rows_pending;

  // Identifies the card over reboots: UUID, else serial number, else PCI address, else the index. Never empty
  // in a parsed table.
  std::string key;
};

struct GaudiCards {
  std::vector<GaudiCard> list;
  size_t bad_rows = 0;   // cut, or a repeated card
  size_t bad_cells = 0;  // neither a number in a known unit nor one of the words for "unknown"
};

// Parses a table with its header: columns in any order, unknown ones skipped, units in the header, in the
// cells or nowhere. kDataLoss: no header, or no known column.
Result<GaudiCards> ParseCards(std::string_view csv);

// Bytes of one network port since the driver was loaded.
struct GaudiPort {
  std::optional<int> card;  // where the text has it
  int port = 0;
  std::optional<uint64_t> received, transmitted;
};

// Parses `-n stats`, both as a section a port and as a line a port. Ports without either count are left out.
std::vector<GaudiPort> ParsePorts(std::string_view text);

// The ports of one card, read at one moment.
struct PortsReading {
  std::vector<GaudiPort> ports;
  Instant at;
};

struct CardReading {
  GaudiCard card;
  // The last two readings. The first run takes both, so that a rate is known at once. Without a time: none.
  PortsReading ports, ports_before;
};

// Result of one request.
struct GaudiReading {
  Status status;  // of the query for the cards; the rest may be missing nevertheless
  std::vector<CardReading> cards;
  Instant at;  // when the cards were read
  size_t bad_rows = 0, bad_cells = 0;
  Duration longest_call{};
  uint64_t calls = 0, calls_killed = 0;  // since the start
  size_t stuck = 0;                      // processes that were killed and are still there
};

// What lets the launcher run hl-smi, by its path, as HlSmiSource does.
ProgramRule RuleOfHlSmi(std::string program);

// Thread-safe. The destructor gives a run up at once, kills its process and joins the thread; it never waits
// for a process that is stuck in the kernel.
class HlSmiSource {
 public:
  struct Options {
    std::string program;  // a path
    Duration call_timeout = std::chrono::seconds(5);
    Duration port_span = std::chrono::seconds(1);  // between the two readings of the first request
    bool ports = true;
  };

  HlSmiSource(Options options, const Clock& clock);

  // Reads all cards; calls `done` once, from the source's thread, at the latest at `deadline` or when the
  // call that is running then has been killed. One request at a time. After the destructor began: not called.
  void Request(Instant deadline, std::function<void()> done) {
    background_.Request(deadline, std::move(done));
  }
  // Result of the last request. Not while one is running.
  const GaudiReading& last() const noexcept { return reading_; }

 private:
  struct Query {
    std::string fields;
    bool refused = false;  // this hl-smi does not know one of them
    int wait = 0;          // requests until it is tried again
  };

  void Read(Instant deadline);
  bool ReadCards(Instant deadline);
  void ReadRows(Instant deadline);
  void ReadPorts(Instant deadline);
  Result<std::string> Call(std::vector<std::string> arguments, Instant deadline);
  void ReapStuck();

  const Options options_;
  const Clock& clock_;
  GaudiReading reading_;
  Query full_, rows_;
  std::vector<ChildProcess> stuck_;

  Background background_;  // last: it ends before what its work uses
};

}  // namespace gpulens::hl_smi
