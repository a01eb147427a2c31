// Runs an exporter's job on a thread: starts and stops it, restarts it in the child of a fork, and exports
// once more at the end of the process.
#pragma once

#include <functional>
#include <memory>

#include <gpulens/status.h>

#include "base/clock.h"

namespace gpulens::sdk {

// Job of an exporter's thread. Thread-safe except for Run.
class ExportJob {
 public:
  virtual ~ExportJob() = default;
  // Called once, on the job's own thread; returns after Finish or Cut.
  virtual void Run() = 0;
  // Ends Run after a final export within the timeout. Does not wait.
  virtual void Finish(Duration timeout) = 0;
  // Ends Run as soon as possible. Afterwards the job no longer reads its registry.
  virtual void Cut() = 0;
  virtual Status status() const = 0;
  virtual Status Flush(Duration timeout) = 0;
  virtual std::string address() const = 0;
  // Called in the child after a fork, which does not have the job's thread: closes its descriptors. Must
  // neither lock nor allocate. No other function is called afterwards.
  virtual void LeaveBehind() noexcept = 0;
};

// Handle of a running job. Thread-safe, except for creation and destruction.
class ExporterSeat {
 public:
  // Creates a job; called again in the child of a fork, where null means that the exporter is inactive.
  using MakeJob = std::function<std::shared_ptr<ExportJob>()>;

  // Starts the job.
  static std::unique_ptr<ExporterSeat> Take(MakeJob make);
  // Returns an inactive exporter.
  static std::unique_ptr<ExporterSeat> Empty(Status why);
  // Finishes the job, for at most a second.
  ~ExporterSeat();
  ExporterSeat(const ExporterSeat&) = delete;
  ExporterSeat& operator=(const ExporterSeat&) = delete;

  // Null if it is inactive in this process.
  std::shared_ptr<ExportJob> job() const;
  // Why it is inactive.
  Status why() const;

 private:
  friend class ExporterRegistry;
  struct Running;
  ExporterSeat() = default;

  // Guarded by the registry's lock, which no thread holds while the process forks.
  MakeJob make_;
  Status why_;
  // Allocated separately, so that a child can abandon it.
  std::shared_ptr<Running>* running_ = nullptr;
};

// Calls `first` before the first use of an instrument, or now if there was one. Called once.
void AtFirstUse(void (*first)() noexcept);

}  // namespace gpulens::sdk
