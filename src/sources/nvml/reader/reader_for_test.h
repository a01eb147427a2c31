// GpuReader over the simulated library, in the process of the test, with a fixed clock.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "sources/nvml/reader/gpu_reader.h"
#include "sources/nvml/simulated/fake_world.h"

namespace gpulens::nvml {

class ReaderTest : public testing::Test {
 protected:
  void Use(const std::string& yaml, unsigned index = 0) {
    Status status = FakeWorld::Get().Use(yaml, &clock_);
    ASSERT_TRUE(status.ok()) << status.detail;
    ASSERT_EQ(FakeWorld::Get().Open(), 0);
    FakeWorld::Get().ForgetCalls();
    auto library = NvmlLibrary::FromLookup(FakeNvmlLookup, "simulated");
    ASSERT_TRUE(library.ok());
    library_ = std::make_unique<NvmlLibrary>(*std::move(library));
    reader_ = std::make_unique<GpuReader>(*library_, index, slot_, clock_, options_);
    ASSERT_EQ(reader_->Attach(), 0);
  }
  // One round; its readings by field, and those of links by link and field. Each comes at most once.
  bool Round() {
    latest_.clear();
    links_.clear();
    bool good = reader_->Read(clock_.Now().boot_ns);
    for (const DeviceReading& reading : reader_->readings()) {
      if (reading.link != 0) {
        EXPECT_TRUE(
            links_.emplace(std::pair(reading.link, static_cast<LinkField>(reading.field)), reading).second);
        continue;
      }
      EXPECT_TRUE(latest_.emplace(static_cast<Field>(reading.field), reading).second) << reading.field;
      EXPECT_NE(reading.boot_ns, 0);
    }
    return good;
  }
  bool Has(Field field) const { return latest_.contains(field); }
  ReadStatus StatusOf(Field field) const {
    return Has(field) ? latest_.at(field).status : ReadStatus::kNever;
  }
  int64_t Value(Field field) const {
    EXPECT_EQ(StatusOf(field), ReadStatus::kOk) << InfoOf(field).name;
    return Has(field) ? latest_.at(field).raw : -1;
  }
  ReadStatus LinkStatus(uint8_t link, LinkField field) const {
    auto found = links_.find({link, field});
    return found == links_.end() ? ReadStatus::kNever : found->second.status;
  }
  int64_t LinkValue(uint8_t link, LinkField field) const {
    EXPECT_EQ(LinkStatus(link, field), ReadStatus::kOk) << LinkFieldName(field);
    auto found = links_.find({link, field});
    return found == links_.end() ? -1 : found->second.raw;
  }
  std::string Fact(const std::string& key) const {
    for (const auto& [name, value] : reader_->identity().facts) {
      if (name == key) return value;
    }
    return "";
  }
  static uint64_t Calls(const char* call) { return FakeWorld::Get().Calls(call, -1); }

  ManualClock clock_{{.boot_ns = 1'000'000'000'000, .unix_ns = 1'700'000'000'000'000'000}};
  CallSlot slot_;
  GpuReaderOptions options_;
  std::unique_ptr<NvmlLibrary> library_;
  std::unique_ptr<GpuReader> reader_;
  std::map<Field, DeviceReading> latest_;
  std::map<std::pair<uint8_t, LinkField>, DeviceReading> links_;
};

}  // namespace gpulens::nvml
