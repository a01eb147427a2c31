// The structs of AMD SMI whose layout differs by version, written out for the simulated library. The driver
// keeps a table of offsets instead; that both agree is what the tests of the two show.
#pragma once

#include <cstdint>

namespace gpulens::amdsmi::fake {

template <int kNormal, int kLong>
struct AsicInfo {
  char market_name[256];
  uint32_t vendor_id;
  char vendor_name[kLong];
  uint32_t subvendor_id;
  uint64_t device_id;
  uint32_t rev_id;
  char asic_serial[kNormal];
  uint32_t oam_id, num_of_compute_units;  // The second since 24.7
  uint64_t target_graphics_version;       // Since 24.7
  uint32_t reserved[22];
};
using AsicInfo24 = AsicInfo<32, 64>;
using AsicInfo25 = AsicInfo<256, 256>;

template <int kNormal, int kLong>
struct BoardInfo {
  char model_number[256], product_serial[kNormal], fru_id[kNormal], product_name[256],
      manufacturer_name[kLong];
  uint64_t reserved[64];
};
using BoardInfo24 = BoardInfo<32, 64>;
using BoardInfo25 = BoardInfo<256, 256>;

template <int kLong, int kDate, int kVersion>
struct VbiosInfo {
  char name[kLong], build_date[kDate], part_number[kLong], version[kVersion];
  uint64_t reserved[36];
};
using VbiosInfo24 = VbiosInfo<64, 32, 32>;
using VbiosInfo25 = VbiosInfo<256, 32, 256>;
using VbiosInfo26 = VbiosInfo<256, 256, 256>;

struct PowerInfo24 {
  uint32_t current_socket_power, average_socket_power, gfx_voltage, soc_voltage, mem_voltage, power_limit;
  uint32_t reserved[11];
};
struct PowerInfo25 {
  uint64_t socket_power;
  uint32_t current_socket_power, average_socket_power, gfx_voltage, soc_voltage, mem_voltage, power_limit;
  uint32_t reserved[2];
};
struct PowerInfo26 {
  uint64_t socket_power;
  uint32_t current_socket_power, average_socket_power;
  uint64_t gfx_voltage, soc_voltage, mem_voltage;
  uint32_t power_limit;
  uint64_t reserved[18];
};

template <int kName, int kReserved>
struct ProcessInfo {
  char name[kName];
  uint32_t pid;
  uint64_t mem;
  struct Engines {
    uint64_t gfx, enc;
    uint32_t reserved[12];
  } engines;
  struct Memory {
    uint64_t gtt, cpu, vram;
    uint32_t reserved[10];
  } memory;
  char container_name[kName];
  uint32_t cu_occupancy;  // Since 26
  uint32_t reserved[kReserved];
};
using ProcessInfo24 = ProcessInfo<32, 3>;
using ProcessInfo25 = ProcessInfo<256, 11>;

}  // namespace gpulens::amdsmi::fake
