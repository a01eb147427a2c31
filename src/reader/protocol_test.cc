#include "reader/protocol.h"

#include <gtest/gtest.h>

#include <string>

namespace gpulens::reader {
namespace {

constexpr size_t kFieldCount = 100;

std::vector<std::byte> Copy(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }
constexpr FieldInfo kTable[kFieldCount] = {};
constexpr VendorTables kWideVendor{.fields = kTable, .links = 4, .link_fields = 3};
Result<ReaderMessage> Decode(std::span<const std::byte> bytes) { return DecodeMessage(bytes, kWideVendor); }

TEST(NvmlProtocol, EveryMessageComesBackAsItWas) {
  MessageEncoder encoder;
  auto hello = Decode(encoder.Encode(HelloMessage{.build_id = "0.1.0-abc"}));
  ASSERT_TRUE(hello.ok());
  EXPECT_EQ(std::get<HelloMessage>(*hello).build_id, "0.1.0-abc");

  auto bytes = Copy(encoder.Encode(LibraryReport{.fault = ReaderFault::kNoPermission,
                                                 .code = 10,
                                                 .devices = 8,
                                                 .path = "libamd_smi.so",
                                                 .library_version = "26.2.1",
                                                 .driver_version = "6.14.14",
                                                 .runtime_version = "",
                                                 .detail = "why"}));
  auto library = Decode(bytes);
  ASSERT_TRUE(library.ok());
  EXPECT_EQ(std::get<LibraryReport>(*library).fault, ReaderFault::kNoPermission);
  EXPECT_EQ(std::get<LibraryReport>(*library).devices, 8U);
  EXPECT_EQ(std::get<LibraryReport>(*library).detail, "why");

  DeviceReport head;
  head.device = 7;
  head.state = DeviceState::kLost;
  head.code = 31;
  std::vector<FactView> facts = {{"uuid", "1"}, {"name", "AMD Instinct MI300X"}};
  bytes = Copy(encoder.Encode(head, facts));
  auto device = Decode(bytes);
  ASSERT_TRUE(device.ok());
  const auto& report = std::get<DeviceReport>(*device);
  EXPECT_EQ(report.state, DeviceState::kLost);
  ASSERT_EQ(report.fact_count, 2U);
  EXPECT_EQ(report.facts[1].value, "AMD Instinct MI300X");

  auto beat = Decode(encoder.Encode(HeartbeatMessage{.boot_ns = 5,
                                                     .sequence = 6,
                                                     .calls = 7,
                                                     .dropped = 8,
                                                     .watched = 9,
                                                     .memory = 10,
                                                     .files = 11,
                                                     .threads = 12}));
  ASSERT_TRUE(beat.ok());
  EXPECT_EQ(std::get<HeartbeatMessage>(*beat).watched, 9U);
  EXPECT_EQ(std::get<HeartbeatMessage>(*beat).dropped, 8U);
  EXPECT_EQ(std::get<HeartbeatMessage>(*beat).memory, 10U);
  EXPECT_EQ(std::get<HeartbeatMessage>(*beat).files, 11U);
  EXPECT_EQ(std::get<HeartbeatMessage>(*beat).threads, 12U);
  auto attach = Decode(encoder.Encode(AttachRequest{.device = 3}));
  ASSERT_TRUE(attach.ok());
  EXPECT_EQ(std::get<AttachRequest>(*attach).device, 3U);
}

TEST(NvmlProtocol, ArraysComeBackAsTheyWere) {
  MessageEncoder encoder;
  std::vector<DeviceReading> readings = {
      {.device = 1, .field = 2, .status = ReadStatus::kOk, .boot_ns = 3, .raw = -4},
      {.device = 63, .field = kFieldCount - 1, .status = ReadStatus::kLost, .boot_ns = 5, .raw = 6}};
  auto bytes = Copy(encoder.Encode(readings));
  auto message = Decode(bytes);
  ASSERT_TRUE(message.ok());
  const auto& got = std::get<ReadingsReport>(*message).readings;
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].raw, -4);
  EXPECT_EQ(got[1].device, 63U);

  std::vector<ProcessUse> uses(2);
  uses[1].pid = 9;
  uses[1].memory = 1 << 20;
  bytes = Copy(encoder.Encode(4, 77, uses));
  message = Decode(bytes);
  ASSERT_TRUE(message.ok());
  const auto& list = std::get<ProcessesReport>(*message);
  EXPECT_EQ(list.boot_ns, 77);
  ASSERT_EQ(list.processes.size(), 2U);
  EXPECT_EQ(list.processes[1].pid, 9U);
  EXPECT_EQ(list.processes[0].memory, ProcessUse::kUnknown);
}

TEST(NvmlProtocol, ValuesOutOfRangeAreRefused) {
  MessageEncoder encoder;
  auto refused = [&](std::span<const std::byte> bytes, std::string_view why) {
    auto message = Decode(bytes);
    ASSERT_FALSE(message.ok()) << why;
    EXPECT_EQ(message.error().code, Code::kDataLoss);
    EXPECT_NE(message.error().detail.find(why), std::string::npos) << message.error().detail;
  };
  std::vector<DeviceReading> reading(1);
  reading[0].field = kFieldCount;
  refused(Copy(encoder.Encode(reading)), "field out of range");
  reading[0] = {.device = kMaxDevices};
  refused(Copy(encoder.Encode(reading)), "device out of range");
  reading[0] = {.status = ReadStatus::kCount};
  refused(Copy(encoder.Encode(reading)), "status out of range");
  reading[0] = {.boot_ns = INT64_MIN};
  refused(Copy(encoder.Encode(reading)), "time before the boot");
  refused(Copy(encoder.Encode(0, -1, std::vector<ProcessUse>(1))), "time before the boot");
  refused(Copy(encoder.Encode(HeartbeatMessage{.boot_ns = -1})), "time before the boot");
  refused(Copy(encoder.Encode(AttachRequest{.device = kMaxDevices})), "device out of range");
  DeviceReport head;
  head.state = DeviceState::kCount;
  refused(Copy(encoder.Encode(head, {})), "state out of range");
  refused(Copy(encoder.Encode(LibraryReport{.fault = ReaderFault::kCount})), "fault out of range");
  refused(Copy(encoder.Encode(LibraryReport{.devices = kMaxDevices + 1})), "count out of range");
  std::vector<ProcessUse> use(1);
  use[0].name.fill('x');
  refused(Copy(encoder.Encode(0, 0, use)), "no end");
  refused(std::vector<std::byte>(3), "header");
  refused(std::vector<std::byte>(kMaxMessage + 1), "64 KiB");
  auto bytes = Copy(encoder.Encode(HelloMessage{}));
  bytes.push_back(std::byte{0});
  refused(bytes, "length");
}

TEST(NvmlProtocol, EveryPrefixOfEveryMessageIsRefusedOrWhole) {
  MessageEncoder encoder;
  std::vector<FactView> facts = {{"uuid", "1"}};
  std::vector<DeviceReading> readings(2);
  for (auto bytes : {Copy(encoder.Encode(HelloMessage{.build_id = "x"})),
                     Copy(encoder.Encode(LibraryReport{})), Copy(encoder.Encode(DeviceReport{}, facts)),
                     Copy(encoder.Encode(readings)), Copy(encoder.Encode(HeartbeatMessage{}))}) {
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(Decode(std::span(bytes).first(size)).ok()) << size;
    }
    EXPECT_TRUE(Decode(bytes).ok());
  }
}

// A link has other fields than the device that it belongs to.
TEST(NvmlProtocol, FieldsOfALinkAreInTheRangeOfLinks) {
  MessageEncoder encoder;
  DeviceReading reading{.device = 1, .field = 2, .status = ReadStatus::kOk, .link = 4};
  EXPECT_TRUE(Decode(encoder.Encode(std::span(&reading, 1))).ok());
  reading.field = 3;
  EXPECT_FALSE(Decode(encoder.Encode(std::span(&reading, 1))).ok());
  reading = {.device = 1, .field = 2, .status = ReadStatus::kOk, .link = 5};
  EXPECT_FALSE(Decode(encoder.Encode(std::span(&reading, 1))).ok());
}

TEST(NvmlProtocol, AVendorsMessageComesAsItWas) {
  MessageEncoder encoder;
  encoder.BeginVendor(9, 3);
  encoder.Number(uint32_t{42});
  std::vector<FactView> facts = {{"profile", "3g.40gb"}};
  encoder.Facts(facts, 4);
  auto bytes = Copy(encoder.Finish());
  auto message = Decode(bytes);
  ASSERT_TRUE(message.ok());
  const auto& report = std::get<VendorReport>(*message);
  EXPECT_EQ(report.device, 3U);
  EXPECT_EQ(report.kind, 9U);
  MessageCursor in(report.body);
  EXPECT_EQ(in.Number<uint32_t>(), 42U);
  std::array<FactView, 4> out;
  ASSERT_EQ(in.Facts(out), 1U);
  EXPECT_EQ(out[0].value, "3g.40gb");
  EXPECT_TRUE(in.done());
  encoder.BeginVendor(9, kMaxDevices);
  EXPECT_FALSE(Decode(encoder.Finish()).ok());
}

TEST(NvmlProtocol, LongTextsAreTruncatedByTheEncoder) {
  MessageEncoder encoder;
  std::string text(4096, 'x');
  auto bytes = Copy(encoder.Encode(HelloMessage{.build_id = text}));
  auto hello = Decode(bytes);
  ASSERT_TRUE(hello.ok());
  EXPECT_EQ(std::get<HelloMessage>(*hello).build_id.size(), kMaxText);
  std::vector<FactView> facts(kMaxFacts + 5, FactView{text, text});
  bytes = Copy(encoder.Encode(DeviceReport{}, facts));
  EXPECT_LE(bytes.size(), kMaxMessage);
  auto device = Decode(bytes);
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(std::get<DeviceReport>(*device).fact_count, kMaxFacts);
  EXPECT_LE(encoder.Encode(std::vector<DeviceReading>(10'000)).size(), kMaxMessage);
  EXPECT_LE(encoder.Encode(0, 0, std::vector<ProcessUse>(10'000)).size(), kMaxMessage);
}

TEST(NvmlProtocol, NamesAreWords) {
  EXPECT_EQ(StatusName(ReadStatus::kNotSupported), "not_supported");
  EXPECT_EQ(StartReasonName(StartReason::kProtocol), "protocol");
  EXPECT_EQ(StatusName(ReadStatus::kCount), "unknown");
}

}  // namespace
}  // namespace gpulens::reader
