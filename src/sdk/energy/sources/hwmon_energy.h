// Boards of NVIDIA that tell their power as hardware monitors do: Grace by the ACPI power meter, Jetson by
// the rails of its ina3221. Power alone, so energy is its integral. What contains other rails (the whole
// module) is left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gpulens/energy.h>

#include "sources/host/files.h"

namespace gpulens::sdk {

class HwmonEnergy final : public EnergySource {
 public:
  explicit HwmonEnergy(std::string root) : root_(std::move(root)) {}

  std::string_view name() const noexcept override { return "hwmon"; }
  EnergyVendor vendor() const noexcept override { return EnergyVendor::kNvidia; }
  Result<std::vector<EnergyDevice>> Open() override;
  Status Read(size_t device, EnergyReading& out) override;

 private:
  // Microwatts in one file, or millivolts and milliamperes in two.
  struct Rail {
    std::string power, voltage, current;
  };

  void AddMeters(std::string_view folder, std::vector<EnergyDevice>& out);
  void AddRails(std::string_view folder, std::vector<EnergyDevice>& out);
  void Add(std::string_view folder, std::string_view label, EnergyPart part, Rail rail,
           std::vector<EnergyDevice>& out);
  Status Number(const std::string& path, double& out);

  const std::string root_;
  std::optional<HostFiles> files_;
  std::vector<Rail> rails_;
};

// What a rail or meter of this name measures; nothing for what contains others, or is none of these.
std::optional<EnergyPart> PartOfRail(std::string_view label) noexcept;
std::optional<EnergyPart> PartOfMeter(std::string_view label) noexcept;

}  // namespace gpulens::sdk
