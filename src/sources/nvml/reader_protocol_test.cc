#include "sources/nvml/reader_protocol.h"

#include <dirent.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/files.h"
#include "sources/nvml/nvml_source.h"

namespace gpulens::nvml {
namespace {

std::vector<std::byte> Copy(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

// As the agent does it: the message, then what the vendor has put into it.
Result<NvmlReport> Decode(std::span<const std::byte> bytes) {
  auto message = reader::DecodeMessage(bytes, NvmlVendor());
  if (!message.ok()) return message.error();
  const auto* report = std::get_if<reader::VendorReport>(&*message);
  if (!report) return Status{Code::kDataLoss, "not the vendor's"};
  return DecodeReport(*report);
}

TEST(NvmlProtocol, PartsComeBackAsTheyWere) {
  MessageEncoder encoder;
  std::vector<SliceKey> keys = {{.kind = SliceKind::kMig, .id = 1, .sub = 0},
                                {.kind = SliceKind::kMig, .id = 1, .sub = 1}};
  auto bytes = Copy(EncodeSlices(encoder, 3, SliceKind::kMig, 7, keys));
  auto message = Decode(bytes);
  ASSERT_TRUE(message.ok());
  const auto& slices = std::get<SliceList>(*message);
  EXPECT_EQ(slices.max, 7U);
  ASSERT_EQ(slices.keys.size(), 2U);
  EXPECT_EQ(slices.keys[1], keys[1]);

  std::vector<FactView> facts = {{"uuid", "MIG-1"}, {"profile", "3g.40gb"}};
  bytes = Copy(EncodeSlice(encoder, 3, keys[1], facts));
  message = Decode(bytes);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(std::get<SliceFactsReport>(*message).key, keys[1]);
  EXPECT_EQ(std::get<SliceFactsReport>(*message).facts[1].value, "3g.40gb");

  std::vector<SliceReading> readings(2);
  readings[0].entity = 3;
  readings[1] = {
      .entity = 3, .key = keys[0], .field = 2, .status = ReadStatus::kOk, .boot_ns = 5, .value = 0.25};
  bytes = Copy(EncodeSliceReadings(encoder, 3, readings));
  message = Decode(bytes);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(std::get<SliceReadings>(*message).readings[1].value, 0.25);

  std::vector<ProcessShare> shares = {{.pid = 42, .sm = 7}};
  bytes = Copy(EncodeShares(encoder, 3, 99, shares));
  message = Decode(bytes);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(std::get<ShareList>(*message).boot_ns, 99);
  EXPECT_EQ(std::get<ShareList>(*message).shares[0].sm, 7);
  EXPECT_EQ(std::get<ShareList>(*message).shares[0].ofa, ProcessShare::kUnknown);
}

TEST(NvmlProtocol, BadPartsAreRefused) {
  MessageEncoder encoder;
  auto refused = [](std::span<const std::byte> bytes) { return !Decode(bytes).ok(); };
  SliceKey mig{.kind = SliceKind::kMig, .id = 1, .sub = 0}, vgpu{.kind = SliceKind::kVgpu, .id = 1, .sub = 0};
  EXPECT_TRUE(refused(EncodeSlices(encoder, kMaxGpus, SliceKind::kMig, 7, std::vector{mig})));
  EXPECT_TRUE(refused(EncodeSlices(encoder, 0, SliceKind::kWhole, 7, {})));
  EXPECT_TRUE(refused(EncodeSlices(encoder, 0, SliceKind::kMig, 7, std::vector{vgpu}))) << "of another kind";
  EXPECT_TRUE(refused(EncodeSlices(encoder, 0, SliceKind::kMig, 7, std::vector{mig, mig}))) << "twice";
  EXPECT_TRUE(refused(EncodeSlices(encoder, 0, SliceKind::kMig, kMaxSlices + 1, {})));
  EXPECT_TRUE(refused(EncodeSlice(encoder, kMaxGpus, mig, {})));
  EXPECT_TRUE(refused(EncodeSlice(encoder, 0, SliceKey{.kind = static_cast<SliceKind>(9)}, {})));
  SliceReading reading{.entity = 0, .key = mig, .field = kSliceFieldCount, .status = ReadStatus::kOk};
  EXPECT_TRUE(refused(EncodeSliceReadings(encoder, 0, std::span(&reading, 1))));
  reading = {.entity = 0, .key = mig, .field = 0, .status = static_cast<ReadStatus>(99)};
  EXPECT_TRUE(refused(EncodeSliceReadings(encoder, 0, std::span(&reading, 1))));
  reading = {.entity = 1, .key = mig, .field = 0, .status = ReadStatus::kOk};
  EXPECT_TRUE(refused(EncodeSliceReadings(encoder, 0, std::span(&reading, 1)))) << "of another GPU";
  EXPECT_FALSE(refused(EncodeSliceReadings(encoder, 1, std::span(&reading, 1))));
  EXPECT_TRUE(refused(EncodeShares(encoder, kMaxGpus, 1, std::vector<ProcessShare>(1))));
}

TEST(NvmlProtocol, ArraysComeBackAsTheyWere) {
  MessageEncoder encoder;
  std::vector<GpuProcess> processes(2);
  processes[0].pid = 42;
  processes[1].type = ProcessType::kMps;
  auto bytes = Copy(EncodeProcesses(encoder, 3, 99, processes));
  auto message = Decode(bytes);
  ASSERT_TRUE(message.ok());
  const auto& list = std::get<ProcessList>(*message);
  EXPECT_EQ(list.boot_ns, 99);
  EXPECT_EQ(list.processes[0].pid, 42U);
  EXPECT_EQ(list.processes[1].type, ProcessType::kMps);
  EXPECT_EQ(list.processes[1].memory_used, GpuProcess::kUnknownMemory);

  std::vector<DeviceEvent> events = {{.entity = 2, .type = 8, .data = 79, .boot_ns = 11}};
  bytes = Copy(EncodeEvents(encoder, 2, events));
  message = Decode(bytes);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(std::get<EventList>(*message).events[0].data, 79U);
  EXPECT_FALSE(Decode(EncodeEvents(encoder, 1, events)).ok()) << "of another GPU";
}

TEST(NvmlProtocol, LongTextsAreTruncatedByTheEncoder) {
  MessageEncoder encoder;
  std::vector<GpuProcess> processes(10'000);
  auto bytes = Copy(EncodeProcesses(encoder, 0, 0, processes));
  auto list = Decode(bytes);
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(std::get<ProcessList>(*list).processes.size(), kMaxProcesses);
  std::vector<DeviceEvent> events(10'000);
  EXPECT_LE(EncodeEvents(encoder, 0, events).size(), reader::kMaxMessage);
  EXPECT_LE(EncodeSliceReadings(encoder, 0, std::vector<SliceReading>(10'000)).size(), reader::kMaxMessage);
  EXPECT_LE(EncodeShares(encoder, 0, 0, std::vector<ProcessShare>(10'000)).size(), reader::kMaxMessage);
}

// The message with `size` bytes at `at` replaced by `value`.
std::string Refusal(std::vector<std::byte> bytes, size_t at, uint32_t value, size_t size = 4) {
  std::memcpy(bytes.data() + at, &value, size);
  auto message = Decode(bytes);
  if (message.ok()) return "accepted";
  EXPECT_EQ(message.error().code, Code::kDataLoss);
  return message.error().detail;
}

TEST(NvmlProtocol, EveryMessageThatIsCutIsRefused) {
  MessageEncoder encoder;
  SliceKey mig{.kind = SliceKind::kMig, .id = 1, .sub = 0};
  std::vector<FactView> facts(1, FactView{"a", "b"});
  for (auto message : {Copy(EncodeProcesses(encoder, 0, 0, std::vector<GpuProcess>(1))),
                       Copy(EncodeEvents(encoder, 0, std::vector<DeviceEvent>(1))),
                       Copy(EncodeSlices(encoder, 0, SliceKind::kMig, 7, std::vector{mig})),
                       Copy(EncodeSlice(encoder, 0, mig, facts)),
                       Copy(EncodeSliceReadings(encoder, 0, std::vector<SliceReading>(1))),
                       Copy(EncodeShares(encoder, 0, 0, std::vector<ProcessShare>(1)))}) {
    ASSERT_TRUE(Decode(message).ok());
    EXPECT_EQ(Refusal(message, 12, 99), "driver message: unknown kind 99");
    EXPECT_EQ(Refusal(message, 8, kMaxGpus), "driver message: device out of range");
    message.pop_back();
    EXPECT_NE(Refusal(message, 4, static_cast<uint32_t>(message.size() - 8)), "accepted");
  }
}

TEST(NvmlProtocol, TimesBeforeTheBootAreRefused) {
  MessageEncoder encoder;
  const auto refused = [](std::span<const std::byte> bytes) {
    auto message = reader::DecodeMessage(bytes, NvmlVendor());
    ASSERT_TRUE(message.ok());
    const auto report = DecodeReport(std::get<reader::VendorReport>(*message));
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().detail, "driver message: time before the boot");
  };
  refused(EncodeProcesses(encoder, 0, INT64_MIN, {}));
  refused(EncodeShares(encoder, 0, -1, {}));
  refused(EncodeEvents(encoder, 0, std::vector<DeviceEvent>{{.entity = 0, .boot_ns = -1}}));
}

// One that is to come would be as old as a number allows in the other direction.
TEST(NvmlProtocol, AnEventToComeIsOfNow) {
  MessageEncoder encoder;
  GpuVendorState state;
  state.Add();
  const Instant now{.boot_ns = 7, .unix_ns = 8};
  auto message = reader::DecodeMessage(
      EncodeEvents(encoder, 0, std::vector<DeviceEvent>{{.entity = 0, .boot_ns = INT64_MAX}}), NvmlVendor());
  ASSERT_TRUE(state.Take(std::get<reader::VendorReport>(*message), now));
  std::vector<DeviceEvent> events;
  state.TakeEvents(events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].boot_ns, 7);
}

TEST(NvmlProtocol, NumbersOutOfRange) {
  MessageEncoder encoder;
  auto bytes = Copy(EncodeProcesses(encoder, 0, 0, std::vector<GpuProcess>(1)));
  EXPECT_EQ(Refusal(bytes, 28, 3), "driver message: process type out of range");
  std::vector<std::byte> many(8 + 16 + (kMaxProcesses + 1) * sizeof(GpuProcess));
  std::memcpy(many.data(), bytes.data(), 16);
  EXPECT_EQ(Refusal(many, 4, static_cast<uint32_t>(many.size() - 8)),
            "driver message: process list has a wrong length");
  SliceKey mig{.kind = SliceKind::kMig, .id = 1, .sub = 0};
  bytes = Copy(EncodeSlice(encoder, 0, mig, {}));
  EXPECT_EQ(Refusal(bytes, 28, 1'000'000), "driver message: part has a wrong length, or too many facts");
}

// The numbers of this library are those that the agent validates readings by.
TEST(NvmlProtocol, FieldsOfALinkAreInTheRangeOfLinks) {
  MessageEncoder encoder;
  auto decodes = [&](DeviceReading reading) {
    return reader::DecodeMessage(encoder.Encode(std::span(&reading, 1)), NvmlVendor()).ok();
  };
  EXPECT_TRUE(decodes({.field = kFieldCount - 1, .status = ReadStatus::kOk}));
  EXPECT_FALSE(decodes({.field = kFieldCount, .status = ReadStatus::kOk}));
  EXPECT_TRUE(decodes({.field = kLinkFieldCount - 1, .status = ReadStatus::kOk, .link = LinkOfC2c(15)}));
  EXPECT_FALSE(decodes({.field = kLinkFieldCount, .status = ReadStatus::kOk, .link = LinkOfC2c(3)}));
  EXPECT_FALSE(decodes({.field = 0, .status = ReadStatus::kOk, .link = kLinkEnd}));
}

TEST(NvmlProtocol, TheCorpusNeedsNoFuzzer) {
  const std::string folder = GPULENS_SOURCE_DIR "/src/sources/nvml/testdata/reader_protocol_corpus";
  DIR* dir = ::opendir(folder.c_str());
  ASSERT_NE(dir, nullptr);
  int files = 0;
  while (dirent* entry = ::readdir(dir)) {
    std::string name = entry->d_name;
    if (name.starts_with(".")) continue;
    auto text = ReadFile(folder + "/" + name);
    ASSERT_TRUE(text.ok()) << name;
    auto message = reader::DecodeMessage(std::as_bytes(std::span(*text)), NvmlVendor());
    bool good = message.ok();
    if (good && std::holds_alternative<reader::VendorReport>(*message))
      good = DecodeReport(std::get<reader::VendorReport>(*message)).ok();
    EXPECT_EQ(good, !name.starts_with("bad_")) << name;
    ++files;
  }
  ::closedir(dir);
  EXPECT_GE(files, 20);
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
  EXPECT_EQ(ReturnText(18), "driver and library have different versions");
  EXPECT_EQ(ReturnText(12345), "unlisted error");
}

}  // namespace
}  // namespace gpulens::nvml
