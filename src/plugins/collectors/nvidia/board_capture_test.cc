// Compares fixed values of a simulated model with the output of nvidia-smi on a real machine.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/files.h"
#include "base/parse.h"
#include "plugins/collectors/nvidia/gpu_fixture_for_test.h"

namespace gpulens::nvidia {
namespace {

const std::string kCapture = GPULENS_SOURCE_DIR
    "/../shared/fixtures/nvidia-smi-captures/captures_linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01.txt";
const std::string kGpu = "GPU 00000000:00:09.0/";

using Listing = std::map<std::string, std::string>;

// The first full listing of a capture: "    Max Clocks" over "        Graphics : 1980 MHz" is "Max
// Clocks/Graphics".
Listing ListingOf(std::string_view text) {
  Listing out;
  std::vector<std::string> path;
  std::string_view rest = text.substr(std::min(text.size(), text.find("NVSMI LOG")));
  while (!rest.empty() && out.size() < 230) {
    std::string_view line = TakeUntil(rest, '\n');
    size_t depth = line.find_first_not_of(' ');
    if (depth == std::string_view::npos) continue;
    path.resize(std::min(path.size(), depth / 4));
    size_t colon = line.find(" : ");
    std::string key(Trim(line.substr(0, colon))), whole;
    for (const std::string& part : path) whole += part + "/";
    if (colon == std::string_view::npos) path.push_back(key);
    else out.emplace(whole + key, std::string(Trim(line.substr(colon + 3))));
  }
  return out;
}

struct Pair {
  const char* theirs;
  const char* ours;
  double per;  // Ours in one of theirs.
};
constexpr Pair kPairs[] = {
    {"FB Memory Usage/Total", "gpu.memory.total", kMib},
    {"FB Memory Usage/Reserved", "gpu.memory.reserved", kMib},
    {"BAR1 Memory Usage/Total", "gpu.memory.bar1.total", kMib},
    {"Temperature/GPU Shutdown T.Limit Temp",
     "gpu.temperature.margin.limit{gpu.temperature.limit_type=shutdown,gpu.temperature.sensor=edge}", 1},
    {"Temperature/GPU Slowdown T.Limit Temp",
     "gpu.temperature.margin.limit{gpu.temperature.limit_type=slowdown,gpu.temperature.sensor=edge}", 1},
    {"Temperature/GPU Max Operating T.Limit Temp",
     "gpu.temperature.margin.limit{gpu.temperature.limit_type=max_operating,gpu.temperature.sensor="
     "edge}",
     1},
    {"Temperature/Memory Max Operating T.Limit Temp",
     "gpu.temperature.margin.limit{gpu.temperature.limit_type=max_operating,gpu.temperature.sensor="
     "memory}",
     1},
    {"GPU Power Readings/Current Power Limit", "gpu.power.limit{gpu.power.limit_type=enforced}", 1},
    {"GPU Power Readings/Default Power Limit", "gpu.power.limit{gpu.power.limit_type=default}", 1},
    {"GPU Power Readings/Min Power Limit", "gpu.power.limit{gpu.power.limit_type=min}", 1},
    {"GPU Power Readings/Max Power Limit", "gpu.power.limit{gpu.power.limit_type=max}", 1},
    {"Max Clocks/Graphics", "gpu.clock.max{gpu.clock.type=graphics}", 1},
    {"Max Clocks/SM", "gpu.clock.max{gpu.clock.type=sm}", 1},
    {"Max Clocks/Memory", "gpu.clock.max{gpu.clock.type=memory}", 1},
    {"Max Clocks/Video", "gpu.clock.max{gpu.clock.type=video}", 1},
    {"Clocks/Graphics", "gpu.clock.frequency{gpu.clock.type=graphics}", 1},
    {"Clocks/Memory", "gpu.clock.frequency{gpu.clock.type=memory}", 1},
    {"Remapped Rows/Bank Remap Availability Histogram/Max",
     "gpu.row_remap.banks{gpu.row_remap.availability=max}", 1},
    {"Remapped Rows/Bank Remap Availability Histogram/None",
     "gpu.row_remap.banks{gpu.row_remap.availability=none}", 1},
    {"Remapped Rows/Uncorrectable Error", "gpu.row_remap.count{gpu.ecc.error_type=uncorrectable}", 1},
    {"Encoder Stats/Active Sessions", "gpu.encoder.sessions", 1},
    {"PCI/Replay Number Rollovers", "gpu.pcie.errors{gpu.pcie.error_type=replay_rollover}", 1},
    {"PCI/GPU Link Info/PCIe Generation/Max", "gpu.pcie.link.gen.max", 1},
    {"PCI/GPU Link Info/Link Width/Max", "gpu.pcie.link.width.max", 1},
};
// Values that the board does not support.
constexpr std::pair<const char*, const char*> kAbsent[] = {
    {"Fan Speed", "gpu.fan.speed"},
    {"Module Power Readings/Average Power Draw", "gpu.module.power"},
    {"Retired Pages/Single Bit ECC", "gpu.retired_pages{gpu.ecc.error_type=correctable}"},
    {"Temperature/GPU Target Temperature",
     "gpu.temperature.limit{gpu.temperature.limit_type=target,gpu.temperature.sensor=edge}"},
    {"Platform Info/Slot Number", "gpu.platform.info"},
    {"Fabric/Health/Bandwidth", "gpu.fabric.degraded{gpu.fabric.condition=bandwidth}"},
};

TEST(BoardCapture, OfAnH100) {
  auto text = ReadFile(kCapture, 16 << 20);
  if (!text) GTEST_SKIP() << "captures not here: " << kCapture;
  Listing printed = ListingOf(*text);
  GpuFixture fixture("model: H100\ngpus: 1\nload: {kind: idle}\n", {});
  for (int i = 0; i < 3; ++i) fixture.Run();
  for (auto [theirs, ours, per] : kPairs) {
    auto found = printed.find(kGpu + theirs);
    ASSERT_NE(found, printed.end()) << theirs;
    std::string_view number = found->second;
    number = number.substr(0, number.find_first_not_of("-0123456789."));
    EXPECT_DOUBLE_EQ(fixture.Value(ours), ParseDouble(number).value_or(std::nan("")) * per) << theirs;
  }
  for (auto [theirs, ours] : kAbsent) {
    auto found = printed.find(kGpu + theirs);
    ASSERT_NE(found, printed.end()) << theirs;
    EXPECT_EQ(found->second, "N/A") << theirs;
    EXPECT_FALSE(fixture.Has(ours)) << ours;
  }
}

}  // namespace
}  // namespace gpulens::nvidia
