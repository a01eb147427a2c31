// The agent's end of the reader process, without the process: decodes and stores what readers send.
#pragma once

#include <gtest/gtest.h>

#include "reader/device_table.h"
#include "reader/process/device_reader.h"
#include "sources/nvml/nvml_source.h"

namespace gpulens::nvml {

struct AgentEnd final : reader::MessageOutbox {
  explicit AgentEnd(const Clock& of) : clock(of) {}

  bool Send(std::span<const std::byte> bytes) noexcept override {
    ++messages;
    auto message = reader::DecodeMessage(bytes, NvmlVendor());
    EXPECT_TRUE(message.ok()) << message.error().detail;
    if (!message.ok()) return false;
    Status status = table.Take(*message, clock.Now());
    EXPECT_TRUE(status.ok()) << status.detail;
    return true;
  }
  // The GPU was opened; `facts` are what its reader sends.
  void Introduce(uint32_t index, const reader::DeviceFacts& facts) {
    reader::DeviceReport report;
    report.device = index;
    for (const auto& [key, value] : facts) report.facts.at(report.fact_count++) = {key, value};
    EXPECT_TRUE(table.Take(report).ok());
  }

  const Clock& clock;
  uint64_t messages = 0;
  GpuVendorState vendor_state;
  reader::DeviceTable table{NvmlVendor(), vendor_state};
};

}  // namespace gpulens::nvml
