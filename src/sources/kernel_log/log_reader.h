// Readers of the kernel's new messages from /dev/kmsg, from a file that a syslog daemon writes, or from
// journalctl.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/sandbox/launcher.h"

namespace gpulens::kernel_log {

// Splits pieces of a stream into lines of bounded length. Not thread-safe. Keeps its memory.
class LineSplitter {
 public:
  static constexpr size_t kMaxKept = 64 << 10;

  // Calls `visit(line)` for each line that ends in `bytes`. A line longer than kMaxKept is dropped whole and
  // counted.
  template <class MessageVisitor>
  void Feed(std::string_view bytes, MessageVisitor&& visit) {
    while (!bytes.empty()) {
      size_t end = bytes.find('\n');
      std::string_view piece = bytes.substr(0, end);
      if (!skipping_ && kept_.size() + piece.size() > kMaxKept) skipping_ = true;
      if (end == std::string_view::npos) {
        if (skipping_) kept_.clear();
        else kept_ += piece;
        return;
      }
      if (skipping_) {
        ++too_long_;
      } else if (kept_.empty()) {
        visit(piece);
      } else {
        kept_ += piece;
        visit(std::string_view(kept_));
      }
      skipping_ = false;
      kept_.clear();
      bytes.remove_prefix(end + 1);
    }
  }
  void Reset() noexcept {
    kept_.clear();
    skipping_ = false;
  }
  uint64_t too_long() const noexcept { return too_long_; }

 private:
  std::string kept_;
  bool skipping_ = false;
  uint64_t too_long_ = 0;
};

// Receives a message. `at` is when it was written, as far as the source knows; never later than now. `text`
// is valid during the call.
using MessageVisitor = std::function<void(Instant at, std::string_view text)>;

// Not thread-safe. Reading never waits, and does not allocate while nothing is new.
class LogReader {
 public:
  // Limit of messages in one call; the rest is read by the next one.
  static constexpr size_t kMaxMessages = 4096;

  virtual ~LogReader() = default;
  // Calls `visit` for each message since the last call. After a failure the next call tries again.
  virtual Status Read(Instant now, const MessageVisitor& visit) = 0;
  // Messages that were overwritten before they could be read.
  virtual uint64_t lost() const noexcept = 0;
};

enum class LogStart : uint8_t { kNow, kBoot };

// Reads /dev/kmsg. kPermissionDenied where only root may; kUnavailable where there is none, as in many
// containers.
Result<std::unique_ptr<LogReader>> OpenKmsg(const std::string& path, LogStart from);
// Follows a file that grows, is rotated (moved away and created again) or truncated. Bytes of a half written
// line wait for its end. kUnavailable while there is no such file.
Result<std::unique_ptr<LogReader>> FollowFile(const std::string& path, LogStart from);
// What lets the launcher run journalctl, by its path, as RunJournalctl does.
ProgramRule RuleOfJournalctl(std::string program);
// Runs `program` (journalctl) and reads its output; when it ends it is restarted with back-off.
Result<std::unique_ptr<LogReader>> RunJournalctl(const std::string& program, LogStart from, Instant now);

// Converts the stamp of a message. A stamp since boot is trusted within the last seconds and for old messages
// (`backlog`): the kernel's clock for it drifts from others by seconds a day.
Instant MomentOf(int64_t since_boot_ns, bool backlog, Instant now) noexcept;
Instant MomentOfUnix(int64_t unix_ns, Instant now) noexcept;

}  // namespace gpulens::kernel_log
