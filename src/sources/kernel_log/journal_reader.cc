// journalctl as a child process that follows the kernel's messages: for machines where /dev/kmsg may not be
// read but the journal may.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/fd.h"
#include "base/files.h"
#include "base/process.h"
#include "base/result.h"
#include "sources/kernel_log/line_splitter.h"
#include "sources/kernel_log/log_reader.h"
#include "sources/kernel_log/parse/log_line.h"

namespace gpulens::kernel_log {
namespace {

constexpr Duration kFirstPause = std::chrono::seconds(5);
constexpr Duration kLongestPause = std::chrono::minutes(5);

class JournalReader final : public LogReader {
 public:
  JournalReader(std::string program, From from) : program_(std::move(program)), from_(from) {}

  Status Begin(Instant now) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus("pipe", errno);
    UniqueFd ours(ends[0]), theirs(ends[1]);
    ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
    UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    ChildProcess::Options options;
    options.program = program_;
    options.arguments = {"--dmesg",
                         "--follow",
                         "--quiet",
                         "--no-pager",
                         "--output=short-unix",
                         from_ == From::kBoot ? "--boot=0" : "--lines=0"};
    options.pass_fds = {{null.get(), 0}, {theirs.get(), 1}, {null.get(), 2}};
    ASSIGN_OR_RETURN(child_, ChildProcess::Start(options));
    from_ = From::kNow;  // started again it goes on, and does not tell all anew
    pipe_ = std::move(ours);
    lines_.Reset();
    started_ = now;
    return Ok();
  }

  Status Read(Instant now, const Visit& visit) override {
    if (!pipe_) {
      if (now.boot_ns < retry_at_ns_) return why_;
      RETURN_IF_ERROR(Begin(now));
    }
    for (size_t count = 0; count < kMaxMessages;) {
      ssize_t size = ::read(pipe_.get(), buffer_.data(), buffer_.size());
      if (size < 0 && errno == EINTR) continue;
      if (size < 0 && errno == EAGAIN) return Ok();
      if (size <= 0) return Ended(now);
      lines_.Feed(std::string_view(buffer_.data(), static_cast<size_t>(size)), [&](std::string_view text) {
        LogLine line;
        ++count;
        if (!ParseLogLine(text, scratch_, line)) return;
        bool dated = line.stamp == LogLine::Stamp::kUnix;
        visit(dated ? MomentOfUnix(line.stamp_ns, now) : now, line.text);
      });
    }
    return Ok();
  }
  uint64_t lost() const noexcept override { return lines_.too_long(); }

 private:
  // Nothing more comes. Its exit may be seen only a moment later, and is never waited for.
  Status Ended(Instant now) {
    std::optional<int> status = child_.TryWait();
    why_ = {Code::kUnavailable, "journalctl " + (status ? DescribeWaitStatus(*status) : "closed its output")};
    if (now - started_ > kLongestPause) pause_ = kFirstPause;
    retry_at_ns_ = now.boot_ns + pause_.count();
    pause_ = std::min(pause_ * 2, kLongestPause);
    pipe_.reset();
    child_ = ChildProcess();
    return why_;
  }

  const std::string program_;
  From from_;
  ChildProcess child_;
  UniqueFd pipe_;
  Instant started_;
  int64_t retry_at_ns_ = 0;
  Duration pause_ = kFirstPause;
  Status why_;
  LineSplitter lines_;
  std::array<char, 16 << 10> buffer_{};
  std::string scratch_;
};

}  // namespace

Result<std::unique_ptr<LogReader>> RunJournalctl(const std::string& program, From from, Instant now) {
  if (::access(program.c_str(), X_OK) != 0) return ErrnoStatus("run " + program, errno);
  auto reader = std::make_unique<JournalReader>(program, from);
  RETURN_IF_ERROR(reader->Begin(now));
  return std::unique_ptr<LogReader>(std::move(reader));
}

}  // namespace gpulens::kernel_log
