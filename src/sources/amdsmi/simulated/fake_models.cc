#include "sources/amdsmi/simulated/fake_models.h"

namespace gpulens::amdsmi {
namespace {

constexpr FakeModel kModels[] = {
    {.key = "MI300X",
     .name = "AMD Instinct MI300X",
     .vbios = "022.040.003.042.000001",
     .target = 90402,
     .device_id = 0x74A1,
     .compute_units = 304,
     .vram_mib = 196592,
     .visible_mib = 196592,
     .idle_w = 135,
     .cap_w = 750,
     .min_cap_w = 0,
     .idle_clock = 132,
     .max_clock = 2100,
     .memory_clock = 1300,
     .soc_clock = 1140,
     .fabric_clock = 2100,
     .idle_temperature = 38,
     .busy_temperature = 78,
     .pcie_generation = 5,
     .pcie_width = 16,
     .links = 7,
     .stacks = 4,
     .vcn = 4,
     .jpeg = 32,
     .ecc_blocks = 0x800F,  // umc sdma gfx mmhub vcn
     .edge = false,
     .fan = false,
     .current_power = true,
     .partitions = true,
     .residency = true},
    {.key = "MI250X",  // One of the two dies of a board, each a GPU of its own.
     .name = "AMD Instinct MI250X",
     .vbios = "113-D65201-046",
     .target = 90010,
     .device_id = 0x7408,
     .compute_units = 110,
     .vram_mib = 65520,
     .visible_mib = 65520,
     .idle_w = 90,
     .cap_w = 500,
     .min_cap_w = 0,
     .idle_clock = 800,
     .max_clock = 1700,
     .memory_clock = 1600,
     .soc_clock = 1090,
     .fabric_clock = 1600,
     .idle_temperature = 40,
     .busy_temperature = 82,
     .pcie_generation = 4,
     .pcie_width = 16,
     .links = 0,
     .stacks = 4,
     .vcn = 0,
     .jpeg = 0,
     .ecc_blocks = 0x00FF,
     .edge = true,
     .fan = false,
     .current_power = false,
     .partitions = false,
     .residency = false},
    {.key = "RX7900",
     .name = "AMD Radeon RX 7900 XTX",
     .vbios = "113-31XFSHBS2-L02",
     .target = 110000,
     .device_id = 0x744C,
     .compute_units = 96,
     .vram_mib = 24560,
     .visible_mib = 256,
     .idle_w = 15,
     .cap_w = 339,
     .min_cap_w = 290,
     .idle_clock = 50,
     .max_clock = 2526,
     .memory_clock = 1249,
     .soc_clock = 1400,
     .fabric_clock = 2000,
     .idle_temperature = 35,
     .busy_temperature = 85,
     .pcie_generation = 4,
     .pcie_width = 16,
     .links = 0,
     .stacks = 0,
     .vcn = 0,
     .jpeg = 0,
     .ecc_blocks = 0,
     .edge = true,
     .fan = true,
     .current_power = false,
     .partitions = false,
     .residency = false},
};

}  // namespace

const FakeModel* FindFakeModel(std::string_view key) noexcept {
  for (const FakeModel& model : kModels) {
    if (model.key == key) return &model;
  }
  return nullptr;
}

std::string_view FakeModelNames() noexcept { return "MI300X, MI250X, RX7900"; }

}  // namespace gpulens::amdsmi
