// AMD series without processes: the reader over the simulated library in this program, at a clock that is
// driven by hand. For tests.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "names/naming.h"
#include "plugins/collectors/amd/amd_series.h"
#include "reader/device_table.h"
#include "sources/amdsmi/reader/amdsmi_reader.h"
#include "sources/amdsmi/simulated/fake_world.h"
#include "wire/exposition/text_page.h"

namespace gpulens::amd {

class AmdRun {
 public:
  explicit AmdRun(const std::string& profile, AmdSeries::Options options = {}) {
    Use(profile);
    library_ = std::make_unique<amdsmi::AmdsmiLibrary>("", &amdsmi::FakeAmdsmiLookup);
    auto opened = library_->Open(slot_);
    EXPECT_EQ(opened.fault, reader::ReaderFault::kNone) << opened.detail;
    table_.Begin(clock.Now(), std::chrono::minutes(5));
    table_.Expect(opened.devices);
    for (uint32_t i = 0; i < opened.devices; ++i) {
      readers_.push_back(library_->MakeReader(
          i, slot_, clock, {std::chrono::seconds(1), std::chrono::seconds(10), std::chrono::seconds(60)}));
      series_.emplace_back(options);
      Attach(i);
    }
    max_age_.ns = {Duration(std::chrono::seconds(2)).count(), Duration(std::chrono::seconds(12)).count(),
                   Duration(std::chrono::seconds(62)).count()};
  }

  void Use(const std::string& profile) {
    Status status = amdsmi::FakeWorld::Get().Use(profile, &clock);
    EXPECT_TRUE(status.ok()) << status.detail;
  }
  void Attach(uint32_t index) {
    reader::DeviceReport report;
    report.device = index;
    report.state = readers_[index]->Attach().state;
    for (const auto& [key, value] : readers_[index]->facts())
      report.facts[report.fact_count++] = {key, value};
    EXPECT_TRUE(table_.Take(report).ok());
  }

  // Runs one round of every reader, without the collector.
  void Read() {
    for (auto& reader : readers_) reader->Round(clock.Now().boot_ns, agent_);
  }
  // Runs the collector once.
  void Publish() {
    writer.Begin(clock.Now());
    for (size_t i = 0; i < series_.size(); ++i) {
      EntityRef board;
      for (size_t other = 0; other < i; ++other) {
        bool same = table_.devices()[other].Fact("gpu") == table_.devices()[i].Fact("gpu");
        if (same && series_[other].first()) board = series_[other].board();
      }
      series_[i].Update(table_.devices()[i], board, max_age_, writer);
    }
    frame = writer.Finish();
  }
  void After(Duration duration) {
    clock.Advance(duration);
    Read();
    Publish();
  }

  std::string Page() {
    Snapshot snapshot;
    snapshot.closed_at = clock.Now();
    snapshot.frames.push_back({frame, frame->source, Precedence::kNative, false});
    TextPage page(ExpositionFormat::kOpenMetrics100, &NameNative);
    std::string text;
    page.Render(snapshot, text);
    return text;
  }

  using Pairs = std::initializer_list<std::pair<std::string_view, std::string_view>>;
  // The value of the one series with these attributes; NaN when there is none that is fresh.
  double Value(const MetricDesc& desc, Pairs attributes = {}) const {
    for (uint32_t slot = 0; slot < frame->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame->layout)[slot];
      if (info.desc != &desc || frame->quality[slot] != Quality::kOk) continue;
      bool fits = true;
      for (auto [key, value] : attributes) fits = fits && info.attributes.Text(key) == value;
      if (!fits) continue;
      Cell cell = frame->cells[info.first_cell];
      return desc.number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
    }
    return std::nan("");
  }
  bool Has(const MetricDesc& desc, Pairs attributes = {}) const {
    return !std::isnan(Value(desc, attributes));
  }
  size_t Count(const MetricDesc& desc) const {
    size_t count = 0;
    for (uint32_t slot = 0; slot < frame->layout->slots(); ++slot) {
      count += (*frame->layout)[slot].desc == &desc && frame->quality[slot] == Quality::kOk;
    }
    return count;
  }

  ManualClock clock{Instant{1'000'000'000'000, 1'767'312'000'000'000'000}};
  SeriesTable table;
  FrameWriter writer{table, std::chrono::seconds(10), "amd"};
  Ref<const Frame> frame;

 private:
  // Applies the messages of a reader as the agent does.
  struct Agent final : reader::MessageOutbox {
    explicit Agent(AmdRun& owner) : run(owner) {}
    bool Send(std::span<const std::byte> bytes) noexcept override {
      auto message = reader::DecodeMessage(bytes, amdsmi::AmdsmiVendor());
      EXPECT_TRUE(message.ok() && run.table_.Take(*message, run.clock.Now()).ok());
      return true;
    }
    AmdRun& run;
  };

  reader::CallSlot slot_;
  std::unique_ptr<amdsmi::AmdsmiLibrary> library_;
  reader::PlainVendorState vendor_state_;
  reader::DeviceTable table_{amdsmi::AmdsmiVendor(), vendor_state_};
  Agent agent_{*this};
  std::vector<std::unique_ptr<reader::DeviceReader>> readers_;
  std::vector<AmdSeries> series_;
  FieldMaxAge max_age_;
};

}  // namespace gpulens::amd
