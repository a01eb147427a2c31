
#include "sources/kernel_log/log_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>

#include "base/fd.h"
#include "base/files.h"
#include "base/process.h"
#include "base/result.h"
#include "sources/kernel_log/parse/log_line.h"

namespace gpulens::kernel_log {
namespace {

// More than a record with its properties can have.
constexpr size_t kRecordSize = 16 << 10;
constexpr int64_t kTrustNs = 5'000'000'000;

class KmsgReader final : public LogReader {
 public:
  KmsgReader(UniqueFd fd, LogStart from) : fd_(std::move(fd)), backlog_(from == LogStart::kBoot) {
    record_.resize(kRecordSize);
  }

  Status Read(Instant now, const MessageVisitor& visit) override {
    for (size_t count = 0; count < kMaxMessages;) {
      ssize_t size = ::read(fd_.get(), record_.data(), record_.size());
      if (size == 0) break;
      if (size < 0) {
        if (errno == EINTR) continue;
        if (errno == EAGAIN) {
          backlog_ = false;
          break;
        }
        // Records were overwritten, or one is too long. The next read continues behind them; the gap between
        // the sequence numbers is their count.
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
  void Take(std::string_view record, Instant now, const MessageVisitor& visit) {
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

// In one call; a flood waits in the file.
constexpr size_t kMaxBytes = 1 << 20;

// Base of the readers of lines.
class LineReader : public LogReader {
 public:
  uint64_t lost() const noexcept override { return lines_.too_long(); }

 protected:
  // Visits the messages among the lines that end in the first `size` bytes of the buffer; returns the number
  // of lines.
  size_t Feed(size_t size, Instant now, const MessageVisitor& visit) {
    size_t count = 0;
    lines_.Feed(std::string_view(buffer_.data(), size), [&](std::string_view text) {
      LogLine line;
      ++count;
      if (!ParseLogLine(text, scratch_, line)) return;
      bool dated = line.stamp == LogLine::Stamp::kUnix;
      visit(dated ? MomentOfUnix(line.stamp_ns, now) : now, line.text);
    });
    return count;
  }

  LineSplitter lines_;
  std::array<char, 16 << 10> buffer_{};

 private:
  std::string scratch_;
};

class FollowedFile final : public LineReader {
 public:
  FollowedFile(std::string path, LogStart from) : path_(std::move(path)), from_(from) {}

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
    position_ = from_ == LogStart::kNow ? is.st_size : 0;
    from_ = LogStart::kBoot;  // what comes after this file is read whole
    return Ok();
  }

  Status Read(Instant now, const MessageVisitor& visit) override {
    if (!fd_) RETURN_IF_ERROR(Open());
    size_t left = kMaxBytes;
    RETURN_IF_ERROR(ReadOn(now, visit, left));
    struct stat named{}, ours{};
    if (::fstat(fd_.get(), &ours) != 0) return ErrnoStatus("stat " + path_, errno);
    if (::stat(path_.c_str(), &named) != 0) return Ok();  // moved, and not yet created again
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

 private:
  Status ReadOn(Instant now, const MessageVisitor& visit, size_t& left) {
    while (left > 0) {
      ssize_t size = ::pread(fd_.get(), buffer_.data(), std::min(buffer_.size(), left), position_);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0) return ErrnoStatus("read " + path_, errno);
      if (size == 0) return Ok();
      position_ += size;
      left -= static_cast<size_t>(size);
      Feed(static_cast<size_t>(size), now, visit);
    }
    return Ok();
  }

  const std::string path_;
  LogStart from_;
  UniqueFd fd_;
  off_t position_ = 0;
};

constexpr Duration kFirstPause = std::chrono::seconds(5);
constexpr Duration kLongestPause = std::chrono::minutes(5);

constexpr const char* kJournalArguments[] = {"--dmesg", "--follow", "--quiet", "--no-pager",
                                             "--output=short-unix"};
constexpr const char *kFromBoot = "--boot=0", *kFromNow = "--lines=0";

class JournalReader final : public LineReader {
 public:
  JournalReader(std::string program, LogStart from) : program_(std::move(program)), from_(from) {}

  Status Begin(Instant now) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus("pipe", errno);
    UniqueFd ours(ends[0]), theirs(ends[1]);
    ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
    UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    ChildProcess::Options options;
    options.program = program_;
    options.arguments.assign(std::begin(kJournalArguments), std::end(kJournalArguments));
    options.arguments.push_back(from_ == LogStart::kBoot ? kFromBoot : kFromNow);
    options.pass_fds = {{null.get(), 0}, {theirs.get(), 1}, {null.get(), 2}};
    ASSIGN_OR_RETURN(child_, ChildProcess::Start(options));
    from_ = LogStart::kNow;  // a restarted one does not repeat old messages
    pipe_ = std::move(ours);
    lines_.Reset();
    started_ = now;
    return Ok();
  }

  Status Read(Instant now, const MessageVisitor& visit) override {
    if (!pipe_) {
      if (now.boot_ns < retry_at_ns_) return failure_;
      RETURN_IF_ERROR(Begin(now));
    }
    for (size_t count = 0; count < kMaxMessages;) {
      ssize_t size = ::read(pipe_.get(), buffer_.data(), buffer_.size());
      if (size < 0 && errno == EINTR) continue;
      if (size < 0 && errno == EAGAIN) return Ok();
      if (size <= 0) return Ended(now);
      count += Feed(static_cast<size_t>(size), now, visit);
    }
    return Ok();
  }

 private:
  // The output ended. The exit may be visible only later, and is never waited for.
  Status Ended(Instant now) {
    std::optional<int> status = child_.TryWait();
    failure_ = {Code::kUnavailable,
                "journalctl " + (status ? DescribeWaitStatus(*status) : "closed its output")};
    if (now - started_ > kLongestPause) pause_ = kFirstPause;
    retry_at_ns_ = now.boot_ns + pause_.count();
    pause_ = std::min(pause_ * 2, kLongestPause);
    pipe_.reset();
    child_ = ChildProcess();
    return failure_;
  }

  const std::string program_;
  LogStart from_;
  ChildProcess child_;
  UniqueFd pipe_;
  Instant started_;
  int64_t retry_at_ns_ = 0;
  Duration pause_ = kFirstPause;
  Status failure_;
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

Result<std::unique_ptr<LogReader>> OpenKmsg(const std::string& path, LogStart from) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return ErrnoStatus("open " + path, errno);
  // A pipe, as tests use, cannot seek.
  if (from == LogStart::kNow && ::lseek(fd.get(), 0, SEEK_END) < 0 && errno != ESPIPE)
    return ErrnoStatus("seek " + path, errno);
  return std::unique_ptr<LogReader>(std::make_unique<KmsgReader>(std::move(fd), from));
}

Result<std::unique_ptr<LogReader>> FollowFile(const std::string& path, LogStart from) {
  auto file = std::make_unique<FollowedFile>(path, from);
  RETURN_IF_ERROR(file->Open());
  return std::unique_ptr<LogReader>(std::move(file));
}

ProgramRule RuleOfJournalctl(std::string program) {
  ProgramRule rule{.path = std::move(program), .arguments = {kFromBoot, kFromNow}};
  rule.arguments.insert(rule.arguments.end(), std::begin(kJournalArguments), std::end(kJournalArguments));
  return rule;
}

Result<std::unique_ptr<LogReader>> RunJournalctl(const std::string& program, LogStart from, Instant now) {
  if (::access(program.c_str(), X_OK) != 0) return ErrnoStatus("run " + program, errno);
  auto reader = std::make_unique<JournalReader>(program, from);
  RETURN_IF_ERROR(reader->Begin(now));
  return std::unique_ptr<LogReader>(std::move(reader));
}

}  // namespace gpulens::kernel_log
