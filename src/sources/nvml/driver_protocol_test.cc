#include "sources/nvml/driver_protocol.h"

#include <gtest/gtest.h>

#include <string>

#include "base/files.h"
#include "sources/nvml/driver_supervisor.h"
#include "sources/nvml/message_encoder.h"

namespace gpulens::nvml {
namespace {

std::vector<std::byte> Copy(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

TEST(DriverProtocol, EveryMessageComesBackAsItWas) {
  MessageEncoder encoder;
  auto hello = DecodeMessage(encoder.Encode(Hello{.build_id = "0.1.0-abc"}));
  ASSERT_TRUE(hello.ok());
  EXPECT_EQ(std::get<Hello>(*hello).build_id, "0.1.0-abc");
  EXPECT_EQ(std::get<Hello>(*hello).protocol, kProtocolVersion);

  auto bytes = Copy(encoder.Encode(LibraryReport{.phase = LibraryPhase::kReady,
                                                 .code = 0,
                                                 .gpu_count = 8,
                                                 .path = "libnvidia-ml.so.1",
                                                 .library_version = "13.580",
                                                 .driver_version = "580.95.05",
                                                 .cuda_version = "13.0",
                                                 .detail = ""}));
  auto library = DecodeMessage(bytes);
  ASSERT_TRUE(library.ok());
  EXPECT_EQ(std::get<LibraryReport>(*library).gpu_count, 8U);
  EXPECT_EQ(std::get<LibraryReport>(*library).driver_version, "580.95.05");

  std::vector<Fact> facts = {{"uuid", "GPU-1"}, {"name", "NVIDIA H100"}};
  bytes = Copy(encoder.Encode(7, 0, facts));
  auto entity = DecodeMessage(bytes);
  ASSERT_TRUE(entity.ok());
  const auto& report = std::get<EntityReport>(*entity);
  EXPECT_EQ(report.entity, 7U);
  ASSERT_EQ(report.fact_count, 2U);
  EXPECT_EQ(report.facts[1].value, "NVIDIA H100");

  auto heartbeat = DecodeMessage(
      encoder.Encode(Heartbeat{.boot_ns = 5, .sequence = 6, .calls = 7, .dropped = 8, .watched = 9}));
  ASSERT_TRUE(heartbeat.ok());
  EXPECT_EQ(std::get<Heartbeat>(*heartbeat).dropped, 8U);
  EXPECT_EQ(std::get<Heartbeat>(*heartbeat).watched, 9U);

  auto attach = DecodeMessage(encoder.Encode(AttachRequest{.entity = 3}));
  ASSERT_TRUE(attach.ok());
  EXPECT_EQ(std::get<AttachRequest>(*attach).entity, 3U);
}

TEST(DriverProtocol, PartsComeBackAsTheyWere) {
  MessageEncoder encoder;
  std::vector<PartKey> keys = {{.kind = PartKind::kMig, .id = 1, .sub = 0},
                               {.kind = PartKind::kMig, .id = 1, .sub = 1}};
  auto bytes = Copy(encoder.Encode(3, PartKind::kMig, 7, keys));
  auto message = DecodeMessage(bytes);
  ASSERT_TRUE(message.ok());
  const auto& parts = std::get<PartsReport>(*message);
  EXPECT_EQ(parts.entity, 3U);
  EXPECT_EQ(parts.max, 7U);
  ASSERT_EQ(parts.keys.size(), 2U);
  EXPECT_EQ(parts.keys[1], keys[1]);

  std::vector<Fact> facts = {{"uuid", "MIG-1"}, {"profile", "3g.40gb"}};
  bytes = Copy(encoder.Encode(3, keys[1], facts));
  message = DecodeMessage(bytes);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(std::get<PartReport>(*message).key, keys[1]);
  EXPECT_EQ(std::get<PartReport>(*message).facts[1].value, "3g.40gb");

  std::vector<PartReading> readings(2);
  readings[1] = {
      .entity = 3, .key = keys[0], .field = 2, .status = ReadStatus::kOk, .boot_ns = 5, .value = 0.25};
  bytes = Copy(encoder.Encode(readings));
  message = DecodeMessage(bytes);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(std::get<PartReadingsReport>(*message).readings[1].value, 0.25);

  std::vector<ProcessShare> shares = {{.pid = 42, .sm = 7}};
  bytes = Copy(encoder.Encode(3, 99, shares));
  message = DecodeMessage(bytes);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(std::get<ProcessSharesReport>(*message).boot_ns, 99);
  EXPECT_EQ(std::get<ProcessSharesReport>(*message).shares[0].sm, 7);
  EXPECT_EQ(std::get<ProcessSharesReport>(*message).shares[0].ofa, ProcessShare::kUnknown);
}

TEST(DriverProtocol, BadPartsAreRefused) {
  MessageEncoder encoder;
  auto refused = [](std::span<const std::byte> bytes) { return !DecodeMessage(bytes).ok(); };
  PartKey mig{.kind = PartKind::kMig, .id = 1, .sub = 0}, vgpu{.kind = PartKind::kVgpu, .id = 1, .sub = 0};
  EXPECT_TRUE(refused(encoder.Encode(kMaxGpus, PartKind::kMig, 7, std::vector{mig})));
  EXPECT_TRUE(refused(encoder.Encode(0, PartKind::kWhole, 7, {})));
  EXPECT_TRUE(refused(encoder.Encode(0, PartKind::kMig, 7, std::vector{vgpu}))) << "of another kind";
  EXPECT_TRUE(refused(encoder.Encode(0, PartKind::kMig, 7, std::vector{mig, mig}))) << "twice";
  EXPECT_TRUE(refused(encoder.Encode(0, PartKind::kMig, kMaxParts + 1, {})));
  EXPECT_TRUE(refused(encoder.Encode(kMaxGpus, mig, {})));
  EXPECT_TRUE(refused(encoder.Encode(0, PartKey{.kind = static_cast<PartKind>(9)}, {})));
  PartReading reading{.entity = 0, .key = mig, .field = kPartFieldCount, .status = ReadStatus::kOk};
  EXPECT_TRUE(refused(encoder.Encode(std::span(&reading, 1))));
  reading = {.entity = 0, .key = mig, .field = 0, .status = static_cast<ReadStatus>(99)};
  EXPECT_TRUE(refused(encoder.Encode(std::span(&reading, 1))));
  EXPECT_TRUE(refused(encoder.Encode(kMaxGpus, 1, std::vector<ProcessShare>(1))));
}

TEST(DriverProtocol, ArraysComeBackAsTheyWere) {
  MessageEncoder encoder;
  std::vector<Reading> readings = {
      {.entity = 1, .field = 2, .status = ReadStatus::kOk, .boot_ns = 3, .raw = -4},
      {.entity = 63, .field = kFieldCount - 1, .status = ReadStatus::kGpuLost, .boot_ns = 5, .raw = 6}};
  auto bytes = Copy(encoder.Encode(readings));
  auto message = DecodeMessage(bytes);
  ASSERT_TRUE(message.ok());
  const auto& out = std::get<ReadingsReport>(*message).readings;
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].raw, -4);
  EXPECT_EQ(out[1].status, ReadStatus::kGpuLost);

  std::vector<GpuProcess> processes(2);
  processes[0].pid = 42;
  processes[1].type = ProcessType::kMps;
  bytes = Copy(encoder.Encode(3, 99, processes));
  message = DecodeMessage(bytes);
  ASSERT_TRUE(message.ok());
  const auto& list = std::get<ProcessesReport>(*message);
  EXPECT_EQ(list.boot_ns, 99);
  EXPECT_EQ(list.processes[0].pid, 42U);
  EXPECT_EQ(list.processes[1].type, ProcessType::kMps);
  EXPECT_EQ(list.processes[1].memory_used, GpuProcess::kUnknownMemory);

  std::vector<DeviceEvent> events = {{.entity = 2, .type = 8, .data = 79, .boot_ns = 11}};
  bytes = Copy(encoder.Encode(events));
  message = DecodeMessage(bytes);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(std::get<EventsReport>(*message).events[0].data, 79U);
}

TEST(DriverProtocol, WhatIsTooLongIsCutByTheEncoder) {
  MessageEncoder encoder;
  std::string text(4096, 'x');
  auto bytes = Copy(encoder.Encode(Hello{.build_id = text}));
  auto hello = DecodeMessage(bytes);
  ASSERT_TRUE(hello.ok());
  EXPECT_EQ(std::get<Hello>(*hello).build_id.size(), kMaxText);

  std::vector<Fact> facts(kMaxFacts + 5, Fact{text, text});
  bytes = Copy(encoder.Encode(0, 0, facts));
  EXPECT_LE(bytes.size(), kMaxMessage);
  auto entity = DecodeMessage(bytes);
  ASSERT_TRUE(entity.ok());
  EXPECT_EQ(std::get<EntityReport>(*entity).fact_count, kMaxFacts);

  std::vector<Reading> readings(10'000);
  EXPECT_LE(encoder.Encode(readings).size(), kMaxMessage);
  std::vector<GpuProcess> processes(10'000);
  bytes = Copy(encoder.Encode(0, 0, processes));
  auto list = DecodeMessage(bytes);
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(std::get<ProcessesReport>(*list).processes.size(), kMaxProcesses);
  std::vector<DeviceEvent> events(10'000);
  EXPECT_LE(encoder.Encode(events).size(), kMaxMessage);
}

class BadMessage : public testing::Test {
 protected:
  // The message with `size` bytes at `at` replaced by `value`.
  static std::string Refusal(std::vector<std::byte> bytes, size_t at, uint32_t value, size_t size = 4) {
    std::memcpy(bytes.data() + at, &value, size);
    auto message = DecodeMessage(bytes);
    if (message.ok()) return "accepted";
    EXPECT_EQ(message.error().code, Code::kDataLoss);
    return message.error().detail;
  }
  MessageEncoder encoder_;
};

TEST_F(BadMessage, LengthsThatDoNotFit) {
  EXPECT_FALSE(DecodeMessage({}).ok());
  std::vector<Reading> readings(1);
  auto bytes = Copy(encoder_.Encode(readings));
  EXPECT_EQ(Refusal(bytes, 4, 23), "driver message: length does not fit the packet");
  EXPECT_EQ(Refusal(bytes, 2, 1, 2), "driver message: reserved bits are set");
  EXPECT_EQ(Refusal(bytes, 0, 77, 2), "driver message: unknown type 77");
  std::vector<std::byte> large(kMaxMessage + 8);
  EXPECT_EQ(DecodeMessage(large).error().detail, "driver message: over 64 KiB");
  // Each message cut by one byte, its header put right.
  std::vector<GpuProcess> processes(1);
  std::vector<DeviceEvent> events(1);
  std::vector<Fact> facts(1, Fact{"a", "b"});
  std::vector<std::vector<std::byte>> all = {bytes,
                                             Copy(encoder_.Encode(Hello{.build_id = "x"})),
                                             Copy(encoder_.Encode(LibraryReport{})),
                                             Copy(encoder_.Encode(0, 0, facts)),
                                             Copy(encoder_.Encode(0, 0, processes)),
                                             Copy(encoder_.Encode(events)),
                                             Copy(encoder_.Encode(Heartbeat{})),
                                             Copy(encoder_.Encode(AttachRequest{}))};
  for (auto& message : all) {
    ASSERT_TRUE(DecodeMessage(message).ok());
    message.pop_back();
    auto payload = static_cast<uint32_t>(message.size() - 8);
    EXPECT_NE(Refusal(message, 4, payload), "accepted");
    message.resize(8);
    // Nothing but a header: fine for arrays alone.
    auto type = static_cast<MessageType>(std::to_integer<int>(message[0]));
    bool array = type == MessageType::kReadings || type == MessageType::kEvents;
    EXPECT_EQ(Refusal(message, 4, 0) == "accepted", array);
  }
}

TEST_F(BadMessage, NumbersOutOfRange) {
  std::vector<Reading> readings(1);
  auto bytes = Copy(encoder_.Encode(readings));
  EXPECT_EQ(Refusal(bytes, 8, kMaxGpus), "driver message: GPU out of range");
  EXPECT_EQ(Refusal(bytes, 12, kFieldCount, 2), "driver message: field out of range");
  EXPECT_EQ(Refusal(bytes, 15, kMaxLinkParts, 1), "driver message: part out of range");
  EXPECT_EQ(Refusal(bytes, 15, 0xFF, 1), "driver message: part out of range");
  EXPECT_EQ(Refusal(bytes, 14, 200, 1), "driver message: status out of range");

  std::vector<Fact> facts(1, Fact{"a", "b"});
  bytes = Copy(encoder_.Encode(0, 0, facts));
  EXPECT_EQ(Refusal(bytes, 8, 64), "driver message: GPU out of range");
  EXPECT_EQ(Refusal(bytes, 16, 1'000'000), "driver message: too many facts");
  EXPECT_EQ(Refusal(bytes, 20, 60'000, 2), "driver message: entity has a wrong length");

  std::vector<GpuProcess> processes(1);
  bytes = Copy(encoder_.Encode(0, 0, processes));
  EXPECT_EQ(Refusal(bytes, 8, 64), "driver message: GPU out of range");
  EXPECT_EQ(Refusal(bytes, 28, 3), "driver message: process type out of range");
  std::vector<std::byte> many(8 + 16 + (kMaxProcesses + 1) * sizeof(GpuProcess));
  std::memcpy(many.data(), bytes.data(), 8);
  EXPECT_EQ(Refusal(many, 4, static_cast<uint32_t>(many.size() - 8)), "driver message: too many processes");

  bytes = Copy(encoder_.Encode(LibraryReport{}));
  EXPECT_EQ(Refusal(bytes, 8, 3), "driver message: library phase out of range");
  EXPECT_EQ(Refusal(bytes, 16, 65), "driver message: GPU count out of range");
  std::vector<DeviceEvent> events(1);
  EXPECT_EQ(Refusal(Copy(encoder_.Encode(events)), 8, 64), "driver message: GPU out of range");
  EXPECT_EQ(Refusal(Copy(encoder_.Encode(AttachRequest{})), 8, 64), "driver message: GPU out of range");
}

// A link has other fields than the GPU that it belongs to.
TEST(DriverProtocol, FieldsOfALinkAreInTheRangeOfLinks) {
  MessageEncoder encoder;
  Reading reading{.entity = 1, .field = kLinkFieldCount - 1, .status = ReadStatus::kOk, .part = PartOfC2c(3)};
  EXPECT_TRUE(DecodeMessage(encoder.Encode(std::span(&reading, 1))).ok());
  reading.field = kLinkFieldCount;
  EXPECT_FALSE(DecodeMessage(encoder.Encode(std::span(&reading, 1))).ok());
}

TEST(Names, EveryNumberHasOne) {
  for (size_t i = 0; i < kLinkFieldCount; ++i) EXPECT_FALSE(LinkFieldName(static_cast<LinkField>(i)).empty());
  EXPECT_EQ(LinkFieldName(LinkField::kFec15), "fec_15");
  EXPECT_DOUBLE_EQ(BitErrorRate(0x50C), 5e-12);
  EXPECT_EQ(BitErrorRate(0), 0);
  for (size_t i = 0; i < kFieldCount; ++i) EXPECT_FALSE(InfoOf(static_cast<Field>(i)).name.empty());
  EXPECT_EQ(InfoOf(Field::kPower).unit, "mW");
  EXPECT_EQ(CallName(Call::kPowerUsage), "nvmlDeviceGetPowerUsage");
  EXPECT_EQ(CallName(Call::kLoadLibrary), "dlopen");
  EXPECT_EQ(CallName(static_cast<Call>(60000)), "unknown");
  EXPECT_TRUE(IsSlowCall(Call::kInit));
  EXPECT_FALSE(IsSlowCall(Call::kPowerUsage));
  EXPECT_EQ(StatusName(ReadStatus::kNoPermission), "no_permission");
  EXPECT_EQ(StatusName(ReadStatus::kCount), "unknown");
  EXPECT_EQ(ReturnText(18), "driver and library have different versions");
  EXPECT_EQ(ReturnText(12345), "unlisted error");
  EXPECT_EQ(GpuStateName(GpuState::kLeftOut), "left_out");
  EXPECT_EQ(GpuStateName(GpuState::kCount), "unknown");
  EXPECT_EQ(StartReasonName(StartReason::kProtocol), "protocol");
  EXPECT_EQ(StartReasonName(StartReason::kCount), "unknown");
}

}  // namespace
}  // namespace gpulens::nvml
