// Plain values of the request log: records, drop reasons, options, record ages and envelopes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace gpulens {

struct LogRecord {
  uint64_t id = 0;  // grows by one with each record that is accepted; never used twice in a folder
  std::string bytes;
  uint32_t items = 0;            // points or records inside, for counting
  int64_t appended_unix_ns = 0;  // wall time of the Append, for people
  bool once = false;             // is tried once: its sender waits for the outcome; see RequestLog::Append
};

enum class RecordDropReason : uint8_t {
  kFull,      // the oldest is dropped at the bound on bytes
  kOld,       // waited longer than max_age
  kDamaged,   // its bytes on disk are not those that were written, or its file is gone
  kTooLarge,  // larger than the whole log may be; was never accepted
  kNotKept,   // it was in memory only, and the first attempt failed
};
inline constexpr size_t kRecordDropReasons = 5;

// The value of the attribute `reason`. Static storage.
constexpr std::string_view RecordDropReasonName(RecordDropReason reason) noexcept {
  switch (reason) {
    case RecordDropReason::kFull: return "queue_full";
    case RecordDropReason::kOld: return "too_old";
    case RecordDropReason::kDamaged: return "damaged";
    case RecordDropReason::kTooLarge: return "too_large";
    case RecordDropReason::kNotKept: return "not_kept";
  }
  return "unknown";
}

// When written data is synced to disk. The end of the process, even by SIGKILL, loses nothing in any case.
enum class SyncPolicy : uint8_t {
  kNone,      // a power failure or a kernel crash may lose what the kernel had not written yet
  kInterval,  // … at most what was written in the last sync interval
  kAlways,    // … nothing: each write waits for the disk
};
// Values of the options `fsync`, by SyncPolicy.
inline constexpr std::string_view kSyncPolicies[] = {"none", "interval", "always"};
constexpr SyncPolicy SyncPolicyOf(std::string_view word) noexcept {
  if (word == "always") return SyncPolicy::kAlways;
  return word == "none" ? SyncPolicy::kNone : SyncPolicy::kInterval;
}

struct RequestLogOptions {
  std::string folder = {};  // empty: in memory
  // The reader whose position is the file `position`. Without that file it reads everything; any other new
  // reader begins at the end.
  std::string owner = {};
  uint64_t max_bytes = uint64_t{256} << 20;  // for readers whose bounds are not known: those not attached
  // Bound on records that the disk cannot take; without a folder, on all.
  uint64_t memory_bytes = uint64_t{8} << 20;
  uint64_t segment_bytes = 4 << 20;  // a file; at most an eighth of max_bytes
  SyncPolicy sync = SyncPolicy::kInterval;
  Duration sync_interval = std::chrono::seconds(5);
  Duration retry_interval = std::chrono::seconds(30);  // between attempts to open an unusable folder
  std::string boot_id = {};                            // of this start of the machine; empty: the kernel's
};

// Bounds on the data that waits for one reader.
struct ReaderBounds {
  uint64_t max_bytes = uint64_t{256} << 20;  // of the files from its position on, with their headers
  Duration max_age{};                        // 0: any
};

// When a record was appended.
struct RecordStamp {
  int64_t unix_ns = 0;
  int64_t boot_ns = 0;
  bool this_boot = true;  // boot_ns is of this start of the machine
};

// Ages of records, by the monotonic clock. For records of an earlier start of the machine the wall clock is
// read once, when the log is opened, so that later jumps change no age. Never negative.
class RecordAges {
 public:
  explicit RecordAges(Instant opened) noexcept : opened_(opened) {}

  Duration Of(const RecordStamp& stamp, Instant now) const noexcept {
    if (stamp.this_boot) return Positive(now.boot_ns, stamp.boot_ns);
    return Positive(opened_.unix_ns, stamp.unix_ns) + Positive(now.boot_ns, opened_.boot_ns);
  }

 private:
  // At most half of the range (146 years), so that a bad stamp does not overflow a sum.
  static Duration Positive(int64_t later, int64_t earlier) noexcept {
    int64_t difference = 0;
    if (later <= earlier) return Duration(0);
    if (__builtin_sub_overflow(later, earlier, &difference)) difference = INT64_MAX;
    return Duration(std::min(difference, INT64_MAX / 2));
  }

  Instant opened_;
};

// Header of the body of each record of a request log:
//
//   0xFF kind:8 flags:8 source:8 key:32 body
//
// Version 0.1.0 wrote one byte, the kind, below 0x80; such records are read.
struct Envelope {
  uint8_t kind = 0;    // encoding of the body, a number of the sink that reads it
  uint8_t source = 0;  // RecordSource; 0: the program itself
  bool alone = false;  // is sent after all earlier records are done
  uint32_t key = 0;    // requests of one key stay in order
};

// Replaces the content of `out`, whose memory is reused.
inline void WriteEnvelope(const Envelope& envelope, std::string_view body, std::string& out) {
  out.clear();
  out.push_back('\xff');
  out.push_back(static_cast<char>(envelope.kind));
  out.push_back(static_cast<char>(envelope.alone));
  out.push_back(static_cast<char>(envelope.source));
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(envelope.key >> shift));
  out.append(body);
}

// Removes the envelope from `record`. Nothing when it has none.
inline std::optional<Envelope> TakeEnvelope(std::string_view& record) noexcept {
  if (record.empty()) return std::nullopt;
  Envelope envelope;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(record[i]); };
  if (byte(0) < 0x80) {
    envelope.kind = byte(0);
    record.remove_prefix(1);
    return envelope;
  }
  if (byte(0) != 0xff || record.size() < 8) return std::nullopt;
  envelope.kind = byte(1);
  envelope.alone = (byte(2) & 1) != 0;
  envelope.source = byte(3);
  for (size_t i = 0; i < 4; ++i) envelope.key |= static_cast<uint32_t>(byte(4 + i)) << (8 * i);
  record.remove_prefix(8);
  return envelope;
}

}  // namespace gpulens
