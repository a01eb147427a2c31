// The stdout sink: every tick as JSON or as a table, for pipes and for eyes, and each event as a line of
// JSON.
//
// Nobody reading any more is no error: what follows is thrown away. The sink has a thread of its own,
// since a pipe that nobody empties makes it wait.

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <variant>

#include "base/files.h"
#include "export/sink_names.h"
#include "pipeline/rollup/rollup_rule.h"
#include "plugins/plugin.h"
#include "plugins/sinks/stdout/collect_json.h"
#include "plugins/sinks/stdout/collect_table.h"
#include "wire/json/json_lines.h"

namespace gpulens {
namespace {

// A pipe whose reader is gone raises SIGPIPE. The program may not ignore it; this thread then must not
// be ended by it.
class SigpipeGuard {
 public:
  SigpipeGuard() noexcept {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SigpipeGuard() {
    constexpr timespec kNoTime{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &kNoTime);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_, before_;
  bool was_pending_ = false;
};

// Returns 0 or the errno.
int WriteAll(int fd, std::string_view bytes) noexcept {
  SigpipeGuard guard;
  while (!bytes.empty()) {
    ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count > 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
    } else if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      pollfd ready{fd, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (count < 0 && errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

class StdoutSink final : public Sink {
 public:
  StdoutSink(bool table, bool end_when_closed, bool gpus_only, const SinkNames& names)
      : end_when_closed_(end_when_closed), form_(std::in_place_type<CollectJson>, gpus_only, names) {
    if (table) form_.emplace<CollectTable>();
  }

  Status Write(const Snapshot& snapshot) override {
    if (closed_) return Ok();
    text_.clear();
    std::visit([&](auto& form) { form.Append(snapshot, text_); }, form_);
    return Print();
  }
  Status Write(const Events& events) override {
    if (closed_) return Ok();
    text_.clear();
    AppendJsonEvents(text_, events);
    return Print();
  }

 private:
  Status Print() {
    int error = WriteAll(STDOUT_FILENO, text_);
    if (error == 0) return Ok();
    if (error != EPIPE && error != ECONNRESET && error != EBADF) return ErrnoStatus("write stdout", error);
    closed_ = true;
    if (end_when_closed_) ::kill(::getpid(), SIGTERM);
    return Ok();
  }

  const bool end_when_closed_;
  std::variant<CollectJson, CollectTable> form_;
  std::string text_;
  bool closed_ = false;
};

Result<std::unique_ptr<Sink>> Create(const Config& config, Env&) {
  return std::unique_ptr<Sink>(std::make_unique<StdoutSink>(config.Text("format") == "table",
                                                            config.Bool("end_when_closed"),
                                                            config.Bool("gpus_only"), SinkNames(config)));
}

constexpr std::string_view kFormats[] = {"json", "table"};
constexpr auto kOptions = JoinOptions(
    JoinOptions(NameOptions("[native]"), RollupsOption()),
    std::to_array<OptionSpec>({
        IntervalOption("0s"),
        {.key = "format",
         .fallback = "json",
         .help = "json: one array per tick, on one line. table: for people.",
         .allowed = kFormats},
        {.key = "end_when_closed",
         .type = OptionType::kBool,
         .fallback = "false",
         .help = "End the program when its output is closed, as in a pipe to head."},
        {.key = "gpus_only",
         .type = OptionType::kBool,
         .fallback = "false",
         .help = "As JSON, only readings of GPUs and their instances: no host, reader or process."},
    }));

}  // namespace

extern const SinkSpec stdout_sink;
const SinkSpec stdout_sink{.name = "stdout",
                           .help = "Every tick on standard output.",
                           .threaded = true,
                           .options = kOptions,
                           .create = &Create,
                           .check = &CheckRollups};

}  // namespace gpulens
