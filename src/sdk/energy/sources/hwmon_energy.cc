#include "sdk/energy/sources/hwmon_energy.h"

#include <algorithm>

#include "base/result.h"

namespace gpulens::sdk {
namespace {

constexpr std::string_view kFolder = "sys/class/hwmon/";
constexpr size_t kMostChips = 256;

bool Contains(std::string_view text, std::string_view word) noexcept {
  return text.find(word) != std::string_view::npos;
}

}  // namespace

// Jetson names its rails by what they feed: "VDD_GPU_SOC", "CPU", "VDD_SYS_DDR". One that feeds several
// counts as the most of it: the GPU. "VDD_IN" and "SYS5V" are behind the others.
std::optional<EnergyPart> PartOfRail(std::string_view label) noexcept {
  if (Contains(label, "GPU")) return EnergyPart::kGpu;
  if (Contains(label, "CPU")) return EnergyPart::kCpu;
  if (Contains(label, "DDR")) return EnergyPart::kDram;
  return std::nullopt;
}

// "Grace Power Socket 0" contains "CPU Power Socket 0" and "SysIO Power Socket 0", "Module Power Socket 0"
// all and the GPU too.
std::optional<EnergyPart> PartOfMeter(std::string_view label) noexcept {
  if (label.starts_with("Grace Power")) return EnergyPart::kCpu;
  return std::nullopt;
}

void HwmonEnergy::Add(std::string_view folder, std::string_view label, EnergyPart part, Rail rail,
                      std::vector<EnergyDevice>& out) {
  EnergyDevice device;
  device.id = std::string(folder) + "/" + std::string(label);
  device.name = label;
  device.part = part;
  rails_.push_back(std::move(rail));
  out.push_back(std::move(device));
}

void HwmonEnergy::AddMeters(std::string_view folder, std::vector<EnergyDevice>& out) {
  // The attributes stand in the hwmon device, or in the one it sits on.
  for (std::string_view place : {"/", "/device/"}) {
    const std::string label_path = std::string(kFolder) + std::string(folder) + std::string(place);
    const auto text = files_->FindText((label_path + "power1_oem_info").c_str());
    if (!text) continue;
    const std::string label(*text);
    if (const auto part = PartOfMeter(label)) {
      Rail rail;
      rail.power = label_path + "power1_average";
      Add(folder, label, *part, std::move(rail), out);
    }
    return;
  }
}

void HwmonEnergy::AddRails(std::string_view folder, std::vector<EnergyDevice>& out) {
  const std::string begin = std::string(kFolder) + std::string(folder) + "/";
  for (char number = '1'; number <= '3'; ++number) {
    const auto text = files_->FindText((begin + "in" + number + "_label").c_str());
    if (!text) continue;
    const std::string label(*text);
    const auto part = PartOfRail(label);
    if (!part) continue;
    Rail rail;
    rail.voltage = begin + "in" + number + "_input";
    rail.current = begin + "curr" + number + "_input";
    Add(folder, label, *part, std::move(rail), out);
  }
}

Result<std::vector<EnergyDevice>> HwmonEnergy::Open() {
  rails_.clear();
  ASSIGN_OR_RETURN(files_, HostFiles::Open(root_));
  NameList chips;
  RETURN_IF_ERROR(files_->List("sys/class/hwmon", "hwmon", chips, kMostChips));
  std::vector<EnergyDevice> devices;
  for (size_t i = 0; i < chips.size(); ++i) {
    const std::string folder(chips[i]);
    const auto name = files_->FindText((std::string(kFolder) + folder + "/name").c_str());
    if (!name) continue;
    if (*name == "power_meter") AddMeters(folder, devices);
    else if (*name == "ina3221") AddRails(folder, devices);
  }
  if (devices.empty()) return Status{Code::kUnavailable, "no power meter of Grace and no rail of Jetson"};
  return devices;
}

Status HwmonEnergy::Number(const std::string& path, double& out) {
  std::optional<uint64_t> number;
  RETURN_IF_ERROR(files_->FindNumber(path.c_str(), number));
  if (!number) return {Code::kUnavailable, path + " cannot be read"};
  out = static_cast<double>(*number);
  return Ok();
}

Status HwmonEnergy::Read(size_t device, EnergyReading& out) {
  if (device >= rails_.size()) return {gpulens::Code::kUnavailable, "hwmon could not be opened again"};
  const Rail& rail = rails_[device];
  if (!rail.power.empty()) {
    double microwatts = 0;
    RETURN_IF_ERROR(Number(rail.power, microwatts));
    out.watts = microwatts * 1e-6;
    return Ok();
  }
  double millivolts = 0, milliamperes = 0;
  RETURN_IF_ERROR(Number(rail.voltage, millivolts));
  RETURN_IF_ERROR(Number(rail.current, milliamperes));
  out.watts = millivolts * milliamperes * 1e-6;
  return Ok();
}

}  // namespace gpulens::sdk
