#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>

#include "base/fd.h"
#include "base/files.h"
#include "base/result.h"
#include "base/text.h"
#include "cli/common/output.h"
#include "cli/exp/exp_command.h"
#include "cli/help/help.h"
#include "store/experiments/run_rows.h"

namespace gpulens {
namespace {

struct LogCommandOptions {
  std::string db, run;  // empty: the newest run
  std::string grep;
  bool follow = false;
};

using namespace experiments;

constexpr size_t kLogPiece = 64 << 10;
// Bytes of a line that are searched.
constexpr size_t kMostLine = 1 << 20;
// How often the run is checked for its end; new output is printed at once.
constexpr int kLookMs = 500;

constexpr const char* kLogFooter = R"(
  gpulens log                          the newest run
  gpulens log ft-8b -f                 follow it until it ends
  gpulens log 9f3a11c2 --grep nan      lines with this text, and their numbers

Exit: 0 printed · 1 there is no log, or no line with the text · 2 wrong use, no such run)";

// Prints bytes, or only the lines that contain a text. A carriage return ends a line, too.
class LinePrinter {
 public:
  explicit LinePrinter(const std::string& grep) : grep_(grep) {}

  // False when the output cannot be written.
  bool Add(std::string_view bytes) {
    if (grep_.empty()) return Write(bytes);
    while (!bytes.empty()) {
      const size_t end = bytes.find_first_of("\r\n");
      std::string_view piece = bytes.substr(0, end);
      line_ += piece.substr(0, kMostLine - line_.size());
      if (end == std::string_view::npos) return true;
      if (!EndLine()) return false;
      bytes.remove_prefix(end + 1);
    }
    return true;
  }
  bool Finish() { return line_.empty() || EndLine(); }
  bool found() const noexcept { return grep_.empty() || found_; }

 private:
  bool EndLine() {
    ++number_;
    const bool fits = line_.find(grep_) != std::string::npos;
    found_ = found_ || fits;
    std::string text = fits ? std::to_string(number_) + ": " + line_ + "\n" : "";
    line_.clear();
    return Write(text);
  }
  static bool Write(std::string_view bytes) { return WriteAll(STDOUT_FILENO, bytes); }

  const std::string& grep_;
  std::string line_;
  int64_t number_ = 0;
  bool found_ = false;
};

Result<RunRow> WhichRun(RunReader& reader, const std::string& text) {
  if (!text.empty()) return reader.Find(text);
  ASSIGN_OR_RETURN(std::vector<RunRow> newest, reader.List({.limit = 1, .status = {}, .name = {}}));
  if (newest.empty()) return Status{Code::kInvalidArgument, "no run in " + reader.path()};
  return std::move(newest.front());
}

class Follower {
 public:
  Follower(UniqueFd file, const std::string& path, LinePrinter& printer)
      : file_(std::move(file)), printer_(printer), piece_(kLogPiece, '\0') {
    // Without inotify, as on a network file system, the file is polled.
    changes_.reset(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (changes_) ::inotify_add_watch(changes_.get(), path.c_str(), IN_MODIFY);
  }

  // False when the output cannot be written or the file cannot be read.
  bool ReadAll() {
    for (;;) {
      ssize_t got = ::read(file_.get(), piece_.data(), piece_.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return got == 0;
      if (!printer_.Add(std::string_view(piece_.data(), static_cast<size_t>(got)))) return false;
    }
  }
  void Wait() {
    pollfd change{changes_.get(), POLLIN, 0};
    if (::poll(&change, 1, kLookMs) > 0) {
      char events[4096];
      while (::read(changes_.get(), events, sizeof events) > 0) {
      }
    }
  }

 private:
  UniqueFd file_, changes_;
  LinePrinter& printer_;
  std::string piece_;
};

Result<bool> StillRuns(RunReader& reader, const std::string& id) {
  RETURN_IF_ERROR(reader.Validate(HereAndNow()));
  ASSIGN_OR_RETURN(RunRow run, reader.ById(id));
  return run.status == kRunning;
}

Result<int> PrintLog(const LogCommandOptions& options) {
  ASSIGN_OR_RETURN(RunReader reader, OpenExperiments(options.db));
  ASSIGN_OR_RETURN(const RunRow run, WhichRun(reader, options.run));
  if (!IsRunId(run.id)) return Status{Code::kDataLoss, "its id is not a valid folder name"};
  const std::string path = LogPath(reader.path(), run.id, reader.old_file());
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    if (errno == ENOENT)
      return Status{Code::kUnavailable,
                    run.id + " has no log: only gpulens run records the output of a program"};
    return ErrnoStatus("open " + path, errno);
  }
  LinePrinter printer(options.grep);
  Follower follower(std::move(file), path, printer);
  bool runs = options.follow && run.status == kRunning;
  bool good = true;
  for (;;) {
    // Reads once more after the end, for the last output.
    if (runs) {
      auto still = StillRuns(reader, run.id);
      runs = still && *still;
    }
    const bool last = !runs;
    good = follower.ReadAll();
    if (last || !good) break;
    follower.Wait();
  }
  good = printer.Finish() && good;
  if (options.follow && good && run.status == kRunning) {
    auto ended = reader.ById(run.id);
    if (ended) ::dprintf(STDERR_FILENO, "gpulens log: %s %s\n", run.id.c_str(), ended->status.c_str());
  }
  return printer.found() ? 0 : 1;
}

}  // namespace

void AddLog(CLI::App& app, int& code) {
  auto kept = std::make_shared<LogCommandOptions>();
  LogCommandOptions& options = *kept;
  CLI::App* log = app.add_subcommand("log", "Print the log of a run, also while it runs.");
  log->group("Runs and records");
  log->add_option("RUN,--id", options.run,
                  "Id of the run, its beginning or end, or a name; default: the newest");
  log->add_flag("-f,--follow", options.follow, "Follow the log until the run ends");
  AddOption(*log, "--grep", options.grep, "Only lines with this text, with their numbers", "TEXT");
  AddOption(*log, "--db", options.db, "The file of experiments", "FILE");
  log->footer(kLogFooter);
  log->callback([kept, &code] { code = ExitCode("log", PrintLog(*kept)); });
}

}  // namespace gpulens
