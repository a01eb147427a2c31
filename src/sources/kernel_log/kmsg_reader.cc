// /dev/kmsg: each read is one record, and a reader that is too slow is told so.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.h"
#include "base/files.h"
#include "sources/kernel_log/log_reader.h"
#include "sources/kernel_log/parse/log_line.h"

namespace gpulens::kernel_log {
namespace {

// More than a record with its properties can have.
constexpr size_t kRecordSize = 16 << 10;
constexpr int64_t kTrustNs = 5'000'000'000;

class KmsgReader final : public LogReader {
 public:
  KmsgReader(UniqueFd fd, From from) : fd_(std::move(fd)), backlog_(from == From::kBoot) {
    record_.resize(kRecordSize);
  }

  Status Read(Instant now, const Visit& visit) override {
    for (size_t count = 0; count < kMaxMessages;) {
      ssize_t size = ::read(fd_.get(), record_.data(), record_.size());
      if (size == 0) break;
      if (size < 0) {
        if (errno == EINTR) continue;
        if (errno == EAGAIN) {
          backlog_ = false;
          break;
        }
        // Records were overwritten before we came, or one is longer than any should be. The next read goes on
        // behind them; how many there were, the gap between the numbers tells.
        if (errno == EPIPE || errno == EINVAL) {
          ++count;
          gap_ = true;
          continue;
        }
        return ErrnoStatus("read /dev/kmsg", errno);
      }
      ++count;
      Take(std::string_view(record_.data(), static_cast<size_t>(size)), now, visit);
    }
    return Ok();
  }
  uint64_t lost() const noexcept override { return lost_; }

 private:
  void Take(std::string_view record, Instant now, const Visit& visit) {
    LogLine line;
    bool kernel = ParseKmsgRecord(record, scratch_, line);
    if (kernel || line.sequence != 0) CountGap(line.sequence);
    if (kernel) visit(MomentOf(line.stamp_ns, backlog_, now), line.text);
  }
  void CountGap(uint64_t sequence) noexcept {
    if (numbered_ && sequence > last_ + 1) lost_ += sequence - last_ - 1;
    else if (gap_ && !numbered_) ++lost_;
    gap_ = false;
    numbered_ = true;
    last_ = sequence;
  }

  const UniqueFd fd_;
  bool backlog_, gap_ = false, numbered_ = false;
  uint64_t last_ = 0, lost_ = 0;
  std::string record_, scratch_;
};

}  // namespace

Instant MomentOf(int64_t since_boot_ns, bool backlog, Instant now) noexcept {
  int64_t age = now.boot_ns - since_boot_ns;
  if (age < 0 || (!backlog && age > kTrustNs)) return now;
  return now + Duration(-age);
}

Instant MomentOfUnix(int64_t unix_ns, Instant now) noexcept {
  int64_t age = now.unix_ns - unix_ns;
  return age < 0 ? now : now + Duration(-age);
}

Result<std::unique_ptr<LogReader>> OpenKmsg(const std::string& path, From from) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return ErrnoStatus("open " + path, errno);
  // What a record is to this reader only the device says; a test's stand-in is a socket that cannot seek.
  if (from == From::kNow && ::lseek(fd.get(), 0, SEEK_END) < 0 && errno != ESPIPE)
    return ErrnoStatus("seek " + path, errno);
  return std::unique_ptr<LogReader>(std::make_unique<KmsgReader>(std::move(fd), from));
}

}  // namespace gpulens::kernel_log
