#include <gpulens/experiment.h>

#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdlib>
#include <exception>

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "sdk/experiment/artifact_files.h"
#include "sdk/experiment/recorder.h"
#include "sdk/experiment/run_context.h"
#include "store/experiments/run_rows.h"
#include "store/sqlite/sqlite.h"

namespace gpulens {

using namespace experiments;  // implements this class

namespace {

constexpr Duration kEndTime = std::chrono::seconds(5), kArtifactTime = std::chrono::seconds(30);
constexpr Duration kLeastInterval = std::chrono::milliseconds(1), kMostInterval = std::chrono::hours(1);
constexpr size_t kMostQueue = size_t{1} << 24;

// Whether an experiment of this process is the run of GPULENS_RUN_ID.
std::atomic<bool> g_joined = false;

Status CheckOptions(std::string_view name, const ExperimentOptions& options) {
  if (!IsKey(name))
    return {Code::kInvalidArgument, "a run needs a name of 1 to 250 bytes of UTF-8 without control bytes"};
  for (const std::string& id : {options.resume, options.parent_id}) {
    if (!id.empty() && !IsRunId(id)) return {Code::kInvalidArgument, "\"" + id + "\" is not a run id"};
  }
  for (Duration interval : {Duration(options.flush_interval), Duration(options.heartbeat_interval)}) {
    if (interval < kLeastInterval || interval > kMostInterval)
      return {Code::kInvalidArgument, "flush_interval and heartbeat_interval must be from 1 ms to 1 h"};
  }
  if (options.queue_points == 0 || options.queue_points > kMostQueue)
    return {Code::kInvalidArgument, "queue_points must be from 1 to 16,777,216"};
  return Ok();
}

RunParamValue ToValue(const Experiment::ParamValue& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) return std::string(*text);
  if (const auto* whole = std::get_if<int64_t>(&value)) return *whole;
  if (const auto* yes = std::get_if<bool>(&value)) return *yes;
  return std::get<double>(value);
}

}  // namespace

struct Experiment::Impl {
  ExperimentOptions options;
  std::string id, name, db;
  RunRecorderOptions rejoin;  // for a child after a fork
  sqlite::ForkLocal<RunRecorder> recorder;
  bool reopened = false;  // this process is a child of the one that began the run
  int exceptions = 0;
  std::atomic<ExperimentStatus> status = ExperimentStatus::kRunning;
  std::atomic<uint64_t> lost = 0;  // without a recorder
  ExperimentEnergy energy;

  // Returns the recorder of this process; null: there is none, and values are dropped.
  RunRecorder* Current() noexcept {
    return recorder.Get([this]() -> Result<std::unique_ptr<RunRecorder>> {
      reopened = true;
      if (status.load(std::memory_order_relaxed) != ExperimentStatus::kRunning)
        return std::unique_ptr<RunRecorder>();
      return RunRecorder::Begin(rejoin);
    });
  }
  template <class F>
  void With(F&& log) noexcept {
    if (RunRecorder* open = Current()) log(*open);
    else lost.fetch_add(1, std::memory_order_relaxed);
  }
};

Experiment::Experiment(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Experiment::Experiment(Experiment&&) noexcept = default;
Experiment& Experiment::operator=(Experiment&& other) noexcept {
  if (this != &other) {
    Experiment old(std::move(*this));
    impl_ = std::move(other.impl_);
  }
  return *this;
}

Result<Experiment> Experiment::Start(std::string_view name, ExperimentOptions options) {
  RETURN_IF_ERROR(CheckOptions(name, options));
  ASSIGN_OR_RETURN(std::string db, FindDatabase(options.db));
  RunRecorderOptions recording;
  recording.database = db;
  recording.queue_points = options.queue_points;
  recording.flush_interval = options.flush_interval;
  recording.heartbeat_interval = options.heartbeat_interval;
  recording.energy = options.energy;
  experiments::RunStart& start = recording.start;
  start.run = DescribeThisProgram();
  start.run.name = name;
  start.run.parent_id = options.parent_id;
  start.process.role = "main";
  const char* shared = options.join ? std::getenv(kRunIdVariable) : nullptr;
  if (options.resume == "auto") start.resume = "auto";
  else if (!options.resume.empty()) start.run.id = options.resume, start.must_exist = true;
  else if (shared && *shared && options.parent_id.empty()) {
    if (!IsRunId(shared))
      return Status{Code::kInvalidArgument, std::string(kRunIdVariable) + " is not a run id"};
    if (g_joined.exchange(true)) {
      start.run.parent_id = shared;
    } else {
      start.run.id = shared;
      start.rename = std::getenv(kRunNameVariable) == nullptr;
      start.process.role = "member";
      options.energy = nullptr, recording.energy = nullptr;
    }
  }
  auto impl = std::make_unique<Impl>();
  impl->rejoin = recording;
  ASSIGN_OR_RETURN(std::unique_ptr<RunRecorder> recorder, RunRecorder::Begin(std::move(recording)));
  impl->id = recorder->run_id(), impl->name = recorder->run_name(), impl->db = std::move(db);
  impl->rejoin.start = {}, impl->rejoin.energy = nullptr;
  impl->rejoin.start.run.id = impl->id, impl->rejoin.start.must_exist = true;
  impl->rejoin.start.process.role = "fork";
  impl->exceptions = std::uncaught_exceptions();
  for (const auto& [key, value] : options.tags) recorder->Tag(key, value);
  impl->recorder.Set(std::move(recorder));
  impl->options = std::move(options);
  return Experiment(std::move(impl));
}

Result<Experiment> Experiment::Nested(std::string_view name, ExperimentOptions options) const {
  options.db = impl_->db;
  options.parent_id = impl_->id;
  return Start(name, std::move(options));
}

Experiment::~Experiment() {
  if (!impl_) return;
  if (!impl_->recorder.in_child() && status() == ExperimentStatus::kRunning) {
    const bool failed = std::uncaught_exceptions() > impl_->exceptions;
    static_cast<void>(failed ? End(ExperimentStatus::kFailed, "exception") : End());
  }
}

const std::string& Experiment::id() const noexcept { return impl_->id; }
const std::string& Experiment::name() const noexcept { return impl_->name; }
const std::string& Experiment::db() const noexcept { return impl_->db; }
ExperimentStatus Experiment::status() const noexcept { return impl_->status.load(std::memory_order_relaxed); }
const ExperimentEnergy& Experiment::energy() const noexcept { return impl_->energy; }

void Experiment::LogParam(std::string_view key, ParamValue value) noexcept {
  impl_->With([&](RunRecorder& recorder) noexcept {
    const auto* text = std::get_if<std::string_view>(&value);
    if (text && text->size() > kMostTextBytes) return recorder.Drop();
    try {
      recorder.Param(key, ToValue(value));
    } catch (...) {  // no memory
      recorder.Drop();
    }
  });
}

void Experiment::SetTag(std::string_view key, std::string_view value) noexcept {
  impl_->With([&](RunRecorder& recorder) noexcept { recorder.Tag(key, value); });
}

void Experiment::LogMetric(std::string_view key, double value, int64_t step) noexcept {
  // The lowest number means the next step.
  if (step == kNextStep) ++step;
  impl_->With([&](RunRecorder& recorder) noexcept { recorder.Point(key, value, step); });
}

void Experiment::LogMetric(std::string_view key, double value) noexcept {
  impl_->With([&](RunRecorder& recorder) noexcept { recorder.Point(key, value, kNextStep); });
}

Status Experiment::LogArtifact(const std::string& path, std::string name) {
  RunRecorder* recorder = impl_->Current();
  if (!recorder || status() != ExperimentStatus::kRunning)
    return {Code::kInvalidArgument, "the run has ended"};
  ASSIGN_OR_RETURN(
      std::vector<ArtifactRow> rows,
      KeepArtifact(path, std::move(name), RunFolder(impl_->db, impl_->id) + "/artifacts", UnixNow()));
  return recorder->Artifacts(std::move(rows), kArtifactTime);
}

Status Experiment::Flush(std::chrono::nanoseconds timeout) {
  RunRecorder* recorder = impl_->Current();
  return recorder ? recorder->Flush(timeout) : Status{Code::kUnavailable, "the file cannot be opened"};
}

Status Experiment::End(ExperimentStatus status, std::string_view reason) {
  RunRecorder* recorder = impl_->Current();
  if (status == ExperimentStatus::kRunning)
    return {Code::kInvalidArgument, "a run must end as done or failed"};
  if (this->status() != ExperimentStatus::kRunning)
    return {Code::kInvalidArgument, "the run has already ended"};
  impl_->status = status;
  if (!recorder) return {Code::kUnavailable, "the file cannot be opened"};
  // Only the process that began the run measures its energy.
  if (impl_->options.energy && !impl_->reopened) impl_->energy = QueryEnergy(impl_->options.energy, true);
  experiments::RunEnd end;
  end.outcome = status == ExperimentStatus::kDone ? kDone : kFailed;
  end.reason = reason.substr(0, kMostTextBytes);
  end.unix_ns = UnixNow();
  end.energy = ToRow(impl_->energy);
  return recorder->Leave(end, kEndTime);
}

ExperimentHealth Experiment::health() const {
  RunRecorder* recorder = impl_->Current();
  ExperimentHealth health = recorder ? recorder->health() : ExperimentHealth{};
  health.dropped += impl_->lost.load(std::memory_order_relaxed);
  return health;
}

}  // namespace gpulens
