#include "base/bounded_run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/files.h"
#include "base/parse.h"
#include "base/text.h"

namespace gpulens {
namespace {

constexpr size_t kMostComplaint = 4096, kShownComplaint = 200;
// A killed process is gone at once, unless it is stuck in the kernel.
constexpr Duration kDeathTimeout = std::chrono::milliseconds(200);

struct Pipe {
  UniqueFd ours, theirs;
};

Result<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus("pipe", errno);
  Pipe pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  ::fcntl(pipe.ours.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

// Takes what is there. Closes the end when the other side did. False: more than `most` in all.
bool Drain(UniqueFd& from, std::string& into, size_t most) {
  char buffer[16384];
  while (from) {
    ssize_t got = ::read(from.get(), buffer, sizeof buffer);
    if (got > 0) {
      if (into.size() + static_cast<size_t>(got) > most) return false;
      into.append(buffer, static_cast<size_t>(got));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got == 0 || errno != EAGAIN) from.reset();
    break;
  }
  return true;
}

std::string FirstWords(std::string_view complaint, std::string_view printed) {
  std::string_view said = Trim(complaint).empty() ? Trim(printed) : Trim(complaint);
  std::string out;
  AppendPrintable(out, TakeUntil(said, '\n').substr(0, kShownComplaint));
  return out.empty() ? out : ": " + out;
}

// Milliseconds to wait, at least 1 while there is time left.
int PollTime(Duration left) {
  auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<int64_t>(ms, 1, 60'000));
}

void Kill(ChildProcess& child, const Clock& clock) {
  child.Signal(SIGKILL);
  Instant end = clock.Now() + kDeathTimeout;
  while (!child.TryWait() && child.running() && (end - clock.Now()).count() > 0) {
    struct pollfd fd = {child.pidfd(), POLLIN, 0};
    ::poll(&fd, child.pidfd() >= 0 ? 1 : 0, 10);
  }
}

// One program under way, and what it said so far.
struct Talk {
  ChildProcess child;
  UniqueFd out, err;
  std::string printed, complaint;
  int wait_status = 0;
};

// Reads until the program has ended and closed its output, or must be ended.
Status Follow(const RunOptions& options, const Clock& clock, Talk& talk) {
  const Instant end = clock.Now() + options.timeout;
  bool ended = false;
  for (;;) {
    if (!Drain(talk.out, talk.printed, options.most_output)) {
      return {Code::kExhausted, "printed more than " + std::to_string(options.most_output) + " bytes"};
    }
    // It may say too much; the rest is not wanted.
    if (!Drain(talk.err, talk.complaint, kMostComplaint)) talk.err.reset();
    if (auto status = talk.child.TryWait()) {
      talk.wait_status = *status;
      ended = true;
    }
    if (ended && !talk.out) return Ok();
    Duration left = end - clock.Now();
    if (left.count() <= 0) return {Code::kTimeout, "did not finish in time and was killed"};
    struct pollfd fds[] = {{talk.out.get(), POLLIN, 0},
                           {talk.err.get(), POLLIN, 0},
                           {ended ? -1 : talk.child.pidfd(), POLLIN, 0},
                           {options.stop_fd, POLLIN, 0}};
    ::poll(fds, std::size(fds), PollTime(left));
    if (options.stop_fd >= 0 && (fds[3].revents & POLLIN)) return {Code::kUnavailable, "was cancelled"};
  }
}

}  // namespace

RunResult RunBounded(const RunOptions& options, const Clock& clock) {
  RunResult result;
  auto out = MakePipe(), err = MakePipe();
  UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!out || !err || !nothing) {
    result.status = !out ? out.error() : !err ? err.error() : ErrnoStatus("open /dev/null", errno);
    return result;
  }
  ChildProcess::Options start;
  start.program = options.program;
  start.arguments = options.arguments;
  start.environment = options.environment;
  start.environment.push_back("LC_ALL=C");
  start.pass_fds = {{nothing.get(), 0}, {out->theirs.get(), 1}, {err->theirs.get(), 2}};
  auto child = ChildProcess::Start(start);
  if (!child) {
    result.status = child.error();
    return result;
  }
  out->theirs.reset();
  err->theirs.reset();
  Talk talk{std::move(*child), std::move(out->ours), std::move(err->ours), {}, {}};
  result.status = Follow(options, clock, talk);
  if (!result.status) {
    Kill(talk.child, clock);
    if (talk.child.running()) result.stuck = std::move(talk.child);
  } else if (talk.wait_status != 0) {
    std::string words = FirstWords(talk.complaint, talk.printed);
    result.status = {Code::kIo, DescribeWaitStatus(talk.wait_status) + words};
  } else {
    result.output = std::move(talk.printed);
  }
  return result;
}

Result<std::string> FindProgram(const std::string& name) {
  bool forbidden = false;
  auto usable = [&](const std::string& path) {
    struct stat facts{};
    if (::stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return false;
    if (::access(path.c_str(), X_OK) == 0) return true;
    forbidden = true;
    return false;
  };
  if (name.find('/') != std::string::npos) {
    if (usable(name)) return name;
  } else if (const char* path = std::getenv("PATH"); path && !name.empty()) {
    for (std::string_view rest = path; !rest.empty();) {
      std::string candidate(TakeUntil(rest, ':'));
      candidate += "/" + name;
      if (usable(candidate)) return candidate;
    }
  }
  if (forbidden) return Status{Code::kPermissionDenied, name + " cannot be executed by this user"};
  return Status{Code::kUnavailable, "there is no program " + name};
}

}  // namespace gpulens
