#include "reader/device_table.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace gpulens::reader {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr FieldInfo kFields[] = {{"power", "W", FieldTier::kFast}, {"energy", "uJ", FieldTier::kFast}};
constexpr VendorTables kVendor{.name = "test",
                               .no_devices = "none",
                               .device = "GPU",
                               .fields = kFields,
                               .call_name = [](CallNumber call) noexcept -> std::string_view {
                                 return call == 1 ? "get_power" : call == 2 ? "open_device" : "unknown";
                               },
                               .slow_call = [](CallNumber call) noexcept { return call == 2; },
                               .links = 3,
                               .link_fields = 2};
constexpr DeviceTable::Deadlines kDeadlines{milliseconds(500), seconds(30)};

class DeviceTableTest : public testing::Test {
 protected:
  DeviceTableTest() {
    table_.Begin(clock_.Now(), minutes(5));
    table_.Expect(3);
    for (uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(Attach(i).ok());
  }
  Status Attach(uint32_t index, DeviceState state = DeviceState::kOk, std::string_view uuid = "a") {
    DeviceReport report;
    report.device = index;
    report.state = state;
    report.fact_count = state == DeviceState::kOk ? 1 : 0;
    report.facts[0] = {"uuid", uuid};
    return table_.Take(report);
  }
  Status Read(uint32_t device, ReadStatus status, int64_t raw) {
    DeviceReading reading{
        .device = device, .field = 0, .status = status, .boot_ns = clock_.Now().boot_ns, .raw = raw};
    return table_.Take(ReadingsReport{WireArray<DeviceReading>(std::as_bytes(std::span(&reading, 1)))},
                       clock_.Now());
  }
  const DeviceEntry& At(size_t i) const { return table_.devices()[i]; }

  ManualClock clock_;
  CallPage page_;
  // Records its calls.
  struct State final : VendorState {
    State() { devices.reserve(kMaxDevices); }
    DeviceEntry& Add() override { return devices.emplace_back(); }
    void Forget(uint32_t device) override { forgotten.push_back(device); }
    Status Take(const VendorReport& report, Instant) override {
      if (report.kind == 7) return BadMessage("of kind 7");
      kinds.push_back(report.kind);
      return Status{};
    }
    std::vector<DeviceEntry> devices;
    std::vector<uint32_t> forgotten, kinds;
  } vendor_state_;
  DeviceTable table_{kVendor, vendor_state_};
};

TEST_F(DeviceTableTest, AFailedReadingKeepsTheValueAndItsAge) {
  ASSERT_TRUE(Read(1, ReadStatus::kOk, 512).ok());
  int64_t then = clock_.Now().boot_ns;
  clock_.Advance(seconds(1));
  ASSERT_TRUE(Read(1, ReadStatus::kError, 0).ok());
  EXPECT_EQ(At(1).fields[0].status, ReadStatus::kError);
  EXPECT_EQ(At(1).fields[0].raw, 512);
  EXPECT_EQ(At(1).fields[0].boot_ns, then);
  EXPECT_FALSE(Read(3, ReadStatus::kOk, 1).ok()) << "a device that was not counted";
}

TEST_F(DeviceTableTest, AReadingFromTheFutureIsFromNow) {
  DeviceReading reading{.device = 0, .field = 0, .status = ReadStatus::kOk, .boot_ns = INT64_MAX, .raw = 1};
  ASSERT_TRUE(
      table_
          .Take(ReadingsReport{WireArray<DeviceReading>(std::as_bytes(std::span(&reading, 1)))}, clock_.Now())
          .ok());
  EXPECT_EQ(At(0).fields[0].boot_ns, clock_.Now().boot_ns);
}

TEST_F(DeviceTableTest, AHangIsNamedOnceAndEndsWithTheCall) {
  page_.devices[2].Begin(1, clock_.Now().boot_ns);
  clock_.Advance(milliseconds(600));
  DeviceTable::Hangs hangs = table_.CheckCalls(page_, kDeadlines, clock_.Now());
  EXPECT_EQ(hangs.started, 1U);
  EXPECT_FALSE(hangs.all);
  EXPECT_EQ(At(2).state, DeviceState::kHung);
  EXPECT_EQ(At(0).state, DeviceState::kOk);
  EXPECT_EQ(table_.HungCall(), "get_power on GPU 2");
  EXPECT_EQ(table_.CheckCalls(page_, kDeadlines, clock_.Now()).started, 0U);
  page_.devices[2].End();
  table_.CheckCalls(page_, kDeadlines, clock_.Now());
  EXPECT_EQ(At(2).state, DeviceState::kOk);
}

// A page can have any call of a device that the process has not counted.
TEST_F(DeviceTableTest, ADeviceThatIsNotCountedDoesNotHang) {
  table_.Expect(0);
  page_.devices[1].Begin(1, clock_.Now().boot_ns);
  clock_.Advance(seconds(10));
  const auto hangs = table_.CheckCalls(page_, kDeadlines, clock_.Now());
  EXPECT_EQ(hangs.started, 0u);
  EXPECT_FALSE(hangs.all) << "the process would be killed for it";
  EXPECT_EQ(table_.hung(), 0u);
}

TEST_F(DeviceTableTest, ACallFromBeforeTheBootIsAHang) {
  page_.devices[1].Begin(1, INT64_MIN);
  EXPECT_EQ(page_.devices[1].Read().since_boot_ns, 0) << "its age is a number";
  clock_.Advance(seconds(10));
  EXPECT_EQ(table_.CheckCalls(page_, kDeadlines, clock_.Now()).started, 1u);
}

TEST_F(DeviceTableTest, ASlowCallHasLonger) {
  page_.devices[0].Begin(2, clock_.Now().boot_ns);
  clock_.Advance(seconds(20));
  EXPECT_EQ(table_.CheckCalls(page_, kDeadlines, clock_.Now()).started, 0U);
  clock_.Advance(seconds(20));
  EXPECT_EQ(table_.CheckCalls(page_, kDeadlines, clock_.Now()).started, 1U);
}

TEST_F(DeviceTableTest, ReportsThatAllDevicesHang) {
  for (CallSlot& slot : page_.devices) slot.Begin(1, clock_.Now().boot_ns);
  clock_.Advance(seconds(1));
  EXPECT_TRUE(table_.CheckCalls(page_, kDeadlines, clock_.Now()).all);
}

TEST_F(DeviceTableTest, ADeviceThatHangsTwiceIsLeftOutForAWhile) {
  for (int i = 0; i < 2; ++i) {
    page_.devices[1].Begin(1, clock_.Now().boot_ns);
    clock_.Advance(seconds(1));
    table_.CheckCalls(page_, kDeadlines, clock_.Now());
    page_.devices[1].End();
    uint64_t left_out = table_.Begin(clock_.Now(), minutes(5));
    EXPECT_EQ(left_out, i == 0 ? 0U : 2U);
  }
  EXPECT_EQ(At(1).state, DeviceState::kLeftOut);
  EXPECT_EQ(table_.left_out(), 1U);
  EXPECT_EQ(table_.DueForRetry(clock_.Now()), kMaxDevices);
  clock_.Advance(minutes(6));
  EXPECT_EQ(table_.DueForRetry(clock_.Now()), 1U);
  table_.Retry(1, clock_.Now());
  EXPECT_EQ(At(1).state, DeviceState::kStarting);
}

TEST_F(DeviceTableTest, ADeviceThatEndsTheProcessTwiceIsLeftOutForLongerEachTime) {
  EXPECT_FALSE(table_.TakeEnd(1, clock_.Now()));
  EXPECT_EQ(table_.Begin(clock_.Now(), minutes(5)), 0U) << "once may be chance";
  EXPECT_TRUE(table_.TakeEnd(1, clock_.Now()));
  EXPECT_EQ(table_.Begin(clock_.Now(), minutes(5)), 2U);
  EXPECT_EQ(At(1).state, DeviceState::kLeftOut);
  for (int rest : {5, 10, 20, 40, 40}) {
    clock_.Advance(minutes(rest) - seconds(1));
    EXPECT_EQ(table_.DueForRetry(clock_.Now()), kMaxDevices) << rest;
    clock_.Advance(seconds(1));
    ASSERT_EQ(table_.DueForRetry(clock_.Now()), 1U) << rest;
    table_.Retry(1, clock_.Now());
    EXPECT_TRUE(table_.TakeEnd(1, clock_.Now())) << "it has had its chance";
    EXPECT_EQ(table_.Begin(clock_.Now(), minutes(5)), 2U);
  }
  EXPECT_FALSE(table_.TakeEnd(7, clock_.Now())) << "a device that was not counted";
}

TEST_F(DeviceTableTest, EndsThatLieFarApartAreNotCountedTogether) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(table_.TakeEnd(1, clock_.Now()));
    EXPECT_EQ(table_.Begin(clock_.Now(), minutes(5)), 0U);
    clock_.Advance(minutes(5));
  }
}

TEST_F(DeviceTableTest, ADeviceWithoutAThreadIsNotUsed) {
  ASSERT_TRUE(Attach(1, DeviceState::kUnread).ok());
  EXPECT_EQ(table_.unread(), 1U);
  EXPECT_EQ(table_.used(), 2U);
  ASSERT_TRUE(Attach(1).ok());
  EXPECT_EQ(table_.unread(), 0U);
}

TEST_F(DeviceTableTest, AnotherIdentityForgetsReadings) {
  ASSERT_TRUE(Read(0, ReadStatus::kOk, 512).ok());
  uint32_t version = At(0).identity_version;
  ASSERT_TRUE(Attach(0).ok());
  EXPECT_EQ(At(0).identity_version, version) << "the same again";
  ASSERT_TRUE(Attach(0, DeviceState::kOk, "b").ok());
  EXPECT_EQ(At(0).identity_version, version + 1);
  EXPECT_EQ(At(0).fields[0].boot_ns, 0);
}

TEST_F(DeviceTableTest, OneLostDeviceIsLostAlone) {
  ASSERT_TRUE(Read(1, ReadStatus::kLost, 0).ok());
  EXPECT_EQ(At(1).state, DeviceState::kLost);
  EXPECT_EQ(At(0).state, DeviceState::kOk);
  ASSERT_TRUE(Attach(1).ok());
  EXPECT_EQ(At(1).state, DeviceState::kOk) << "it came back";
  table_.Expect(2);
  EXPECT_EQ(At(2).state, DeviceState::kLost) << "the library lists it no more";
}

// Devices that are counted, not counted, and counted again are opened again, whatever number they have now.
TEST_F(DeviceTableTest, ADeviceThatIsCountedAgainIsListedAgain) {
  ASSERT_TRUE(Read(2, ReadStatus::kOk, 512).ok());
  table_.Expect(2);
  EXPECT_FALSE(At(2).counted);
  EXPECT_EQ(At(2).state, DeviceState::kLost);
  EXPECT_FALSE(table_.AnyAway()) << "it was taken away: nobody waits for it";
  table_.Expect(3);
  EXPECT_TRUE(At(2).counted);
  EXPECT_EQ(At(2).state, DeviceState::kStarting);
  ASSERT_TRUE(Attach(2, DeviceState::kOk, "b").ok());
  EXPECT_EQ(At(2).fields[0].boot_ns, 0) << "another one has its number";
  EXPECT_EQ(At(2).opened, 2U);
  EXPECT_EQ(vendor_state_.forgotten.back(), 2U);
}

// One of three leaves; those behind it move up. Each is listed once, and the missing one is the lost one.
TEST_F(DeviceTableTest, ADeviceWithAnotherNumberIsTheSameDevice) {
  const std::string_view uuids[] = {"a", "b", "c"};
  for (uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(Attach(i, DeviceState::kOk, uuids[i]).ok());
  table_.Begin(clock_.Now(), minutes(5));
  table_.Expect(2);
  EXPECT_EQ(At(2).state, DeviceState::kStarting) << "which one is missing is not known yet";
  ASSERT_TRUE(Attach(0, DeviceState::kOk, "b").ok());
  EXPECT_EQ(At(2).state, DeviceState::kStarting);
  ASSERT_TRUE(Attach(1, DeviceState::kOk, "c").ok());
  EXPECT_EQ(At(0).Fact("uuid"), "b");
  EXPECT_EQ(At(1).Fact("uuid"), "c");
  EXPECT_EQ(At(2).Fact("uuid"), "a");
  EXPECT_EQ(At(2).state, DeviceState::kLost);
  // It comes back, and the library is opened in the other order.
  table_.Begin(clock_.Now(), minutes(5));
  table_.Expect(3);
  for (uint32_t i : {2U, 1U, 0U}) ASSERT_TRUE(Attach(i, DeviceState::kOk, uuids[i]).ok());
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(At(i).Fact("uuid"), uuids[i]);
    EXPECT_EQ(At(i).state, DeviceState::kOk);
  }
}

TEST_F(DeviceTableTest, AMissingDeviceIsLostThoughAnotherDoesNotOpen) {
  table_.Begin(clock_.Now(), minutes(5));
  table_.Expect(2);
  ASSERT_TRUE(Attach(0).ok());
  page_.devices[1].Begin(2, clock_.Now().boot_ns);
  clock_.Advance(minutes(1));
  table_.CheckCalls(page_, kDeadlines, clock_.Now());
  EXPECT_EQ(At(1).state, DeviceState::kHung);
  EXPECT_EQ(At(2).state, DeviceState::kLost);
}

// Partitions of one board may have one UUID.
TEST_F(DeviceTableTest, DevicesWithOneIdentityKeepTheirFacts) {
  for (int round = 0; round < 2; ++round) {
    table_.Begin(clock_.Now(), minutes(5));
    table_.Expect(3);
    for (uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(Attach(i, DeviceState::kOk, round == 0 ? "a" : "z").ok());
    for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(At(i).Fact("uuid"), round == 0 ? "a" : "z");
  }
}

TEST_F(DeviceTableTest, FaultsOfOldNumbersAreForgottenWhenTheCountChanges) {
  for (int i = 0; i < 2; ++i) table_.TakeEnd(1, clock_.Now());
  EXPECT_EQ(table_.Begin(clock_.Now(), minutes(5)), 2U);
  table_.Expect(2);
  EXPECT_EQ(table_.Begin(clock_.Now(), minutes(5)), 0U);
}

TEST_F(DeviceTableTest, HangsOfOldNumbersAreForgotten) {
  for (int i = 0; i < 2; ++i) {
    page_.devices[1].Begin(1, clock_.Now().boot_ns);
    clock_.Advance(seconds(1));
    table_.CheckCalls(page_, kDeadlines, clock_.Now());
    page_.devices[1].End();
    table_.CheckCalls(page_, kDeadlines, clock_.Now());
  }
  table_.ForgetFaults();
  EXPECT_EQ(table_.Begin(clock_.Now(), minutes(5)), 0U);
}

TEST_F(DeviceTableTest, LinksAppearWithTheirReadings) {
  DeviceReading reading{
      .device = 0, .field = 1, .status = ReadStatus::kOk, .link = 3, .boot_ns = 1, .raw = 9};
  ASSERT_TRUE(
      table_
          .Take(ReadingsReport{WireArray<DeviceReading>(std::as_bytes(std::span(&reading, 1)))}, clock_.Now())
          .ok());
  ASSERT_EQ(At(0).links.size(), 3U);
  EXPECT_EQ(At(0).links[2][1].raw, 9);
  EXPECT_EQ(At(0).links[0][1].status, ReadStatus::kNever);
}

TEST_F(DeviceTableTest, MessagesOfTheVendorAreForwarded) {
  EXPECT_TRUE(table_.Take(ReaderMessage(VendorReport{.device = 1, .kind = 5}), clock_.Now()).ok());
  EXPECT_EQ(vendor_state_.kinds, std::vector<uint32_t>{5});
  EXPECT_FALSE(table_.Take(VendorReport{.device = 1, .kind = 7}, clock_.Now()).ok());
  EXPECT_FALSE(table_.Take(VendorReport{.device = 3, .kind = 5}, clock_.Now()).ok()) << "not counted";
  EXPECT_FALSE(PlainVendorState().Take(VendorReport{}, clock_.Now()).ok());
}

}  // namespace
}  // namespace gpulens::reader
