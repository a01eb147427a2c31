// The messages of the kernel as they come: from /dev/kmsg, from a file that a syslog daemon writes, or from
// journalctl. Whatever is read first, only what is new is told, unless asked for all since boot.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"

namespace gpulens::kernel_log {

// `at` is when the message was written, as well as the source knows; never later than now. `text` is valid
// during the call.
using Visit = std::function<void(Instant at, std::string_view text)>;

// Not thread-safe. Reading never waits, and does not allocate while nothing is new.
class LogReader {
 public:
  // At most this many messages in one call; the rest waits where it is.
  static constexpr size_t kMaxMessages = 4096;

  virtual ~LogReader() = default;
  // Calls `visit` for each message since the last call. A failure says why nothing can be read; the next call
  // tries again.
  virtual Status Read(Instant now, const Visit& visit) = 0;
  // Messages that were gone before they could be read.
  virtual uint64_t lost() const noexcept { return 0; }
};

enum class From : uint8_t { kNow, kBoot };

// kPermissionDenied where only root reads it; kUnavailable where there is none, as in many containers.
Result<std::unique_ptr<LogReader>> OpenKmsg(const std::string& path, From from);
// Follows a file that grows, is rotated (moved away and made anew) or truncated. Bytes of a half written line
// wait for its end. kUnavailable while there is no such file.
Result<std::unique_ptr<LogReader>> FollowFile(const std::string& path, From from);
// Runs `program` (journalctl) and reads what it prints; when it ends it is started again after a while.
Result<std::unique_ptr<LogReader>> RunJournalctl(const std::string& program, From from, Instant now);

// The moment of a message by its stamp. A stamp since boot is trusted when it lies within the last seconds,
// or when the message is old (`backlog`): the kernel's clock for it drifts from others by seconds a day.
Instant MomentOf(int64_t since_boot_ns, bool backlog, Instant now) noexcept;
Instant MomentOfUnix(int64_t unix_ns, Instant now) noexcept;

}  // namespace gpulens::kernel_log
