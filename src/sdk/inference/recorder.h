// Takes rows from any thread and has one thread that writes them.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <gpulens/inference.h>

#include "base/clock.h"
#include "sdk/inference/record_ring.h"
#include "store/telemetry/destination.h"

namespace gpulens::inference {

struct RecorderOptions {
  std::string name;  // of the destination, for people
  size_t queue_records = 16'384;
  size_t flush_records = 1024;
  Duration flush_interval = std::chrono::seconds(1);
};

// Thread-safe. Not for a child after a fork: there it is left alone, also by its owner's destructor.
class Recorder {
 public:
  // kExhausted: there is no thread to be had.
  static Result<std::unique_ptr<Recorder>> Start(RecorderOptions options,
                                                 std::unique_ptr<telemetry::Destination> destination);
  // A thread that hangs in a write is left behind.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void Record(const telemetry::Row& row, std::unique_ptr<Settler>* settler = nullptr) noexcept;
  // Copied as it is; the thread that writes makes a row of it.
  void Record(const InferenceRecord& record) noexcept;
  // Stores an invalid record in a separate table.
  void SetAside(std::string_view record, std::string_view reason) noexcept;

  // kTimeout, or why what was given before could not be written.
  Status Flush(Duration timeout);
  // On the thread that writes, after what was given before.
  Status Do(std::function<Status(telemetry::Destination&)> task, Duration timeout);
  // Writes what waits and ends the thread; once, then the same answer.
  Status Close(Duration timeout);
  StoreHealth health() const;

 private:
  struct Shared;
  template <class... Given>
  void Take(const Given&... given) noexcept;
  explicit Recorder(std::shared_ptr<Shared> shared) noexcept;
  std::shared_ptr<Shared> shared_;
};

}  // namespace gpulens::inference
