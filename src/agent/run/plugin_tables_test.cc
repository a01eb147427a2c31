// The contract that every plugin keeps, run over every row of the tables.

#include "agent/plugin_tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "agent/run/plan.h"
#include "base/files.h"
#include "base/testing/temp_folder.h"
#include "catalog/all.h"
#include "config/loader.h"

namespace gpulens {
namespace {

template <class Spec>
bool IsMade(const Spec& spec) {
  return spec.create != nullptr;
}
bool IsMade(const SinkSpec& spec) { return (spec.create != nullptr) != (spec.network != nullptr); }

template <class Specs>
void ExpectDescribed(Specs specs) {
  std::set<std::string_view> names;
  for (const auto* spec : specs) {
    EXPECT_TRUE(names.insert(spec->name).second) << spec->name << " stands twice";
    EXPECT_FALSE(spec->help.empty()) << spec->name;
    EXPECT_TRUE(spec->help.ends_with('.')) << spec->name << ": help is a sentence";
    EXPECT_TRUE(IsMade(*spec)) << spec->name;
    std::set<std::string_view> keys;
    for (const OptionSpec& option : spec->options) {
      EXPECT_TRUE(keys.insert(option.key).second) << spec->name << "." << option.key;
      EXPECT_FALSE(option.help.empty()) << spec->name << "." << option.key;
    }
  }
}

TEST(PluginTablesTest, EveryPluginDescribesItself) {
  ExpectDescribed(AllCollectors());
  ExpectDescribed(AllAnalyzers());
  ExpectDescribed(AllDiscoveries());
  ExpectDescribed(AllEnrichers());
  ExpectDescribed(AllSinks());
  ExpectDescribed(AllReceivers());
}

TEST(PluginTablesTest, PeriodicPluginsHaveAPeriod) {
  for (const CollectorSpec* spec : AllCollectors()) {
    EXPECT_GT(spec->period.count(), 0) << "collectors." << spec->name << ": .period, the default of interval";
    EXPECT_GE(spec->ttl, spec->period) << "collectors." << spec->name << ": .ttl, the default of ttl";
  }
  for (const EnricherSpec* spec : AllEnrichers()) {
    EXPECT_GT(spec->period.count(), 0) << "enrichers." << spec->name << ": .period";
    EXPECT_GT(spec->timeout.count(), 0) << "enrichers." << spec->name << ": .timeout";
  }
  for (const DiscoverySpec* spec : AllDiscoveries())
    EXPECT_GT(spec->period.count(), 0) << "discovery." << spec->name << ": .period";
}

TEST(PluginTablesTest, EveryMetricIsARowOfTheCatalogue) {
  auto known = AllMetrics();
  auto expect_known = [&](std::string_view plugin, std::span<const MetricDesc* const> metrics) {
    for (const MetricDesc* metric : metrics) {
      EXPECT_NE(std::ranges::find(known, metric), known.end()) << plugin << ": " << metric->name;
    }
  };
  for (const CollectorSpec* spec : AllCollectors()) expect_known(spec->name, spec->metrics);
  for (const AnalyzerSpec* spec : AllAnalyzers()) expect_known(spec->name, spec->metrics);
}

// Every series of the table is a row of the catalogue that the plugin lists.
void ExpectListed(const SeriesTable& table, std::string_view plugin,
                  std::span<const MetricDesc* const> listed) {
  const auto known = AllMetrics();
  for (uint32_t slot = 0; slot < table.slots(); ++slot) {
    const MetricDesc* desc = table.InfoAt(slot).desc;
    if (!desc || desc->naming == Naming::kVerbatim) continue;
    EXPECT_TRUE(std::ranges::find(known, desc) != known.end())
        << plugin << " writes " << desc->name << ", which is no row of catalog/all.cc";
    EXPECT_TRUE(std::ranges::find(listed, desc) != listed.end())
        << plugin << " writes " << desc->name << ", which is not among the .metrics of its spec";
  }
}

// The defaults of the whole configuration, over a root without /proc and /sys.
class EmptyMachine : public ::testing::Test {
 protected:
  EmptyMachine() {
    ConfigSources sources;
    sources.file_name = "test";
    sources.file_text = "collectors: {host: {root: " + root_ + "}}\n";
    LoadOutcome loaded = Load(*schema_, sources);
    EXPECT_TRUE(loaded.ok()) << loaded.Report();
    config_ = loaded.config;
    env_.root = root_;
  }
  const std::string root_ = GPULENS_SOURCE_DIR "/src/agent";
  std::unique_ptr<Schema> schema_ = MakeSchema();
  Config config_;
  Env env_;
};

TEST_F(EmptyMachine, CollectorsReportWhatIsMissing) {
  for (const CollectorSpec* spec : AllCollectors()) {
    for (Instance::Setup& setup : MakeInstances(*spec, config_)) {
      auto made = spec->create(setup.config, env_);
      if (!made) {
        EXPECT_FALSE(made.error().detail.empty()) << spec->name;
        continue;
      }
      SeriesTable table;
      FrameWriter writer(table, std::chrono::seconds(10));
      for (int run = 0; run < 2; ++run) {
        writer.Begin(env_.clock->Now());
        Status status = (*made)->Collect(writer);
        EXPECT_TRUE(status.ok() || !status.detail.empty()) << spec->name;
        EXPECT_TRUE(writer.Finish()) << spec->name;
        EXPECT_EQ(writer.counts().invalid, 0u) << spec->name << " writes to series it does not have";
        EXPECT_EQ(table.refused(SeriesRefusal::kDuplicate), 0u) << spec->name << " declares a series twice";
        ExpectListed(table, spec->name, spec->metrics);
      }
    }
  }
}

TEST_F(EmptyMachine, ProbesReportFindings) {
  for (const CollectorSpec* spec : AllCollectors()) {
    if (!spec->probe) continue;
    auto findings = spec->probe(PartOf(*spec, config_), env_);
    EXPECT_FALSE(findings.empty()) << spec->name;
    for (const Finding& finding : findings) {
      EXPECT_FALSE(finding.subject.empty()) << spec->name;
      bool explained = !finding.why.empty() || !finding.what.empty();
      EXPECT_TRUE(finding.kind == Finding::kFound || explained) << spec->name;
    }
  }
}

// nvidia-modprobe makes them, which is setuid: the agent, which gains no privileges, cannot.
TEST_F(EmptyMachine, DeviceNodesThatNothingMadeAreAFinding) {
  testing::TempFolder root;
  const std::string gpu = "/sys/bus/pci/devices/0000:1a:00.0/";
  for (const auto& [path, text] : std::initializer_list<std::pair<std::string, std::string>>{
           {gpu + "vendor", "0x10de\n"},
           {gpu + "class", "0x030200\n"},
           {"/proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue\n"},
           {"/run/systemd/system/mark", ""},
           {"/dev/nvidiactl", ""}}) {
    std::filesystem::create_directories(std::filesystem::path(root.path() + path).parent_path());
    ASSERT_TRUE(WriteFileAtomically(root.path() + path, text).ok());
  }
  env_.root = root.path();
  const CollectorSpec* nvidia = nullptr;
  for (const CollectorSpec* spec : AllCollectors()) nvidia = spec->name == "nvidia" ? spec : nvidia;
  ASSERT_NE(nvidia, nullptr);
  std::vector<Finding> findings = nvidia->probe(PartOf(*nvidia, config_), env_);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].kind, Finding::kNoPermission);
  EXPECT_NE(findings[0].why.find("nothing has made its device nodes"), std::string::npos) << findings[0].why;
  EXPECT_TRUE(findings[0].remedy.starts_with("sudo nvidia-modprobe -c=0")) << findings[0].remedy;
  ASSERT_TRUE(WriteFileAtomically(root.path() + "/dev/nvidia0", "").ok());
  findings = nvidia->probe(PartOf(*nvidia, config_), env_);
  EXPECT_EQ(findings[0].kind, Finding::kFound) << findings[0].why;
}

TEST_F(EmptyMachine, AttributesMatchTheirRow) {
  Env demo = env_;
  demo.demo = true;
  for (const CollectorSpec* spec : AllCollectors()) {
    for (Instance::Setup& setup : MakeInstances(*spec, config_)) {
      auto made = spec->create(setup.config, demo);
      if (!made) continue;
      SeriesTable table;
      FrameWriter writer(table, std::chrono::seconds(10));
      writer.Begin(env_.clock->Now());
      static_cast<void>((*made)->Collect(writer));
      ExpectListed(table, spec->name, spec->metrics);
      Ref<const Frame> frame = writer.Finish();
      for (uint32_t slot = 0; slot < frame->layout->slots(); ++slot) {
        const SeriesInfo& info = (*frame->layout)[slot];
        if (!info.desc || info.desc->naming == Naming::kVerbatim) continue;
        for (auto [key, value] : info.attributes) {
          const MetricDesc& desc = *info.desc;
          bool own = std::ranges::find(desc.keys, key) != desc.keys.end();
          bool of_entity = false;
          for (const Entity* entity = info.entity.get(); entity; entity = entity->parent.get()) {
            of_entity = of_entity || entity->attributes.Has(key);
          }
          EXPECT_TRUE(own || of_entity || key == "simulated") << desc.name << " has " << key;
        }
      }
    }
  }
}

TEST(PlanTest, DefaultsEnableAvailablePlugins) {
  std::unique_ptr<Schema> schema = MakeSchema();
  LoadOutcome loaded = Load(*schema, {});
  ASSERT_TRUE(loaded.ok()) << loaded.Report();
  PipelinePlan plan = MakePlan(loaded.config, {.demo = false, .host_name = "box"});
  EXPECT_EQ(plan.interval, Duration(std::chrono::seconds(1)));
  EXPECT_EQ(plan.resource.Text("host.name"), "box");
  std::set<std::string> names;
  for (const Instance::Setup& setup : plan.instances) {
    names.insert(setup.name);
    EXPECT_GT(setup.deadline.count(), 0) << setup.name;
    EXPECT_GE(setup.ttl, setup.period * 2) << setup.name;
  }
  EXPECT_TRUE(names.contains("host") && names.contains("nvidia") && names.contains("self"));
}

}  // namespace
}  // namespace gpulens
