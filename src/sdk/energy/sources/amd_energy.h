// AMD GPUs by AMD SMI, in this process: the energy accumulator times its resolution, and the socket's power.
// One device a board: its partitions draw from one socket.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <gpulens/energy.h>

#include "base/clock.h"
#include "sources/amdsmi/reader/amdsmi_library.h"

namespace gpulens::sdk {

class AmdEnergy final : public EnergySource {
 public:
  // `lookup`: a library that is linked in; null: libamd_smi.so where it is found.
  AmdEnergy(amdsmi::SymbolLookup lookup, const Clock& clock);
  ~AmdEnergy() override;

  std::string_view name() const noexcept override { return "amdsmi"; }
  EnergyVendor vendor() const noexcept override { return EnergyVendor::kAmd; }
  Result<std::vector<EnergyDevice>> Open() override;
  Status Read(size_t device, EnergyReading& out) override;
  std::string Doing() const override;

 private:
  struct Board {
    amdsmi::Handle handle = nullptr;
    bool counter = true;
    int64_t queried_ns = 0;  // of the slow readings
    EnergyReading slow;
  };
  struct Opened;

  EnergyDevice Describe(const amdsmi::Processor& processor, std::vector<std::string>& names);
  int ReadCounter(Board& board, EnergyReading& out);
  int ReadPower(const Board& board, EnergyReading& out);
  void ReadSlow(Board& board, EnergyReading& out);

  const amdsmi::SymbolLookup lookup_;
  const Clock& clock_;
  reader::CallSlot slot_;
  std::unique_ptr<Opened> opened_;
  std::vector<Board> boards_;
  std::vector<std::byte> scratch_;
};

}  // namespace gpulens::sdk
