// A log file that grows, and that somebody rotates.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/fd.h"
#include "base/files.h"
#include "base/result.h"
#include "sources/kernel_log/line_splitter.h"
#include "sources/kernel_log/log_reader.h"
#include "sources/kernel_log/parse/log_line.h"

namespace gpulens::kernel_log {
namespace {

// In one call; a flood waits in the file.
constexpr size_t kMaxBytes = 1 << 20;

class FollowedFile final : public LogReader {
 public:
  FollowedFile(std::string path, From from) : path_(std::move(path)), from_(from) {}

  Status Open() {
    // Not blocking: the name may belong to a pipe.
    fd_.reset(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!fd_) return ErrnoStatus("open " + path_, errno);
    struct stat is{};
    if (::fstat(fd_.get(), &is) != 0) return ErrnoStatus("stat " + path_, errno);
    if (!S_ISREG(is.st_mode)) {
      fd_.reset();
      return {Code::kInvalidArgument, path_ + " is not a regular file"};
    }
    lines_.Reset();
    position_ = from_ == From::kNow ? is.st_size : 0;
    from_ = From::kBoot;  // what comes after this file is read whole
    return Ok();
  }

  Status Read(Instant now, const Visit& visit) override {
    if (!fd_) RETURN_IF_ERROR(Open());
    size_t left = kMaxBytes;
    RETURN_IF_ERROR(ReadOn(now, visit, left));
    struct stat named{}, ours{};
    if (::fstat(fd_.get(), &ours) != 0) return ErrnoStatus("stat " + path_, errno);
    if (::stat(path_.c_str(), &named) != 0) return Ok();  // moved, and not yet made anew
    bool same = named.st_ino == ours.st_ino && named.st_dev == ours.st_dev;
    if (same && ours.st_size < position_) {
      position_ = 0;  // truncated: what is there now is new
      lines_.Reset();
      return ReadOn(now, visit, left);
    }
    if (same || left == 0) return Ok();
    RETURN_IF_ERROR(Open());
    return ReadOn(now, visit, left);
  }
  uint64_t lost() const noexcept override { return lines_.too_long(); }

 private:
  Status ReadOn(Instant now, const Visit& visit, size_t& left) {
    while (left > 0) {
      ssize_t size = ::pread(fd_.get(), buffer_.data(), std::min(buffer_.size(), left), position_);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0) return ErrnoStatus("read " + path_, errno);
      if (size == 0) return Ok();
      position_ += size;
      left -= static_cast<size_t>(size);
      lines_.Feed(std::string_view(buffer_.data(), static_cast<size_t>(size)), [&](std::string_view text) {
        LogLine line;
        if (!ParseLogLine(text, scratch_, line)) return;
        bool dated = line.stamp == LogLine::Stamp::kUnix;
        visit(dated ? MomentOfUnix(line.stamp_ns, now) : now, line.text);
      });
    }
    return Ok();
  }

  const std::string path_;
  From from_;
  UniqueFd fd_;
  off_t position_ = 0;
  LineSplitter lines_;
  std::array<char, 16 << 10> buffer_{};
  std::string scratch_;
};

}  // namespace

Result<std::unique_ptr<LogReader>> FollowFile(const std::string& path, From from) {
  auto file = std::make_unique<FollowedFile>(path, from);
  RETURN_IF_ERROR(file->Open());
  return std::unique_ptr<LogReader>(std::move(file));
}

}  // namespace gpulens::kernel_log
