// A source for tests: devices whose readings are functions of the time, and that fail or hang on request.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gpulens/energy.h>

#include "base/clock.h"

namespace gpulens::sdk {

class FakeSource final : public EnergySource {
 public:
  using Reads = std::function<EnergyReading(int64_t ns)>;

  FakeSource(const Clock& clock, EnergyVendor vendor) : clock_(clock), vendor_(vendor) {}

  FakeSource& Add(EnergyDevice device, Reads reads) {
    devices_.push_back(std::move(device));
    reads_.push_back(std::move(reads));
    return *this;
  }
  FakeSource& AddGpu(std::string id, Reads reads) {
    EnergyDevice device;
    device.id = std::move(id);
    return Add(std::move(device), std::move(reads));
  }

  std::string_view name() const noexcept override { return "fake"; }
  EnergyVendor vendor() const noexcept override { return vendor_; }
  Result<std::vector<EnergyDevice>> Open() override {
    ++opens;
    if (on_open) on_open();
    if (!open_status.ok()) return open_status;
    return devices_;
  }
  Status Read(size_t device, EnergyReading& out) override {
    if (before_read) before_read();
    if (throws) throw std::runtime_error("no such luck");
    if (!read_status.ok()) return read_status;
    out = reads_[device](clock_.Now().boot_ns);
    return {};
  }
  Status Processes(size_t device, EnergyProcesses& out) override {
    return who ? who(device, out) : EnergySource::Processes(device, out);
  }
  std::string Doing() const override { return "fakeRead"; }

  Status open_status, read_status;
  int opens = 0;
  std::function<void()> on_open;
  std::vector<EnergyDevice>& devices() { return devices_; }
  bool throws = false;
  std::function<void()> before_read;
  std::function<Status(size_t device, EnergyProcesses& out)> who;

 private:
  const Clock& clock_;
  const EnergyVendor vendor_;
  std::vector<EnergyDevice> devices_;
  std::vector<Reads> reads_;
};

inline double SecondsOf(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace gpulens::sdk
