// Connects the thread that reads energy, which never takes the GIL, with a Python thread that serves an
// EnergySource written in Python. Requests go through a pipe, so that Python waits in os.read().
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gpulens/energy_source.h>

#include "base/fd.h"

namespace gpulens::python {

// Query is called by the reading thread, the rest by Python's; Renew in the child of a fork, before both.
class Mailbox {
 public:
  static constexpr int kOpen = -1;  // instead of a device's number
  struct Request {
    uint64_t serial = 0;
    int what = kOpen;
  };
  struct Answer {
    Status status;
    std::vector<EnergyDevice> devices;
    EnergyReading reading;
  };

  Mailbox() { Renew(); }

  // kTimeout: no answer by then; kUnavailable: it is closed.
  Answer Query(int what, Duration timeout);
  // The end to wait at: a byte for each request, the end of the file when it is closed.
  int read_end() const noexcept { return state_->read_end.get(); }
  // The waiting request; serial 0: none.
  Request Take();
  // Answers a request; dropped when it is no longer awaited.
  void Give(uint64_t serial, Answer answer);
  void Close();
  // State of the parent's threads is abandoned.
  void Renew();

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable came;
    UniqueFd read_end, write_end;
    uint64_t serial = 0, answered = 0;
    int what = kOpen;
    bool waiting = false, closed = false;
    Answer answer;
  };
  std::unique_ptr<State> state_;
};

// Python's reference. A monitor holds the other half without Python, so releasing it takes no GIL.
struct MailboxHandle {
  std::shared_ptr<Mailbox> box = std::make_shared<Mailbox>();
};

// A monitor's reference: when the last one is released, the Python thread ends.
class MailboxSource final : public EnergySource {
 public:
  MailboxSource(std::shared_ptr<Mailbox> box, std::string name, EnergyVendor vendor)
      : box_(std::move(box)), name_(std::move(name)), vendor_(vendor) {}
  ~MailboxSource() override { box_->Close(); }

  std::string_view name() const noexcept override { return name_; }
  EnergyVendor vendor() const noexcept override { return vendor_; }
  Result<std::vector<EnergyDevice>> Open() override;
  Status Read(size_t device, EnergyReading& out) override;

 private:
  const std::shared_ptr<Mailbox> box_;
  const std::string name_;
  const EnergyVendor vendor_;
};

}  // namespace gpulens::python
