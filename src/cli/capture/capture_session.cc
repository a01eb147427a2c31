#include "cli/capture/capture_session.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/fd.h"
#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/version.h"
#include "sources/nvml/capture/recorder.h"
#include "sources/nvml/nvml_source.h"

namespace gpulens {
namespace {

// Opening a library on a machine whose GPUs sleep may take this long.
constexpr Duration kStartTimeout = std::chrono::seconds(45);
// A call that takes longer than this hangs. Long beside the driver's own pauses; there is no hurry here.
constexpr Duration kCallTimeout = std::chrono::seconds(10);
constexpr size_t kMaxTrouble = 8;

// An empty file of ours alone that is gone with this object.
class SpoolFile {
 public:
  SpoolFile() = default;
  SpoolFile(const SpoolFile&) = delete;
  SpoolFile& operator=(const SpoolFile&) = delete;
  ~SpoolFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  Status Make() {
    const char* folder = std::getenv("TMPDIR");
    std::string path = std::string(folder && *folder ? folder : "/tmp") + "/gpulens-capture-XXXXXX";
    UniqueFd fd(::mkstemp(path.data()));
    if (!fd) return ErrnoStatus(path, errno);
    path_ = std::move(path);
    return Ok();
  }
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

nvml::SourceOptions MakeOptions(const CaptureRequest& request, const std::string& spool) {
  nvml::SourceOptions options;
  bool simulated = request.library == "simulated";
  if (simulated) options.arguments.push_back("--simulated");
  else options.library_path = request.library;
  options.arguments.push_back("--record=" + spool);
  std::string gpus;
  for (unsigned gpu : request.gpus) gpus += (gpus.empty() ? "" : ",") + std::to_string(gpu);
  if (!gpus.empty()) options.arguments.push_back("--record-gpus=" + gpus);
  options.build_id = std::string(Version()) + " " + std::string(Revision());
  options.interval = request.every;
  // Everything is read several times even in a short recording; a long one stays small.
  bool brief = request.length < 30 * request.every;
  options.medium = (brief ? 2 : 5) * request.every;
  options.slow = (brief ? 5 : 10) * request.every;
  options.details = nvml::kDetailsAll;
  options.deadline = std::max<Duration>(kCallTimeout, 2 * request.every);
  return options;
}

class Session {
 public:
  Session(const CaptureRequest& request, const std::string& spool) : source_(MakeOptions(request, spool)) {}

  // Until the library is open and its GPUs have been counted.
  Status Start(const std::function<bool()>& stopped) {
    Instant end = RealClock().Now() + kStartTimeout;
    while (!source_.state().up) {
      Turn();
      const nvml::ReaderState& driver = source_.state();
      if (driver.fault != reader::Fault::kNone && !driver.up)
        return {Code::kUnavailable,
                driver.last_error.empty() ? "the library cannot be read" : driver.last_error};
      if (stopped()) return {Code::kUnavailable, "stopped before the library was open"};
      if (RealClock().Now().boot_ns > end.boot_ns)
        return {Code::kTimeout, "the library did not open within 45 s"};
    }
    return Ok();
  }

  // Waits for the next thing and takes it.
  void Turn() {
    Instant now = RealClock().Now();
    source_.Poll(now);
    source_.TakeChanges(changes_);
    for (nvml::ReaderChange& change : changes_) {
      if (change.kind == nvml::ReaderChange::kStarted || change.kind == nvml::ReaderChange::kReleased)
        continue;
      AddTrouble(change.detail.empty() ? "the reader process failed" : change.detail);
    }
    for (const nvml::Gpu& gpu : source_.gpus()) {
      if (gpu.state != nvml::GpuState::kHung) continue;
      AddTrouble("GPU " + std::to_string(gpu.index) + " hung in " +
                 std::string(nvml::CallName(gpu.hung_call)));
    }
    constexpr int64_t kLongestNs = 100'000'000;
    int64_t wait_ns = std::clamp<int64_t>(source_.NextDueBootNs() - now.boot_ns, 1'000'000, kLongestNs);
    pollfd fd{.fd = source_.fd(), .events = POLLIN, .revents = 0};
    ::poll(&fd, 1, static_cast<int>(wait_ns / 1'000'000));
  }

  const std::vector<std::string>& trouble() const noexcept { return trouble_; }
  size_t gpus() const noexcept { return source_.gpus().size(); }

 private:
  void AddTrouble(std::string sentence) {
    bool known = std::find(trouble_.begin(), trouble_.end(), sentence) != trouble_.end();
    if (!known && trouble_.size() < kMaxTrouble) trouble_.push_back(std::move(sentence));
  }

  nvml::NvmlSource source_;
  std::vector<nvml::ReaderChange> changes_;
  std::vector<std::string> trouble_;
};

std::string Joined(const std::vector<std::string>& sentences) {
  std::string out;
  for (const std::string& sentence : sentences) out += (out.empty() ? "" : "; ") + sentence;
  return out.substr(0, 1000);
}

// How many of the GPUs that were asked for the library has; nothing when it was not told.
std::optional<unsigned> CountOf(const nvml::Recording& recording) {
  auto count = recording.system.find("nvmlDeviceGetCount_v2");
  if (count == recording.system.end() || count->second.first.values.empty()) return std::nullopt;
  return ParseInt<unsigned>(count->second.first.values[0]);
}

// What is wrong with what has come in; empty: nothing.
std::string Missing(const nvml::Recording& recording) {
  if (recording.gpus.empty()) return "no GPU answered";
  unsigned gpus = CountOf(recording).value_or(0);
  if (gpus <= nvml::kMaxRecordedGpus) return {};
  return std::to_string(gpus) + " GPUs were found: the first 16 were recorded; --gpu selects others";
}

}  // namespace

Result<CaptureOutcome> Capture(const CaptureRequest& request, const std::function<bool()>& stopped,
                               const std::function<void(const CaptureProgress&)>& progress) {
  SpoolFile spool;
  RETURN_IF_ERROR(spool.Make());
  CaptureOutcome outcome;
  std::vector<std::string> trouble;
  Status started;
  Duration done{0};
  {
    Session session(request, spool.path());
    Instant begin = RealClock().Now();
    started = session.Start(stopped);
    if (started.ok()) begin = RealClock().Now();
    else done = RealClock().Now() - begin;
    outcome.interrupted = !started.ok() && stopped();
    while (started.ok() && done < request.length) {
      session.Turn();
      done = RealClock().Now() - begin;
      progress({.done = done, .gpus = session.gpus()});
      if (stopped()) {
        outcome.interrupted = true;
        break;
      }
    }
    trouble = session.trouble();
  }
  ASSIGN_OR_RETURN(std::string text, ReadFile(spool.path(), 2 * nvml::kMaxSpoolBytes));
  nvml::Spool read = nvml::ReadSpool(text);
  if (!read.library_error.empty()) return Status{Code::kUnavailable, read.library_error};
  outcome.recording = std::move(read.recording);
  if (auto count = CountOf(outcome.recording); count && *count < request.gpus.size()) {
    return Status{Code::kInvalidArgument,
                  "GPU " + std::to_string(request.gpus[*count]) + " is not on this machine"};
  }
  std::string missing = Missing(outcome.recording);
  if (outcome.recording.gpus.empty()) {
    if (!started.ok()) return started;
    return Status{Code::kUnavailable, trouble.empty() ? missing : Joined(trouble)};
  }
  // The reader process may have read GPUs before its word that the library is open was heard here.
  if (!started.ok() && !outcome.interrupted) trouble.push_back(started.detail);
  if (!missing.empty()) trouble.push_back(missing);
  if (read.full) trouble.push_back("the recording reached its size limit: its end is missing");
  outcome.recording.trouble = Joined(trouble);
  outcome.recording.seconds = std::max(static_cast<double>(done.count()) * 1e-9, 0.001);
  outcome.recording.every = static_cast<double>(request.every.count()) * 1e-9;
  return outcome;
}

}  // namespace gpulens
