// Owns the thread of an exporter's job: start, stop, restart in the child of a fork, and a final export at
// the end of the process.
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
  // Ends Run as soon as can be. When it has returned the job does not read its registry any more.
  virtual void Cut() = 0;
  virtual Status status() const = 0;
  virtual Status Flush(Duration timeout) = 0;
  virtual std::string address() const = 0;
  // In the child after a fork, where its thread is not: closes what descriptors it has. Must not lock nor
  // allocate. Nothing else is called afterwards.
  virtual void LeaveBehind() noexcept = 0;
};

// Thread-safe but for its making and end.
class ExporterSeat {
 public:
  // Makes a job; called again in the child of a fork. Null: there it does nothing, for `why`.
  using MakeJob = std::function<std::shared_ptr<ExportJob>()>;

  // Starts at once.
  static std::unique_ptr<ExporterSeat> Take(MakeJob make);
  // Never does anything.
  static std::unique_ptr<ExporterSeat> Empty(Status why);
  // Finishes the job, for at most a second, and lets it go.
  ~ExporterSeat();
  ExporterSeat(const ExporterSeat&) = delete;
  ExporterSeat& operator=(const ExporterSeat&) = delete;

  // Null: it does nothing here.
  std::shared_ptr<ExportJob> job() const;
  // Why it does nothing.
  Status why() const;

 private:
  friend class ExporterRegistry;
  struct Running;
  ExporterSeat() = default;

  // Guarded by the registry's lock, which no thread holds while the process forks.
  MakeJob make_;
  Status why_;
  // A box of its own, so that a child can leave it as it lies.
  std::shared_ptr<Running>* running_ = nullptr;
};

// Calls `first` before the first use of an instrument, or now where there has been one. Call once.
void AtFirstUse(void (*first)() noexcept);

}  // namespace gpulens::sdk
