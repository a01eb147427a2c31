// Simulated GPUs, read by the reader process's own code in this process, registered as the agent does, and
// turned into series: everything of the collector but its processes. The clock is fixed.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/parse.h"
#include "plugins/collectors/nvidia/gpu_series.h"
#include "sources/nvml/reader/agent_for_test.h"
#include "sources/nvml/reader/gpu_reader.h"
#include "sources/nvml/simulated/fake_world.h"

namespace gpulens::nvidia {

inline constexpr double kMib = 1 << 20;

class GpuFixture {
 public:
  GpuFixture(const std::string& profile, GpuSeries::Options options,
             uint32_t details = nvml::kDetailSamples) {
    Status status = nvml::FakeWorld::Get().Use(profile, &clock_);
    EXPECT_TRUE(status.ok()) << status.detail;
    EXPECT_EQ(nvml::FakeWorld::Get().Open(), 0);
    library_ = std::make_unique<nvml::NvmlLibrary>(
        *nvml::NvmlLibrary::FromLookup(nvml::FakeNvmlLookup, "simulated"));
    size_t count = nvml::FakeWorld::Get().profile()->gpus.size();
    slots_ = std::make_unique<nvml::CallSlot[]>(count);
    nvml::GpuReaderOptions reader_options;
    reader_options.details = details;
    agent_.table.Begin(clock_.Now(), std::chrono::minutes(5));
    agent_.table.Expect(static_cast<uint32_t>(count));
    for (unsigned i = 0; i < count; ++i) {
      readers_.push_back(std::make_unique<nvml::GpuReader>(*library_, i, slots_[i], clock_, reader_options));
      EXPECT_EQ(readers_[i]->Attach(), 0);
      agent_.Introduce(i, readers_[i]->identity().facts);
      series_.emplace_back(options);
    }
    max_age_.ns = {Duration(std::chrono::seconds(2)).count(), Duration(std::chrono::seconds(12)).count(),
                   Duration(std::chrono::seconds(62)).count()};
  }

  // One second of driver and agent.
  void Run() {
    clock_.Advance(std::chrono::seconds(1));
    for (auto& reader : readers_) {
      reader->Read(clock_.Now().boot_ns);
      agent_.Send(encoder_.Encode(reader->readings()));
    }
    Collect();
  }
  // A run of the agent alone.
  void Collect() {
    writer_.Begin(clock_.Now());
    auto gpus = agent_.vendor_state.gpus();
    for (size_t i = 0; i < series_.size(); ++i)
      series_[i].Update(gpus[i], max_age_, clock_.Now(), writer_, gpus);
    frame_ = writer_.Finish();
  }

  // The series of one GPU that have a value now, one a line and sorted: "gpu.clock.max{gpu.clock.type=sm}
  // 1980".
  std::string Page(unsigned gpu) const {
    std::vector<std::string> lines;
    for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame_->layout)[slot];
      if (!info.desc || frame_->quality[slot] != Quality::kOk) continue;
      if (info.attributes.Text("gpu.index") != std::to_string(gpu)) continue;
      lines.push_back(std::string(info.desc->name) + AttributesOf(info) + ValuesOf(info));
    }
    std::sort(lines.begin(), lines.end());
    std::string page;
    for (const std::string& line : lines) page += line + '\n';
    return page;
  }
  // The value on the line of GPU 0 that begins so; NaN when there is none.
  double Value(const std::string& series) const {
    std::string page = '\n' + Page(0);
    size_t at = page.find('\n' + series + ' ');
    if (at == std::string::npos) return std::nan("");
    std::string_view rest = std::string_view(page).substr(at + series.size() + 2);
    return ParseDouble(TakeUntil(rest, '\n')).value_or(std::nan(""));
  }
  bool Has(const std::string& series) const { return !std::isnan(Value(series)); }

  ManualClock& clock() noexcept { return clock_; }
  FrameWriter& writer() noexcept { return writer_; }
  SeriesTable& table() noexcept { return table_; }
  reader::DeviceTable& devices() noexcept { return agent_.table; }

 private:
  static std::string AttributesOf(const SeriesInfo& info) {
    std::string text;
    for (auto [key, value] : info.attributes) {
      if (key == "gpu.index" || key == "gpu.uuid" || key == "gpu.model" || key == "gpu.mig.enabled") continue;
      text += (text.empty() ? '{' : ',') + std::string(key) + '=';
      AppendValue(text, value);
    }
    return text.empty() ? text : text + '}';
  }
  std::string ValuesOf(const SeriesInfo& info) const {
    std::string text;
    for (uint32_t i = 0; i < info.cells(); ++i) {
      Cell cell = frame_->cells[info.first_cell + i];
      char number[40];
      std::snprintf(number, sizeof number, " %.15g",
                    info.desc->number == Number::kInt ? static_cast<double>(cell.i) : cell.d);
      text += number;
    }
    return text;
  }

  ManualClock clock_{{.boot_ns = 1'000'000'000'000, .unix_ns = 1'700'000'000'000'000'000}};
  std::unique_ptr<nvml::NvmlLibrary> library_;
  std::unique_ptr<nvml::CallSlot[]> slots_;
  std::vector<std::unique_ptr<nvml::GpuReader>> readers_;
  nvml::AgentEnd agent_{clock_};
  nvml::MessageEncoder encoder_;
  FieldMaxAge max_age_;
  std::vector<GpuSeries> series_;
  SeriesTable table_;
  FrameWriter writer_{table_, std::chrono::seconds(10)};
  Ref<const Frame> frame_;
};

}  // namespace gpulens::nvidia
