// Gaudi cards through hl-smi, run again and again by a thread of its own: the program may hang, so nobody
// else waits for it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/process.h"
#include "base/workers.h"
#include "sources/hl_smi/hl_smi_parse.h"

namespace gpulens::hl_smi {

// The ports of one card, read at one moment.
struct PortsReading {
  std::vector<Port> ports;
  Instant at;
};

struct CardReading {
  Card card;
  // The last two readings; the former one is from this run when it is the first, so that a rate is known at
  // once. Without a time: none.
  PortsReading ports, ports_before;
};

// What the last request brought.
struct Reading {
  Status status;  // of the query for the cards; the rest may be missing all the same
  std::vector<CardReading> cards;
  Instant at;  // when the cards were read
  size_t bad_rows = 0, bad_cells = 0;
  Duration longest_call{};
  uint64_t calls = 0, calls_killed = 0;  // since the start
  size_t stuck = 0;                      // processes that were killed and are still there
};

// Request and Take may be called from any thread. The destructor gives a run up at once, kills its process
// and joins the thread; it never waits for a process that is stuck in the kernel.
class HlSmiSource {
 public:
  struct Options {
    std::string program;  // a path
    Duration call_timeout = std::chrono::seconds(5);
    Duration port_span = std::chrono::seconds(1);  // between the two readings of the first request
    bool ports = true;
  };

  HlSmiSource(Options options, const Clock& clock);
  ~HlSmiSource();
  HlSmiSource(const HlSmiSource&) = delete;
  HlSmiSource& operator=(const HlSmiSource&) = delete;

  // Reads all cards; calls `done` once, from the source's thread, at the latest at `deadline` or when the
  // call that is running then has been killed. One request at a time. After the destructor began: not called.
  void Request(Instant deadline, std::function<void()> done);
  // What the last request brought. Not while one is running.
  const Reading& last() const noexcept { return reading_; }

 private:
  struct Query {
    std::string fields;
    bool refused = false;  // this hl-smi does not know one of them
    int wait = 0;          // requests until it is asked again all the same
  };

  void Read(Instant deadline);
  bool ReadCards(Instant deadline);
  void ReadRows(Instant deadline);
  void ReadPorts(Instant deadline);
  Result<std::string> Call(std::vector<std::string> arguments, Instant deadline);
  void ReapStuck();

  const Options options_;
  const Clock& clock_;
  Reading reading_;
  Query full_, rows_;
  std::vector<ChildProcess> stuck_;

  Background background_;  // last: it ends before what its work uses
};

}  // namespace gpulens::hl_smi
