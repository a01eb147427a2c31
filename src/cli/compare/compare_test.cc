#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/files.h"
#include "cli/compare/comparison.h"
#include "cli/compare/tools/tool_output.h"

namespace gpulens::compare {
namespace {

using ::testing::HasSubstr;

const std::string kHere = GPULENS_SOURCE_DIR "/src/cli/compare/testdata/";
const std::string kCaptures = GPULENS_SOURCE_DIR "/../shared/fixtures/nvidia-smi-xml/";
const std::string kGaudiCapture = GPULENS_SOURCE_DIR "/../shared/fixtures/gaudi/hl-smi_query_gaudi3.csv";

TEST(Xml, ElementsAttributesAndEntities) {
  auto root = ParseXml(
      "<?xml version=\"1.0\" ?>\n<!DOCTYPE a SYSTEM \"a.dtd\">\n<!-- c --><a x='1&amp;2'>\n<b/>"
      "<c>&lt;&#65;&#x42;&gt;</c> t\n</a>\n");
  ASSERT_TRUE(root.ok()) << root.error().detail;
  EXPECT_EQ(root->attributes.at(0).second, "1&2");
  EXPECT_EQ(root->text, "t");
  ASSERT_EQ(root->children.size(), 2u);
  EXPECT_EQ(root->ChildText("c"), "<AB>");
  EXPECT_EQ(root->Child("d"), nullptr);
}

TEST(Xml, BadInputsAreRefusedWithTheLine) {
  size_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator(kHere + "bad")) {
    auto text = ReadFile(file.path().string());
    ASSERT_TRUE(text.ok());
    auto fields = ReadNvidiaSmi(*text);
    ++count;
    EXPECT_FALSE(fields.ok()) << file.path();
    if (!fields.ok()) {
      EXPECT_EQ(fields.error().code, Code::kDataLoss) << file.path();
    }
  }
  EXPECT_GE(count, 15u);
  auto bomb = ReadFile(kHere + "bad/entity_bomb.xml");
  ASSERT_TRUE(bomb.ok());
  EXPECT_THAT(ParseXml(*bomb).error().detail, HasSubstr("line 2: the document type has declarations"));
}

TEST(Xml, DepthElementsNamesAndBytesHaveLimits) {
  auto nested = [](size_t depth) {
    std::string text;
    for (size_t i = 0; i < depth; ++i) text += "<a>";
    for (size_t i = 0; i < depth; ++i) text += "</a>";
    return ParseXml(text);
  };
  EXPECT_TRUE(nested(kMostXmlDepth).ok());
  EXPECT_EQ(nested(kMostXmlDepth + 1).error().code, Code::kExhausted);
  EXPECT_EQ(nested(1'000'000).error().code, Code::kExhausted);
  std::string wide = "<a>";
  for (size_t i = 0; i < kMostXmlElements; ++i) wide += "<b/>";
  EXPECT_EQ(ParseXml(wide + "</a>").error().code, Code::kExhausted);
  std::string name(kMostXmlNameBytes + 1, 'n');
  EXPECT_EQ(ParseXml("<" + name + "/>").error().code, Code::kExhausted);
  EXPECT_EQ(ParseXml("<a>" + std::string(kMostXmlBytes, ' ') + "</a>").error().code, Code::kExhausted);
}

TEST(ToolNumbers, UnitsAndTheLastPrintedPlace) {
  auto number = ParseToolNumber("53.20 W");
  ASSERT_TRUE(number);
  EXPECT_DOUBLE_EQ(number->value, 53.2);
  EXPECT_DOUBLE_EQ(number->last_place, 0.01);
  EXPECT_DOUBLE_EQ(ParseToolNumber("45 %")->value, 0.45);
  EXPECT_DOUBLE_EQ(ParseToolNumber("100.00%")->value, 1);
  EXPECT_DOUBLE_EQ(ParseToolNumber("12 MiB")->value, 12.0 * (1 << 20));
  EXPECT_DOUBLE_EQ(ParseToolNumber("16x")->value, 16);
  EXPECT_DOUBLE_EQ(ParseToolNumber("-8 C")->value, -8);
  EXPECT_DOUBLE_EQ(ParseToolNumber("P8")->value, 8);
  EXPECT_EQ(ParseToolNumber("96 bank(s)")->last_place, 0);
  for (const char* text : {"N/A", "", "None", "12 furlongs", "1e400", "--", "P", "Px"})
    EXPECT_FALSE(ParseToolNumber(text)) << text;
  EXPECT_TRUE(IsNoValueText(" Requested functionality has been deprecated "));
  EXPECT_FALSE(IsNoValueText("0"));
}

TEST(Tools, FoundByNameAndOutput) {
  EXPECT_EQ(ToolNamed("/opt/bin/nvidia-smi")->kind, ToolKind::kNvidiaSmi);
  EXPECT_EQ(ToolNamed("amd-smi")->kind, ToolKind::kAmdSmi);
  EXPECT_EQ(ToolNamed("ls"), nullptr);
  EXPECT_EQ(ToolThatPrinted("\n<?xml")->kind, ToolKind::kNvidiaSmi);
  EXPECT_EQ(ToolThatPrinted(" [{}]")->kind, ToolKind::kAmdSmi);
  EXPECT_EQ(ToolThatPrinted("index, uuid\n0, x\n")->kind, ToolKind::kHlSmi);
  EXPECT_EQ(ToolThatPrinted("command not found"), nullptr);
}

TEST(Rows, AreWellFormed) {
  for (const VendorTool& tool : AllTools()) {
    for (size_t i = 0; i < tool.rows().size(); ++i) {
      const FieldRow& row = tool.rows()[i];
      EXPECT_EQ(row.how == FieldComparison::kNone, row.metric.empty()) << row.path;
      EXPECT_FALSE(row.how == FieldComparison::kNone && row.reason.empty()) << row.path;
      const bool tolerant = row.tolerance.slack > 0 || row.tolerance.share > 0;
      EXPECT_FALSE(tolerant && row.tolerance.why.empty()) << row.path;
      // Rows of one path are adjacent, or the later ones would never be found.
      if (i > 0 && tool.rows()[i - 1].path == row.path) continue;
      for (size_t j = 0; j < i; ++j) EXPECT_NE(tool.rows()[j].path, row.path);
    }
  }
}

// Every field in the captures has a row.
TEST(Captures, OfNvidiaSmiHaveNoUnknownField) {
  if (!std::filesystem::exists(kCaptures)) GTEST_SKIP() << "captures not here: " << kCaptures;
  size_t files = 0, most = 0;
  for (const auto& file : std::filesystem::directory_iterator(kCaptures)) {
    auto text = ReadFile(file.path().string(), kMostXmlBytes);
    ASSERT_TRUE(text.ok());
    auto fields = ReadNvidiaSmi(*text);
    ASSERT_TRUE(fields.ok()) << file.path() << fields.error().detail;
    ++files;
    std::set<std::string> paths;
    for (const ToolField& field : *fields) {
      paths.insert(field.path);
      std::span<const FieldRow> rows = RowsFor(NvidiaRows(), field.path);
      EXPECT_FALSE(rows.empty()) << file.path() << ": " << field.path;
      // A field that is compared as a number has a number or no value.
      const bool number =
          !rows.empty() && rows.front().how == FieldComparison::kNumber && !IsNoValueText(field.text);
      EXPECT_TRUE(!number || ParseToolNumber(field.text))
          << file.path() << ": " << field.path << ": " << field.text;
    }
    most = std::max(most, paths.size());
  }
  EXPECT_GE(files, 10u);
  EXPECT_GE(most, 150u);
}

TEST(Captures, OfHlSmiHaveNoUnknownField) {
  auto text = ReadFile(kGaudiCapture);
  if (!text.ok()) GTEST_SKIP() << "captures not here: " << kGaudiCapture;
  auto fields = ReadHlSmi(*text);
  ASSERT_TRUE(fields.ok()) << fields.error().detail;
  EXPECT_EQ(fields->size(), 22u);
  for (const ToolField& field : *fields) EXPECT_FALSE(RowsFor(GaudiRows(), field.path).empty()) << field.path;
}

TEST(NvidiaSmi, SubjectsOfPartsAndProcesses) {
  auto text = ReadFile(kHere + "tool_output_corpus/small.xml");
  ASSERT_TRUE(text.ok());
  auto fields = ReadNvidiaSmi(*text);
  ASSERT_TRUE(fields.ok());
  auto find = [&](std::string_view path) {
    auto at =
        std::find_if(fields->begin(), fields->end(), [&](const ToolField& f) { return f.path == path; });
    return at == fields->end() ? std::string("none") : at->subject + " " + at->text;
  };
  EXPECT_EQ(find("driver_version"), "machine 580.95.05");
  EXPECT_EQ(find("product_name"), "gpu:GPU-1 NVIDIA <H100> & more");
  EXPECT_EQ(find("mig_devices/mig_device/index"), "mig:GPU-1/3/0 0");
  EXPECT_EQ(find("processes/process_info/used_memory"), "process:GPU-1/42 5 MiB");
  EXPECT_EQ(find("ecc_errors/volatile/sram_uncorrectable"), "gpu:GPU-1 3");
  // Without a field for reserved memory, used memory includes it.
  EXPECT_EQ(find("fb_memory_usage/used"), "none");
  EXPECT_EQ(find("fb_memory_usage/used_with_reserved"), "gpu:GPU-1 1 MiB");
}

TEST(AmdSmi, ValuesWithUnitsAndLists) {
  auto text = ReadFile(kHere + "tool_output_corpus/amd.json");
  ASSERT_TRUE(text.ok());
  auto fields = ReadAmdSmi(*text);
  ASSERT_TRUE(fields.ok()) << fields.error().detail;
  std::string all;
  for (const ToolField& field : *fields) {
    EXPECT_FALSE(RowsFor(AmdRows(), field.path).empty()) << field.path;
    all += field.subject + " " + field.path + "=" + field.text + "\n";
  }
  EXPECT_THAT(all, HasSubstr("gpu:0 usage/gfx_activity=62 %\n"));
  EXPECT_THAT(all, HasSubstr("gpu:0 usage/vcn_activity/1=1 %\n"));
  EXPECT_THAT(all, HasSubstr("gpu:0 pcie/speed=2.5 GT/s\n"));
  EXPECT_FALSE(ReadAmdSmi("[{\"usage\":1}]").ok());
  EXPECT_FALSE(ReadAmdSmi("[]").ok());
  EXPECT_FALSE(ReadAmdSmi("nonsense").ok());
}

OwnValue Own(std::string metric, double value,
             std::vector<std::pair<std::string, std::string>> attributes = {}) {
  return {.metric = std::move(metric),
          .attributes = std::move(attributes),
          .value = value,
          .present = true,
          .absence = {},
          .kind = Kind::kGauge};
}

// Compares one field of a GPU with one series before and after.
ComparedField Validate(std::string path, std::string text, std::vector<OwnValue> before,
                       std::vector<OwnValue> after, bool recorded = false) {
  CompareInput input{.rows = NvidiaRows(),
                     .tool = {{"gpu:G", std::move(path), std::move(text)}},
                     .before = {},
                     .after = {},
                     .recorded = recorded};
  if (!before.empty()) input.before["gpu:G"] = std::move(before);
  if (!after.empty()) input.after["gpu:G"] = std::move(after);
  return Compare(input).fields.at(0);
}

TEST(Verdicts, OfNumbers) {
  constexpr double kMib = 1 << 20;
  auto total = [&](const char* text, double bytes) {
    return Validate("fb_memory_usage/total", text, {Own("gpu.memory.total", bytes)},
                    {Own("gpu.memory.total", bytes)});
  };
  EXPECT_EQ(total("81559 MiB", 81559 * kMib).verdict, FieldVerdict::kEqual);
  ComparedField rounded = total("81559 MiB", 81559.7 * kMib);
  EXPECT_EQ(rounded.verdict, FieldVerdict::kWithin);
  EXPECT_EQ(rounded.reason, "rounding of the tool");
  EXPECT_EQ(rounded.own, "81559.7 MiB");
  EXPECT_EQ(total("81561 MiB", 81559 * kMib).verdict, FieldVerdict::kUnexplained);
  EXPECT_EQ(total("many", 81559 * kMib).verdict, FieldVerdict::kUnexplained);

  auto heat = [&](const char* text, double before, double after, bool recorded = false) {
    std::vector<std::pair<std::string, std::string>> edge = {{"gpu.temperature.sensor", "edge"}};
    return Validate("temperature/gpu_temp", text, {Own("gpu.temperature", before, edge)},
                    {Own("gpu.temperature", after, edge)}, recorded);
  };
  EXPECT_EQ(heat("61 C", 60, 61).verdict, FieldVerdict::kEqual);
  EXPECT_EQ(heat("61 C", 60, 62).reason, "it changed between the two readings of gpulens");
  EXPECT_EQ(heat("64 C", 60, 62).verdict, FieldVerdict::kWithin);
  EXPECT_EQ(heat("70 C", 60, 62).verdict, FieldVerdict::kUnexplained);
  EXPECT_EQ(heat("70 C", 60, 62, true).verdict, FieldVerdict::kDiffers);
  // A constant must agree in a recording, too.
  EXPECT_EQ(Validate("max_clocks/sm_clock", "1980 MHz", {},
                     {Own("gpu.clock.max", 1900, {{"gpu.clock.type", "sm"}})}, true)
                .verdict,
            FieldVerdict::kUnexplained);
}

// A value of a small set agrees or not; it has no tolerance.
TEST(Verdicts, OfSteps) {
  auto state = [](const char* text, double before, double after) {
    return Validate("performance_state", text, {Own("gpu.power.state", before)},
                    {Own("gpu.power.state", after)});
  };
  EXPECT_EQ(state("P0", 0, 0).verdict, FieldVerdict::kEqual);
  EXPECT_EQ(state("P8", 0, 0).verdict, FieldVerdict::kUnexplained);
  EXPECT_EQ(state("P8", 0, 8).verdict, FieldVerdict::kEqual);
  EXPECT_EQ(state("P2", 0, 8).verdict, FieldVerdict::kWithin);
  EXPECT_EQ(state("P12", 0, 8).verdict, FieldVerdict::kUnexplained);
  auto generation = [](const char* text, double own) {
    return Validate("pci/pci_gpu_link_info/pcie_gen/current_link_gen", text, {},
                    {Own("gpu.pcie.link.gen.current", own)});
  };
  EXPECT_EQ(generation("5", 5).verdict, FieldVerdict::kEqual);
  EXPECT_EQ(generation("5", 1).verdict, FieldVerdict::kUnexplained);
  EXPECT_EQ(
      Validate("clocks_event_reasons/clocks_event_reason_gpu_idle", "Active", {}, {Own("gpu.clock.idle", 0)})
          .verdict,
      FieldVerdict::kUnexplained);
}

// A board reserves some hundred MiB of memory, which is found if one side counts them as used.
TEST(Verdicts, OfMemoryThatOneSideCountsAsUsed) {
  constexpr double kMib = 1 << 20;
  auto used = [&](double before, double after) {
    return Validate("fb_memory_usage/used", "53267 MiB", {Own("gpu.memory.used", before * kMib)},
                    {Own("gpu.memory.used", after * kMib)})
        .verdict;
  };
  EXPECT_EQ(used(53267 + 520, 53267 + 520), FieldVerdict::kUnexplained);
  EXPECT_EQ(used(53267 + 60, 53267 + 60), FieldVerdict::kWithin);
  EXPECT_EQ(used(53000, 54000), FieldVerdict::kWithin) << "it moved";
}

TEST(Verdicts, OfWordsStatesAndTexts) {
  auto one = [](const char* path, const char* text, OwnValue own) {
    return Validate(path, text, {}, {std::move(own)});
  };
  EXPECT_EQ(one("persistence_mode", "Enabled", Own("gpu.persistence.enabled", 1)).verdict,
            FieldVerdict::kEqual);
  EXPECT_EQ(one("persistence_mode", "Disabled", Own("gpu.persistence.enabled", 1)).verdict,
            FieldVerdict::kUnexplained);
  EXPECT_EQ(one("gpu_virtualization_mode/virtualization_mode", "Pass-Through",
                Own("gpu.virtualization.mode", 1, {{"gpu.virtualization.mode", "passthrough"}}))
                .verdict,
            FieldVerdict::kEqual);
  EXPECT_EQ(one("fabric/state", "Not Supported",
                Own("gpu.fabric.state", 1, {{"gpu.fabric.state", "not_supported"}}))
                .verdict,
            FieldVerdict::kEqual);
  EXPECT_EQ(
      one("fabric/state", "N/A", Own("gpu.fabric.state", 1, {{"gpu.fabric.state", "completed"}})).verdict,
      FieldVerdict::kUnexplained);
  EXPECT_EQ(one("compute_mode", "Prohibited", Own("gpu.compute_mode", 1, {{"gpu.compute_mode", "default"}}))
                .verdict,
            FieldVerdict::kUnexplained);
  EXPECT_EQ(
      one("pci/pci_bus_id", "00000000:1A:00.0", Own("gpu.info", 1, {{"gpu.pci.bus_id", "0000:1a:00.0"}}))
          .verdict,
      FieldVerdict::kEqual);
  EXPECT_EQ(
      one("product_architecture", "Ada Lovelace", Own("gpu.info", 1, {{"gpu.architecture", "ada"}})).verdict,
      FieldVerdict::kWithin);
  EXPECT_EQ(one("fabric/status", "Success", Own("gpu.fabric.status", 0)).verdict, FieldVerdict::kEqual);
  EXPECT_EQ(one("fabric/status", "Success", Own("gpu.fabric.status", 3)).verdict, FieldVerdict::kUnexplained);
}

TEST(Verdicts, OfMissingValues) {
  EXPECT_EQ(Validate("fan_speed", "N/A", {}, {}).verdict, FieldVerdict::kNeither);
  // gpulens may have made up a value that the vendor's tool does not have.
  EXPECT_EQ(Validate("fan_speed", "N/A", {}, {Own("gpu.fan.speed", 0)}).verdict, FieldVerdict::kUnexplained);
  EXPECT_EQ(Validate("fan_speed", "[ERR!]", {}, {Own("gpu.fan.speed", 0.3)}).verdict,
            FieldVerdict::kUnexplained);
  EXPECT_EQ(Validate("fan_speed", "GPU is lost", {}, {}).verdict, FieldVerdict::kNeither);
  ComparedField closed = Validate("fan_speed", "[Insufficient Permissions]", {}, {Own("gpu.fan.speed", 0.3)});
  EXPECT_EQ(closed.verdict, FieldVerdict::kToolSilent);
  EXPECT_EQ(closed.reason, "the tool has no permission to read it");
  ComparedField mean =
      Validate("module_power_readings/instant_power_draw", "N/A", {}, {Own("gpu.module.power", 9)});
  EXPECT_EQ(mean.verdict, FieldVerdict::kToolSilent);
  EXPECT_EQ(mean.reason, "gpulens exports the mean if the board has one");
  // A substitute reading does not contradict a tool without a value.
  constexpr const char* kInstant = "gpu_power_readings/instant_power_draw";
  EXPECT_EQ(Validate(kInstant, "N/A", {}, {Own("gpu.power.draw", 70)}).verdict, FieldVerdict::kNeither);
  EXPECT_EQ(Validate(kInstant, "70.00 W", {}, {Own("gpu.power.draw", 70)}).verdict, FieldVerdict::kEqual);
  EXPECT_EQ(Validate("fan_speed", "30 %", {}, {}).verdict, FieldVerdict::kUnexplained);
  EXPECT_EQ(Validate("encoder_stats/average_fps", "0", {}, {}).verdict, FieldVerdict::kOwnSilent);
  OwnValue rejected = Own("gpu.fan.speed", 0);
  rejected.present = false;
  rejected.absence = "out_of_range";
  ComparedField doubted = Validate("fan_speed", "30 %", {}, {rejected});
  EXPECT_EQ(doubted.verdict, FieldVerdict::kOwnSilent);
  EXPECT_THAT(doubted.reason, HasSubstr("out_of_range"));
  EXPECT_EQ(Validate("pdi", "0x1", {}, {}).verdict, FieldVerdict::kNotCompared);
  EXPECT_EQ(Validate("warp_drive/core_temp", "9000 C", {}, {}).verdict, FieldVerdict::kUnexplained);
}

TEST(Comparisons, MissingGpuIsUnexplained) {
  CompareInput input{.rows = NvidiaRows(),
                     .tool = {{"gpu:A", "max_clocks/sm_clock", "1980 MHz"}},
                     .before = {},
                     .after = {},
                     .recorded = false};
  input.after["gpu:B"] = {Own("gpu.clock.max", 1980, {{"gpu.clock.type", "sm"}})};
  EXPECT_EQ(Compare(input).Count(FieldVerdict::kUnexplained), 2u);
}

TEST(Comparisons, FurtherRunExplainsMovingValues) {
  auto look = [](const char* text) {
    CompareInput input{.rows = NvidiaRows(),
                       .tool = {{"gpu:A", "performance_state", text}, {"process:A/1", "x", "1"}},
                       .before = {},
                       .after = {},
                       .recorded = false};
    input.after["gpu:A"] = {Own("gpu.power.state", 0)};
    return Compare(input);
  };
  ToolComparison first = look("P99");
  EXPECT_EQ(first.Count(FieldVerdict::kUnexplained), 2u);
  MergeLook(first, look("P98"));
  EXPECT_EQ(first.Count(FieldVerdict::kUnexplained), 2u);
  ToolComparison good = look("P0");
  good.fields.pop_back();  // the process has ended
  MergeLook(first, good);
  EXPECT_EQ(first.Count(FieldVerdict::kUnexplained), 0u);
  EXPECT_EQ(first.fields[0].tool, "P0");
  EXPECT_EQ(first.fields[1].reason, "it had ended at the next comparison");
}

TEST(Comparisons, GpuMissingInFurtherRunIsUnexplained) {
  CompareInput input{.rows = NvidiaRows(),
                     .tool = {{"gpu:A", "max_clocks/sm_clock", "1980 MHz"}},
                     .before = {},
                     .after = {},
                     .recorded = false};
  ToolComparison first = Compare(input);
  ASSERT_EQ(first.Count(FieldVerdict::kUnexplained), 1u);
  MergeLook(first, {});
  EXPECT_EQ(first.Count(FieldVerdict::kUnexplained), 1u);
}

TEST(Reports, FitEightyColumnsAndAreSafeToPrint) {
  CompareInput input{.rows = NvidiaRows(), .tool = {}, .before = {}, .after = {}, .recorded = false};
  input.tool = {
      {"gpu:A", "clocks_event_reasons_counters/clocks_event_reasons_counters_hw_power_brake", "N/A"},
      {"gpu:A", "product_name", "a very long name of a product \x1b[31m"},
      {"gpu:A", "pdi", "0x1"},
      {"gpu:A", "pdi", "0x2"}};
  input.after["gpu:A"] = {Own("gpu.info", 1, {{"gpu.model", "another"}}), Own("gpu.energy.consumption", 5)};
  ToolComparison comparison = Compare(input);
  EXPECT_EQ(comparison.own_only, std::vector<std::string>{"gpu.energy.consumption"});
  std::string text =
      TextReport({.tool = "nvidia-smi", .where = "/x\x1b[1m", .looks = 2, .simulated = true}, comparison);
  EXPECT_EQ(text.find('\x1b'), text.npos);
  EXPECT_THAT(text, HasSubstr("SIMULATED"));
  EXPECT_THAT(text, HasSubstr("UNEXPLAINED"));
  EXPECT_THAT(text, HasSubstr("pdi ×2"));
  EXPECT_THAT(text, HasSubstr("3 comparisons of 3 fields"));
  EXPECT_THAT(text, HasSubstr("✖ 0 values agree, 0 differ"));
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    auto columns = std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; });
    EXPECT_LE(columns, 80) << line;
    begin = end + 1;
  }
  std::string json =
      JsonReport({.tool = "nvidia-smi", .where = "x", .looks = 1, .simulated = false}, comparison);
  EXPECT_THAT(json, HasSubstr("\"unexplained\":1"));
  EXPECT_THAT(json, HasSubstr("\"verdict\":\"unexplained\",\"reason\":\"the texts differ\""));
}

}  // namespace
}  // namespace gpulens::compare
