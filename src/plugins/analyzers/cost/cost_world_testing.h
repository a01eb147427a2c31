// The analyzer with GPUs of the simulated NVML, over simulated time.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/parse.h"
#include "base/testing/temp_folder.h"
#include "catalog/ledger.h"
#include "plugins/agent_stats.h"
#include "plugins/analyzers/cost/cost_testing.h"
#include "plugins/plugin.h"
#include "sources/nvml/simulated/fake_world.h"
#include "store/ledger/ledger_file.h"

namespace gpulens {

extern const AnalyzerSpec cost_analyzer;

namespace cost {

// The defaults of the analyzer's options, as the loader makes them, and what a test sets.
inline Config CostConfig(const std::map<std::string, Config::Value>& given = {}) {
  Config config;
  for (const OptionSpec& option : cost_analyzer.options) {
    const std::string_view text = option.fallback;
    std::string_view number = text.substr(0, text.find_first_not_of("0123456789."));
    const double value = ParseDouble(number).value_or(0);
    if (auto at = given.find(std::string(option.key)); at != given.end()) {
      config.Set(option.key, at->second, {});
      continue;
    }
    switch (option.type) {
      case OptionType::kBool: config.Set(option.key, text == "true", {}); break;
      case OptionType::kInt: config.Set(option.key, static_cast<int64_t>(value), {}); break;
      case OptionType::kDouble: config.Set(option.key, value, {}); break;
      case OptionType::kTime: {
        const double unit = text.ends_with('h') ? 3600 : text.ends_with('m') ? 60 : 1;
        config.Set(option.key, Duration(static_cast<int64_t>(value * unit * 1e9)), {});
        break;
      }
      case OptionType::kTexts:
        config.Set(option.key, std::vector<std::string>{"tenant", "k8s.namespace.name", "process.owner"}, {});
        break;
      case OptionType::kTextMap: config.Set(option.key, std::map<std::string, std::string>(), {}); break;
      default: config.Set(option.key, std::string(text), {});
    }
  }
  return config;
}

// One machine. Ticks are one second apart. Not thread-safe.
class CostWorld {
 public:
  CostWorld(const std::string& profile, std::string state_dir) {
    Status status = MakeFoldersAbove(folder_.path() + "/proc/sys/kernel/random/boot_id");
    EXPECT_TRUE(status.ok()) << status.detail;
    folder_.Write("proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n");
    env_.root = folder_.path();
    env_.state_dir = std::move(state_dir);
    env_.clock = &clock_;
    env_.stats = &stats_;
    status = nvml::FakeWorld::Get().Use(profile, &clock_);
    EXPECT_TRUE(status.ok()) << status.detail;
    EXPECT_EQ(nvml::FakeWorld::Get().Open(), 0);
    const unsigned count = nvml::FakeWorld::Get().Count();
    for (unsigned i = 0; i < count; ++i) gpus_.push_back(TestGpu(i));
    first_.resize(count);
    last_.resize(count);
  }

  // Of the next analyzer.
  void Set(const std::string& option, Config::Value value) { options_[option] = std::move(value); }
  // Makes an analyzer; the one before goes on until it is ended.
  void Begin() {
    auto made = cost_analyzer.create(CostConfig(options_), env_);
    ASSERT_TRUE(made.ok()) << made.error().detail;
    before_ = std::move(analyzer_);
    analyzer_ = std::move(*made);
    table_ = std::make_unique<SeriesTable>();
    out_ = std::make_unique<FrameWriter>(*table_, std::chrono::seconds(10));
  }
  void EndOld() { before_.reset(); }
  // Ends it as the agent does.
  void End() { analyzer_.reset(); }
  void Wait(Duration time) { clock_.Advance(time); }

  // Attributes of a process by its pid, and its parents; before it is first seen.
  void Describe(unsigned pid, const AttributeSet& attributes, std::string parents = {}) {
    described_[pid] = {attributes, std::move(parents)};
  }
  void Add(TestSource& source) { more_.push_back(&source); }

  // Lets a second pass and reads the GPUs, without the analyzer.
  void ReadGpus() {
    clock_.Advance(std::chrono::seconds(1));
    SetGpus();
  }
  void Tick() {
    ReadGpus();
    nvidia_.Run(clock_.Now());
    snapshot_.closed_at = clock_.Now();
    snapshot_.frames.assign(1, nvidia_.entry());
    for (TestSource* source : more_) {
      source->Run(clock_.Now());
      snapshot_.frames.push_back(source->entry());
    }
    Analyze();
  }
  void Analyze() {
    out_->Begin(clock_.Now());
    const Status status = analyzer_->Analyze(snapshot_, *out_);
    EXPECT_TRUE(status.ok()) << status.detail;
    frame_ = out_->Finish();
  }
  void Run(int ticks) {
    for (int i = 0; i < ticks; ++i) Tick();
  }

  Instant now() const { return clock_.Now(); }
  size_t gpus() const { return gpus_.size(); }
  const EntityRef& gpu(size_t i) const { return gpus_[i]; }
  // Growth of the counter since the first tick, or since `since`.
  int64_t Growth(size_t gpu) const { return last_[gpu] - *first_[gpu]; }
  int64_t Counter(size_t gpu) const { return last_[gpu]; }
  const FrameWriter& writer() const { return *out_; }

  // Sum of the fresh values of the family with these attributes.
  double Sum(const MetricDesc& desc, std::initializer_list<AttributeSet::Attribute> attributes = {}) const {
    double out = 0;
    for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame_->layout)[slot];
      if (info.desc != &desc || frame_->quality[slot] != Quality::kOk) continue;
      bool fits = true;
      for (const auto& [key, value] : attributes)
        fits = fits && info.attributes.Has(key) && info.attributes.Find(key, value) == value;
      const Cell cell = frame_->cells[info.first_cell];
      if (fits) out += desc.number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
    }
    return out;
  }
  // Sums in the file, by the texts of the dimensions.
  std::map<std::vector<std::string>, ledger::Totals> InFile(std::vector<ledger::Dimension> by) const {
    std::map<std::vector<std::string>, ledger::Totals> out;
    auto file = ledger::LedgerFile::Open({.path = env_.state_dir + "/ledger.db", .read_only = true});
    EXPECT_TRUE(file.ok()) << file.status().detail;
    if (!file) return out;
    auto rows = (*file)->Sum({.by = std::move(by), .where = {}});
    EXPECT_TRUE(rows.ok()) << rows.status().detail;
    if (rows)
      for (const ledger::SumRow& row : *rows) out[row.key] = row.sums;
    return out;
  }

 private:
  void SetGpus() {
    using namespace std::string_view_literals;
    const AttributeSet compute({{"gpu.task.type", "compute"sv}}), ok({{"gpu.state", "ok"sv}});
    std::map<std::pair<size_t, unsigned>, EntityRef> seen;
    for (unsigned i = 0; i < gpus_.size(); ++i) {
      nvml::FakeView view;
      ASSERT_TRUE(nvml::FakeWorld::Get().View(i, view));
      const uint64_t mj = view.flows[static_cast<size_t>(nvml::FakeFlow::kEnergyMillijoules)];
      last_[i] = static_cast<int64_t>(mj) * 1000;
      if (!first_[i]) first_[i] = last_[i];
      nvidia_.Set(gpus_[i], kGpuState, ok, 1);
      nvidia_.Set(gpus_[i], kGpuEnergyConsumption, static_cast<double>(mj) / 1000);
      nvidia_.Set(gpus_[i], kGpuPowerDraw, view.power_mw / 1000.0);
      nvidia_.Set(gpus_[i], kGpuUtilization, compute, view.utilization / 100.0);
      nvidia_.Set(gpus_[i], kGpuProcesses, static_cast<double>(view.processes.size()));
      for (const nvml::GpuProcess& one : view.processes) {
        EntityRef& process = processes_[{i, one.pid}];
        const auto& [attributes, parents] = described_[one.pid];
        if (!process) process = TestProcess(gpus_[i], one.pid, attributes, parents, 5);
        nvidia_.Set(process, kGpuProcessMemoryUsed, static_cast<double>(one.memory_used));
        seen[{i, one.pid}] = process;
      }
    }
    std::erase_if(processes_, [&](const auto& process) {
      if (seen.contains(process.first)) return false;
      nvidia_.Retire(process.second);
      return true;
    });
  }

  testing::TempFolder folder_;
  ManualClock clock_{{.boot_ns = 1'000'000'000'000, .unix_ns = 1'700'000'000'000'000'000}};
  AgentStats stats_;
  Env env_;
  std::map<std::string, Config::Value> options_;
  TestSource nvidia_{"nvidia"};
  std::vector<TestSource*> more_;
  std::vector<EntityRef> gpus_;
  std::map<std::pair<size_t, unsigned>, EntityRef> processes_;
  std::map<unsigned, std::pair<AttributeSet, std::string>> described_;
  std::vector<std::optional<int64_t>> first_;
  std::vector<int64_t> last_;
  Snapshot snapshot_;
  std::unique_ptr<Analyzer> analyzer_, before_;
  std::unique_ptr<SeriesTable> table_;
  std::unique_ptr<FrameWriter> out_;
  Ref<const Frame> frame_;
};

}  // namespace cost
}  // namespace gpulens
