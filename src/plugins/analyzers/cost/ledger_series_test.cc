#include "plugins/analyzers/cost/ledger_series.h"

#include <gtest/gtest.h>

#include "catalog/ledger.h"
#include "plugins/analyzers/cost/cost_testing.h"

namespace gpulens::cost {
namespace {

using namespace std::string_view_literals;
using ledger::ComputeState;
using ledger::EnergyState;
using ledger::Entry;
using ledger::Ledger;
using ledger::Method;
using std::chrono::minutes;
using std::chrono::seconds;

Entry EntryOf(EnergyState state, int64_t energy_uj, ledger::Owner owner = {},
              ComputeState compute = ComputeState::kUseful, int64_t time_ms = 0) {
  Entry out;
  out.window_unix_ms = 1'700'000'000'000;
  out.account.gpu = UuidOf(0);
  out.account.energy_state = state;
  out.account.compute_state = compute;
  out.account.owner = std::move(owner);
  out.amounts.energy_uj = energy_uj;
  out.amounts.time_ms = time_ms;
  return out;
}
Entry OfTenant(std::string tenant, int64_t joules) {
  ledger::Owner owner;
  owner.tenant = std::move(tenant);
  return EntryOf(EnergyState::kActive, joules * 1'000'000, std::move(owner));
}

class LedgerSeriesTest : public ::testing::Test {
 protected:
  LedgerSeriesTest() { Make(2); }
  void Make(size_t owners) {
    series_ = std::make_unique<LedgerSeries>(
        LedgerSeries::Options{.owners = owners, .start_unix_ns = 1, .host = host_},
        LedgerEntities{
            [this](std::string_view gpu) { return gpu == UuidOf(0) ? gpu_ : EntityRef(); },
            [this](std::string_view, int64_t pid, int64_t) { return pid == 41 ? process_ : EntityRef(); }});
  }
  void Write(std::vector<Entry> entries, std::vector<ledger::ProcessEnergy> processes = {},
             Duration after = seconds(10)) {
    clock_.Advance(after);
    Ledger::Closed closed;
    closed.entries = std::move(entries);
    closed.processes = std::move(processes);
    writer_.Begin(clock_.Now());
    series_->Take(closed, clock_.Now());
    series_->Write(clock_.Now(), writer_);
    frame_ = writer_.Finish();
  }
  // The only series of the family with these attributes; NaN: none.
  double Value(const MetricDesc& desc, std::initializer_list<AttributeSet::Attribute> attributes = {}) const {
    double out = std::nan("");
    for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame_->layout)[slot];
      if (info.desc != &desc || frame_->quality[slot] != Quality::kOk) continue;
      bool fits = true;
      for (const auto& [key, value] : attributes)
        fits = fits && info.attributes.Has(key) && info.attributes.Find(key, value) == value;
      if (!fits) continue;
      EXPECT_TRUE(std::isnan(out)) << desc.name << " has several";
      out = frame_->cells[info.first_cell].d;
    }
    return out;
  }
  double Tenant(std::string_view name) const {
    return Value(kEnergyLedgerOwner, {{"owner.kind", "tenant"sv}, {"owner", name}});
  }

  ManualClock clock_{{.boot_ns = 3'600'000'000'000, .unix_ns = 1'700'000'000'000'000'000}};
  EntityRef host_ = MakeRef<Entity>("host", AttributeSet());
  EntityRef gpu_ = TestGpu(0), process_ = TestProcess(gpu_, 41);
  SeriesTable table_;
  FrameWriter writer_{table_, seconds(10)};
  std::unique_ptr<LedgerSeries> series_;
  Ref<const Frame> frame_;
};

TEST_F(LedgerSeriesTest, StatesOfAGpuAddUp) {
  Write({EntryOf(EnergyState::kIdle, 1'000'000), EntryOf(EnergyState::kActive, 2'500'001),
         EntryOf(EnergyState::kUnobserved, 7)});
  Write({EntryOf(EnergyState::kIdle, 1'000'000)});
  EXPECT_DOUBLE_EQ(Value(kEnergyLedger, {{"state", "idle"sv}}), 2);
  EXPECT_DOUBLE_EQ(Value(kEnergyLedger, {{"state", "active"sv}}), 2.500001);
  EXPECT_DOUBLE_EQ(Value(kEnergyLedger, {{"state", "unobserved"sv}}), 0.000007);
  EXPECT_EQ(Value(kEnergyLedger, {{"state", "held"sv}}), 0) << "a state that did not occur";
  EXPECT_EQ(Value(kLedgerResidual), 0);
}

TEST_F(LedgerSeriesTest, CountersOfAGpuBeginAtZero) {
  series_->Begin(UuidOf(0));
  Write({});
  EXPECT_EQ(Value(kEnergyLedger, {{"state", "idle"sv}}), 0);
  EXPECT_EQ(Value(kGpuEnergyUnattributed), 0);
  EXPECT_TRUE(std::isnan(Value(kEffectiveCompute))) << "a state that did not occur";
}

TEST_F(LedgerSeriesTest, ACounterDoesNotFallWhenAWindowIsAdjusted) {
  Write({EntryOf(EnergyState::kActive, 10'000'000)});
  Write({EntryOf(EnergyState::kActive, -4'000'000), EntryOf(EnergyState::kHeld, 4'000'000)});
  EXPECT_EQ(Value(kEnergyLedger, {{"state", "active"sv}}), 10);
  Write({EntryOf(EnergyState::kActive, 5'000'000)});
  EXPECT_EQ(Value(kEnergyLedger, {{"state", "active"sv}}), 11) << "its sum";
}

TEST_F(LedgerSeriesTest, ProcessesAndTheRestAddUpToTheCounter) {
  Write({EntryOf(EnergyState::kActive, 9'000'000), EntryOf(EnergyState::kIdle, 1'000'000)},
        {{UuidOf(0), 41, 0, Method::kUtilization, 6'000'000}});
  EXPECT_EQ(Value(kGpuProcessEnergy, {{"process.pid", int64_t{41}}, {"gpu.energy.method", "utilization"sv}}),
            6);
  EXPECT_EQ(Value(kGpuEnergyUnattributed), 4);
}

TEST_F(LedgerSeriesTest, TheSeriesOfAProcessStaysForAWhileAfterItsEnd) {
  Write({}, {{UuidOf(0), 41, 0, Method::kMemory, 6'000'000}});
  process_ = {};
  Write({}, {{UuidOf(0), 41, 0, Method::kMemory, 1'000'000}}, minutes(1));
  EXPECT_EQ(Value(kGpuProcessEnergy), 7) << "its last window";
  Write({}, {}, minutes(2));
  EXPECT_TRUE(std::isnan(Value(kGpuProcessEnergy)));
}

TEST_F(LedgerSeriesTest, AGpuWithAnotherEntityKeepsItsTotals) {
  Write({EntryOf(EnergyState::kIdle, 1'000'000)}, {{UuidOf(0), 41, 0, Method::kMemory, 400'000}});
  gpu_ = TestGpu(0, AttributeSet({{"gpu.mig.enabled", true}}));
  process_ = TestProcess(gpu_, 41);
  Write({EntryOf(EnergyState::kIdle, 1'000'000)});
  EXPECT_EQ(Value(kEnergyLedger, {{"state", "idle"sv}, {"gpu.mig.enabled", true}}), 2);
  EXPECT_DOUBLE_EQ(Value(kGpuProcessEnergy), 0.4);
  gpu_ = {};
  Write({}, {}, minutes(3));
  EXPECT_TRUE(std::isnan(Value(kEnergyLedger, {{"state", "idle"sv}}))) << "it is gone";
}

TEST_F(LedgerSeriesTest, OwnersAreBoundedAndAddUp) {
  Write({OfTenant("a", 10), OfTenant("b", 5), OfTenant("c", 1), OfTenant("d", 1), OfTenant("", 3)});
  EXPECT_EQ(Tenant("a"), 10);
  EXPECT_EQ(Tenant("b"), 5);
  EXPECT_TRUE(std::isnan(Tenant("c")));
  EXPECT_EQ(Tenant("(other)"), 2);
  EXPECT_EQ(Tenant("(none)"), 3) << "without a tenant";
}

TEST_F(LedgerSeriesTest, AnOwnerWithClearlyMoreEnergyGetsTheSeries) {
  Write({OfTenant("a", 10), OfTenant("b", 5), OfTenant("c", 9)});
  EXPECT_TRUE(std::isnan(Tenant("c"))) << "not twice as much";
  Write({OfTenant("c", 3)});
  EXPECT_TRUE(std::isnan(Tenant("b")));
  EXPECT_EQ(Tenant("(other)"), 9 + 3 + 5) << "what b had, and what c had before";
  Write({OfTenant("c", 4), OfTenant("b", 1)});
  EXPECT_EQ(Tenant("c"), 4);
  EXPECT_EQ(Tenant("(other)"), 18);
  EXPECT_EQ(Tenant("a") + Tenant("c") + Tenant("(other)"), 32) << "all energy";
}

TEST_F(LedgerSeriesTest, ManyOwnersAreForgottenAfterHours) {
  for (int i = 0; i < 3000; ++i) Write({OfTenant("t" + std::to_string(i), 1)}, {}, seconds(1));
  double all = 0;
  size_t series = 0;
  for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
    const SeriesInfo& info = (*frame_->layout)[slot];
    if (info.desc != &kEnergyLedgerOwner || info.attributes.Text("owner.kind") != "tenant") continue;
    all += frame_->cells[info.first_cell].d;
    ++series;
  }
  EXPECT_EQ(all, 3000);
  EXPECT_LE(series, 3u);
}

TEST_F(LedgerSeriesTest, MoneyHasSeriesOnceThereIsAPrice) {
  ledger::Owner owner;
  owner.name_space = "ml";
  owner.pod = "llama-0";
  Entry entry = EntryOf(EnergyState::kActive, 1, owner);
  Write({entry});
  EXPECT_TRUE(std::isnan(Value(kCostLedgerOwner, {{"owner.kind", "pod"sv}, {"cost.basis", "usage"sv}})));
  entry.amounts.priced_ms = 10'000;
  entry.amounts.cost_allocation_pico = 2'000'000'000'000;
  entry.amounts.cost_usage_pico = 500'000'000'000;
  Write({entry});
  EXPECT_EQ(Value(kCostLedgerOwner, {{"owner", "ml/llama-0"sv}, {"cost.basis", "usage"sv}}), 0.5);
  EXPECT_EQ(Value(kCostLedgerOwner, {{"owner", "ml/llama-0"sv}, {"cost.basis", "allocation"sv}}), 2);
}

TEST_F(LedgerSeriesTest, TimeByStateAndItsRatios) {
  Write({EntryOf(EnergyState::kIdle, 0, {}, ComputeState::kUnallocated, 4000),
         EntryOf(EnergyState::kHeld, 0, {}, ComputeState::kAllocatedUnheld, 1000),
         EntryOf(EnergyState::kHeld, 0, {}, ComputeState::kHeldIdle, 1000),
         EntryOf(EnergyState::kActive, 0, {}, ComputeState::kActiveWasted, 1000),
         EntryOf(EnergyState::kActive, 0, {}, ComputeState::kUseful, 3000),
         EntryOf(EnergyState::kUnobserved, 0, {}, ComputeState::kUnobserved, 90'000)});
  EXPECT_EQ(Value(kEffectiveCompute, {{"state", "useful"sv}}), 3);
  EXPECT_EQ(Value(kEffectiveCompute, {{"state", "unobserved"sv}}), 90);
  auto ratio = [&](std::string_view name) { return Value(kEffectiveComputeRatio, {{"ratio", name}}); };
  EXPECT_DOUBLE_EQ(ratio("allocated"), 0.6) << "without unobserved time";
  EXPECT_DOUBLE_EQ(ratio("held"), 5.0 / 6);
  EXPECT_DOUBLE_EQ(ratio("active"), 4.0 / 5);
  EXPECT_DOUBLE_EQ(ratio("useful"), 3.0 / 4);
  EXPECT_DOUBLE_EQ(ratio("effective"), 0.3);
  EXPECT_DOUBLE_EQ(ratio("allocated") * ratio("held") * ratio("active") * ratio("useful"),
                   ratio("effective"));
  Write({}, {}, minutes(61));
  EXPECT_TRUE(std::isnan(ratio("effective"))) << "nothing in the last hour";
  EXPECT_EQ(Value(kEffectiveCompute, {{"state", "useful"sv}}), 3);
}

}  // namespace
}  // namespace gpulens::cost
