// The reader process of one target's pages, `gpulens reader page`: it unpacks and parses what a target
// answered, so that an answer that breaks the parser breaks a process without files, network or secrets.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/process.h"
#include "base/sandbox/launcher.h"
#include "plugins/plugin.h"
#include "reader/reader_child.h"
#include "reader/vendor.h"
#include "wire/exposition/page_reply.h"

namespace gpulens {

// Frees a buffer that is too large to be kept between pages.
void FreeLarge(std::string& buffer);

// What lets the launcher start the process, for any target.
ProgramRule PageReaderRule();

// The agent's side. Starts the process, sends it one answer at a time, kills it when it does not reply in
// time, and starts it again: at once after a first failure, then with back-off until a reply is valid.
// Query is called on the I/O loop, all else on workers, one call at a time.
class PageProcess {
 public:
  // Starts a process that serves pages on `socket`, which is of packets; for tests.
  using Launch = std::function<Result<ChildProcess>(int socket)>;
  // `env` has a loop and outlives this.
  PageProcess(const ExpositionLimits& limits, Env& env, Launch launch = nullptr);
  ~PageProcess();
  PageProcess(const PageProcess&) = delete;
  PageProcess& operator=(const PageProcess&) = delete;

  // Starts the process if none runs and it is time to. Call between runs.
  void KeepRunning();

  // Sends an answer and calls `done` on the loop when the reply is there, or cannot come, within `timeout`.
  // The bytes must stay until then.
  void Query(const PageBody& body, Duration timeout, std::function<void()> done);

  // Hands the reply to the last Query to `page`. kTimeout: there was none in time; kDataLoss: it was not
  // valid; kIo: the process ended or does not run. After each of these the process is ended.
  Result<PageReading> Take(DecodedPage& page);

  using StartReason = reader::StartReason;
  using Starts = std::array<uint64_t, static_cast<size_t>(StartReason::kCount)>;
  const Starts& starts() const noexcept { return starts_; }
  int pid() const noexcept { return child_.running() ? child_.pid() : -1; }

 private:
  class Exchange;

  Status Failed(StartReason reason, Code code, std::string text);
  Status Ended();

  const Launch launch_;
  const Clock& clock_;
  const std::shared_ptr<Exchange> exchange_;
  ChildProcess child_;
  reader::ProcessReaper reaper_;
  std::vector<int> stuck_;
  Backoff backoff_;
  bool failed_ = false;  // since the last valid reply
  std::string why_;      // no process runs
  int64_t next_start_ns_ = 0;
  StartReason next_reason_ = StartReason::kFirst;
  Starts starts_{};
};

// `gpulens reader page --socket-fd=N --max-body=N --max-samples=N`: replies until the other end closes the
// socket. Limits and confines this process. Returns the exit code.
int RunPageReader(std::span<const std::string_view> arguments);

// The same without limits of the process: serves one socket of packets, which blocks, until its other end
// closes it. False: what came is no request.
bool ServePages(int socket, const ExpositionLimits& limits);

}  // namespace gpulens
