// Feeds the collector with the output of nvidia-smi of real machines in place of their driver: one golden
// list of names and numbers for each board.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <vector>

#include "base/files.h"
#include "base/parse.h"
#include "plugins/collectors/nvidia/gpu_fixture_for_test.h"
#include "plugins/collectors/nvidia/gpu_series.h"

namespace gpulens::nvidia {
namespace {

using nvml::Field;
using std::chrono::seconds;

const std::string kCaptures = GPULENS_SOURCE_DIR "/../shared/fixtures/nvidia-smi-xml/";
const std::string kGoldenCaptures = GPULENS_SOURCE_DIR "/src/plugins/collectors/nvidia/testdata/captures/";

using Listing = std::map<std::string, std::string>;

// The texts of the first GPU by the names of their elements: "fb_memory_usage/total". The first of a name
// counts.
Listing FirstGpu(std::string_view xml) {
  Listing out;
  xml = xml.substr(std::min(xml.size(), xml.find("<gpu id=")));
  xml = xml.substr(0, xml.find("</gpu>"));
  TakeUntil(xml, '>');
  std::vector<std::string> path;
  while (!xml.empty()) {
    std::string text(Trim(TakeUntil(xml, '<')));
    std::string_view tag = TakeUntil(xml, '>');
    std::string whole;
    for (const std::string& part : path) whole += (whole.empty() ? "" : "/") + part;
    if (!text.empty() && !path.empty()) out.emplace(whole, text);
    if (tag.starts_with('/')) {
      if (!path.empty()) path.pop_back();
    } else if (!tag.ends_with('/')) {
      path.emplace_back(tag.substr(0, tag.find(' ')));
    }
  }
  return out;
}

struct Row {
  const char* path;
  Field field;
  double times = 1;  // The driver's unit in one of the tool's.
};
constexpr Row kRows[] = {
    {"utilization/gpu_util", Field::kUtilizationGpu},
    {"utilization/memory_util", Field::kUtilizationMemory},
    {"utilization/encoder_util", Field::kUtilizationEncoder},
    {"utilization/decoder_util", Field::kUtilizationDecoder},
    {"utilization/jpeg_util", Field::kUtilizationJpeg},
    {"utilization/ofa_util", Field::kUtilizationOfa},
    {"fb_memory_usage/total", Field::kMemoryTotal, kMib},
    {"fb_memory_usage/used", Field::kMemoryUsed, kMib},
    {"fb_memory_usage/free", Field::kMemoryFree, kMib},
    {"fb_memory_usage/reserved", Field::kMemoryReserved, kMib},
    {"bar1_memory_usage/total", Field::kBar1Total, kMib},
    {"bar1_memory_usage/used", Field::kBar1Used, kMib},
    {"temperature/gpu_temp", Field::kTemperature},
    {"temperature/memory_temp", Field::kTemperatureMemory},
    {"temperature/gpu_temp_max_threshold", Field::kTemperatureShutdown},
    {"temperature/gpu_temp_slow_threshold", Field::kTemperatureSlowdown},
    {"temperature/gpu_temp_max_gpu_threshold", Field::kTemperatureGpuMax},
    {"temperature/gpu_temp_max_mem_threshold", Field::kTemperatureMemoryMax},
    {"power_readings/power_draw", Field::kPower, 1000},
    {"gpu_power_readings/power_draw", Field::kPower, 1000},
    {"gpu_power_readings/average_power_draw", Field::kPower, 1000},
    {"gpu_power_readings/instant_power_draw", Field::kPowerInstant, 1000},
    {"power_readings/enforced_power_limit", Field::kPowerLimitEnforced, 1000},
    {"gpu_power_readings/current_power_limit", Field::kPowerLimitEnforced, 1000},
    {"power_readings/default_power_limit", Field::kPowerLimitDefault, 1000},
    {"gpu_power_readings/default_power_limit", Field::kPowerLimitDefault, 1000},
    {"power_readings/min_power_limit", Field::kPowerLimitMin, 1000},
    {"gpu_power_readings/min_power_limit", Field::kPowerLimitMin, 1000},
    {"power_readings/max_power_limit", Field::kPowerLimitMax, 1000},
    {"gpu_power_readings/max_power_limit", Field::kPowerLimitMax, 1000},
    {"clocks/graphics_clock", Field::kClockGraphics},
    {"clocks/sm_clock", Field::kClockSm},
    {"clocks/mem_clock", Field::kClockMemory},
    {"clocks/video_clock", Field::kClockVideo},
    {"max_clocks/graphics_clock", Field::kClockMaxGraphics},
    {"max_clocks/sm_clock", Field::kClockMaxSm},
    {"max_clocks/mem_clock", Field::kClockMaxMemory},
    {"max_clocks/video_clock", Field::kClockMaxVideo},
    {"fan_speed", Field::kFanSpeedMax},
    {"performance_state", Field::kPerformanceState},
    {"pci/pci_gpu_link_info/pcie_gen/max_link_gen", Field::kPcieMaxLinkGen},
    {"pci/pci_gpu_link_info/pcie_gen/current_link_gen", Field::kPcieLinkGen},
    {"pci/pci_gpu_link_info/link_widths/max_link_width", Field::kPcieMaxLinkWidth},
    {"pci/pci_gpu_link_info/link_widths/current_link_width", Field::kPcieLinkWidth},
    {"pci/replay_counter", Field::kPcieReplay},
    {"pci/tx_util", Field::kPcieTxRate},
    {"pci/rx_util", Field::kPcieRxRate},
    {"encoder_stats/session_count", Field::kEncoderSessions},
    {"fbc_stats/session_count", Field::kFbcSessions},
    {"remapped_rows/remapped_row_corr", Field::kRemappedCorrectable},
    {"remapped_rows/remapped_row_unc", Field::kRemappedUncorrectable},
    {"remapped_rows/remapped_row_pending", Field::kRemapPending},
    {"remapped_rows/remapped_row_failure", Field::kRemapFailure},
    {"remapped_rows/row_remapper_histogram/row_remapper_histogram_max", Field::kRemapBanksMax},
    {"remapped_rows/row_remapper_histogram/row_remapper_histogram_none", Field::kRemapBanksNone},
    {"retired_pages/multiple_single_bit_retirement/retired_count", Field::kRetiredSingleBit},
    {"retired_pages/double_bit_retirement/retired_count", Field::kRetiredDoubleBit},
    {"persistence_mode", Field::kPersistenceMode},
};

// "16x", "P8", "450.00 W", "Yes", "640 bank(s)"; nothing for "N/A" and its like.
std::optional<double> NumberOf(std::string_view text) {
  if (text == "Yes" || text == "Enabled") return 1;
  if (text == "No" || text == "Disabled") return 0;
  if (text.starts_with('P')) text.remove_prefix(1);
  return ParseDouble(text.substr(0, text.find_first_not_of("-0123456789.")));
}

class SmiCapture : public testing::TestWithParam<const char*> {};

// With GPULENS_WRITE_GOLDEN set the lists are written; read the difference before it is committed.
TEST_P(SmiCapture, MatchesTheOutputOfTheTool) {
  std::string name = GetParam();
  auto xml = ReadFile(kCaptures + name + ".xml", 4 << 20);
  if (!xml) GTEST_SKIP() << "captures not here: " << kCaptures;
  Listing printed = FirstGpu(*xml);
  ManualClock clock{{.boot_ns = 1'000'000'000'000, .unix_ns = 1'700'000'000'000'000'000}};
  nvml::Gpu gpu;
  gpu.state = nvml::GpuState::kOk;
  gpu.facts = {{"uuid", "GPU-1"}, {"name", printed["product_name"]}};
  gpu.identity_version = 1;
  gpu.last_read_boot_ns = clock.Now().boot_ns;
  size_t known = 0;
  for (const Row& row : kRows) {
    auto found = printed.find(row.path);
    auto number = found == printed.end() ? std::nullopt : NumberOf(found->second);
    if (!number) continue;
    ++known;
    gpu.fields[static_cast<size_t>(row.field)] = {nvml::ReadStatus::kOk, clock.Now().boot_ns,
                                                  std::llround(*number * row.times)};
  }
  EXPECT_GE(known, 15u) << name;

  SeriesTable table;
  FrameWriter writer(table, seconds(10));
  GpuSeries series(GpuSeries::Options{.details = true});
  FieldMaxAge max_age;
  max_age.ns.fill(Duration(seconds(60)).count());
  writer.Begin(clock.Now());
  series.Update(gpu, max_age, clock.Now(), writer);
  Ref<const Frame> frame = writer.Finish();
  std::vector<std::string> lines;
  for (uint32_t slot = 0; slot < frame->layout->slots(); ++slot) {
    const SeriesInfo& info = (*frame->layout)[slot];
    if (!info.desc || frame->quality[slot] != Quality::kOk || info.desc->kind == Kind::kStateSet) continue;
    std::string line(info.desc->name);
    for (auto [key, value] : info.attributes) {
      if (key == "gpu.index" || key == "gpu.uuid") continue;
      if (key == "gpu.model" && info.desc != &kGpuInfo) continue;
      line += " " + std::string(key) + "=";
      AppendValue(line, value);
    }
    Cell cell = frame->cells[info.first_cell];
    char number[40];
    std::snprintf(number, sizeof number, " %.15g",
                  info.desc->number == Number::kInt ? static_cast<double>(cell.i) : cell.d);
    lines.push_back(line + number);
  }
  std::sort(lines.begin(), lines.end());
  std::string page;
  for (const std::string& line : lines) page += line + '\n';
  std::string path = kGoldenCaptures + name + ".txt";
  if (std::getenv("GPULENS_WRITE_GOLDEN")) std::ofstream(path) << page;
  EXPECT_EQ(page, ReadFile(path).value_or("missing"));
  EXPECT_EQ(writer.counts().rejected, decltype(writer.counts().rejected){})
      << "what a board says is believable";
}

INSTANTIATE_TEST_SUITE_P(Boards, SmiCapture,
                         testing::Values("telegraf_a100-sxm4-v12", "telegraf_gtx-1070-ti",
                                         "telegraf_gtx-1660-ti", "telegraf_quadro-p2000-v12",
                                         "telegraf_quadro-p400", "telegraf_rtx-3060-v12",
                                         "telegraf_rtx-3080-v12", "telegraf_rtx-3080-v13",
                                         "telegraf_rtx-4000-sff-ada-v13", "telegraf_tesla-t4"),
                         [](const auto& test) {
                           std::string text = test.param;
                           std::replace(text.begin(), text.end(), '-', '_');
                           return text;
                         });

}  // namespace
}  // namespace gpulens::nvidia
