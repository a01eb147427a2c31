// A record of the request log: one encoded request on its way to receivers, why one may be lost, and how the
// log keeps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace gpulens {

struct LogRecord {
  uint64_t id = 0;  // grows by one with each record that is accepted; never used twice in a folder
  std::string bytes;
  uint32_t items = 0;            // points or records inside, for counting
  int64_t appended_unix_ns = 0;  // wall time of the Append, for people
  bool once = false;             // somebody waits for the outcome of the first try; see RequestLog::Append
};

enum class RecordLoss : uint8_t {
  kFull,      // the oldest had to go: the bound on bytes is reached
  kOld,       // waited longer than max_age
  kDamaged,   // its bytes on disk are not those that were written, or its file is gone
  kTooLarge,  // larger than the whole log may be; was never accepted
  kNotKept,   // the disk could not take it, and this receiver did not take it at the first try
};
inline constexpr size_t kRecordLosses = 5;

// The value of the label `reason`. Static storage.
constexpr std::string_view RecordLossName(RecordLoss loss) noexcept {
  switch (loss) {
    case RecordLoss::kFull: return "queue_full";
    case RecordLoss::kOld: return "too_old";
    case RecordLoss::kDamaged: return "damaged";
    case RecordLoss::kTooLarge: return "too_large";
    case RecordLoss::kNotKept: return "not_kept";
  }
  return "unknown";
}

// What an Append that returned kOnDisk survives. The end of the process, kill -9 too: always.
enum class LogSync : uint8_t {
  kNone,      // a power cut or a crash of the kernel may take what the kernel had not written yet
  kInterval,  // … at most what was appended in the last sync_interval
  kAlways,    // nothing: each Append and each Done waits for the disk
};

struct RequestLogOptions {
  std::string folder = {};  // empty: in memory, gone with the process
  // The reader whose position is the file `position`. Where that file is missing, it reads all that is there;
  // every other new reader begins at the end.
  std::string owner = {};
  uint64_t max_bytes = uint64_t{256} << 20;  // for readers whose bounds are not known: those not attached
  uint64_t memory_bytes = uint64_t{8}
                          << 20;     // of records that the disk cannot take; without a folder: of all
  uint64_t segment_bytes = 4 << 20;  // a file; at most an eighth of max_bytes
  LogSync sync = LogSync::kInterval;
  Duration sync_interval = std::chrono::seconds(5);
  Duration retry_interval = std::chrono::seconds(30);  // between tries to open a folder that cannot be used
  std::string boot_id = {};  // which start of the machine this is; empty: as the kernel says
};

// What may wait for one reader.
struct ReaderBounds {
  uint64_t max_bytes = uint64_t{256} << 20;  // of the files from its position on, with their headers
  Duration max_age{};                        // 0: any
};

}  // namespace gpulens
