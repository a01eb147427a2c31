// Sink that writes every tick as JSON or as a table, for pipes and for people, and each event as a line of
// JSON.
//
// A closed pipe is not an error: further output is discarded. The sink has a thread of its own, as it waits
// for a slow reader of its pipe.

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
#include "plugins/sinks/stdout/collect_forms.h"
#include "wire/json/json_snapshot.h"

namespace gpulens {
namespace {

constexpr std::string_view kFormats[] = {"json", "table"};
constexpr auto kOptions = JoinOptions(
    NameOptions("[native]"), RollupsOption(),
    std::to_array<OptionSpec>({
        IntervalOption("0s"),
        TextOption("format", "json", "json: one array per tick, on one line. table: for people.", kFormats),
        BoolOption("end_when_closed", false,
                   "End the program when its output is closed, as in a pipe to head."),
        BoolOption("gpus_only", false,
                   "As JSON, only readings of GPUs and their instances: no host, reader or process."),
    }));
using Options = OptionsOf<kOptions>;

// Blocks the SIGPIPE of a closed pipe for this thread, as the program may not ignore the signal.
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
  const Options options(config);
  return std::unique_ptr<Sink>(std::make_unique<StdoutSink>(options.Text("format") == "table",
                                                            options.Bool("end_when_closed"),
                                                            options.Bool("gpus_only"), SinkNames(config)));
}

}  // namespace

extern const SinkSpec stdout_sink;
const SinkSpec stdout_sink{.name = "stdout",
                           .help = "Every tick on standard output.",
                           .threaded = true,
                           .options = kOptions,
                           .create = &Create,
                           .check = &CheckRollups};

}  // namespace gpulens
