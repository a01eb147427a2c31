#include "sources/amdsmi/reader/amdsmi_abi.h"

namespace gpulens::amdsmi {
namespace {

// ROCm 6.1 and 6.2: texts of 32, 64 and 256 bytes.
constexpr Layout kEarly = {
    .asic_name = {0, 256},
    .asic_serial = {340, 32},
    .board_serial = {256, 32},
    .board_name = {320, 256},
    .vbios_version = {160, 32},
    .driver_version = {0, 64},
    .power_current = 0,
    .power_average = 4,
    .process =
        {.stride = 224, .name_size = 32, .pid = 32, .graphics = 48, .encode = 56, .host = 112, .memory = 128},
};

// ROCm 6.3. Its process struct changed on the way and is not certain: it is not read.
constexpr Layout kMiddle = [] {
  Layout layout = kEarly;
  layout.compute_units = 376;
  layout.target_version = 384;
  layout.process = {};
  return layout;
}();

// ROCm 6.4: all texts but dates have 256 bytes.
constexpr Layout kLate = {
    .asic_name = {0, 256},
    .asic_serial = {532, 256},
    .board_serial = {256, 256},
    .board_name = {768, 256},
    .vbios_version = {544, 256},
    .driver_version = {0, 256},
    .compute_units = 792,
    .target_version = 800,
    .power_current = 8,
    .power_average = 12,
    .process = {.stride = 704,
                .name_size = 256,
                .pid = 256,
                .graphics = 272,
                .encode = 280,
                .host = 336,
                .memory = 352},
    .residency = true,
};

// ROCm 7: dates, too; processes report the compute units they hold.
constexpr Layout kSeven = [] {
  Layout layout = kLate;
  layout.vbios_version = {768, 256};
  layout.process.compute_units = 656;
  return layout;
}();

}  // namespace

std::string Version::Text() const {
  if (major == 0) return {};
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

Version VersionFrom(const uint32_t (&words)[4]) noexcept {
  auto plausible = [](uint32_t major) { return major >= 20 && major < 1000; };
  // {year, major, minor, release}, where the major of 6.4 is what had been the year.
  if ((words[0] == 0 || plausible(words[0])) && plausible(words[1])) return {words[1], words[2], words[3]};
  if (plausible(words[0])) return {words[0], words[1], words[2]};
  return {};
}

const Layout* LayoutOf(const Version& version) noexcept {
  if (version.major == 24 && (version.minor == 5 || version.minor == 6)) return &kEarly;
  if (version.major == 24 && version.minor == 7) return &kMiddle;
  if (version.major == 25) return &kLate;
  if (version.major == 26) return &kSeven;
  return nullptr;
}

}  // namespace gpulens::amdsmi
