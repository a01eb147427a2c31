#include "pipeline/reader_series.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "catalog/self.h"

namespace gpulens {
namespace {

constexpr reader::FieldInfo kFields[] = {{"power", "W", reader::FieldTier::kFast}};
constexpr reader::VendorTables kVendor{.name = "test", .fields = kFields};

class ReaderSeriesTest : public testing::Test {
 protected:
  double Value(const MetricDesc& desc, std::string_view key = {}, std::string_view value = {}) const {
    for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame_->layout)[slot];
      if (info.desc != &desc || frame_->quality[slot] != Quality::kOk) continue;
      if (!key.empty() && info.attributes.Text(key) != value) continue;
      Cell cell = frame_->cells[info.first_cell];
      return desc.number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
    }
    return std::nan("");
  }
  void Update(const reader::ReaderSource& source) {
    writer_.Begin(clock_.Now());
    series_.Update(source, writer_);
    frame_ = writer_.Finish();
  }

  ManualClock clock_{Instant{1'000'000'000'000, 1'767'312'000'000'000'000}};
  SeriesTable table_;
  FrameWriter writer_{table_, std::chrono::seconds(10), "test"};
  ReaderSeries series_{"test"};
  Ref<const Frame> frame_;
};

TEST_F(ReaderSeriesTest, AReleasedReaderIsDownWithItsReason) {
  reader::SourceOptions options;
  options.program = "/nonexistent/gpulens";
  reader::ReaderSource source(kVendor, options);
  Update(source);
  EXPECT_EQ(Value(kSelfDriverUp), 0);
  EXPECT_EQ(Value(kSelfDriverStarts, "reason", "first"), 0);
  EXPECT_TRUE(std::isnan(Value(kSelfDriverHeartbeatAge))) << "it has never spoken";
  EXPECT_EQ(StatusOf(source.state()).code, Code::kTimeout);
  EXPECT_TRUE(IsStarting(source.state()));
  source.Suspend("released for a test");
  source.Poll(clock_.Now());
  Update(source);
  EXPECT_EQ(Value(kSelfDriverUp), 0);
  EXPECT_EQ(Value(kSelfDriverStarts, "reason", "first"), 0) << "it is not started";
  EXPECT_FALSE(IsStarting(source.state()));
  Status status = StatusOf(source.state());
  EXPECT_EQ(status.code, Code::kUnavailable);
  EXPECT_EQ(status.detail, "released for a test");
  EXPECT_EQ(series_.entity()->attributes.Text("reader"), "test");
}

TEST(DriverStatus, FaultsHaveCodes) {
  reader::ReaderState state;
  state.last_error = "why";
  for (auto [fault, code] : {std::pair{reader::ReaderFault::kNoPermission, Code::kPermissionDenied},
                             std::pair{reader::ReaderFault::kNoDevices, Code::kUnavailable},
                             std::pair{reader::ReaderFault::kHung, Code::kTimeout},
                             std::pair{reader::ReaderFault::kBadMessage, Code::kDataLoss},
                             std::pair{reader::ReaderFault::kCrashed, Code::kIo}}) {
    state.fault = fault;
    EXPECT_EQ(StatusOf(state).code, code);
    EXPECT_EQ(StatusOf(state).detail, "why");
  }
  state.up = true;
  EXPECT_TRUE(StatusOf(state).ok());
}

}  // namespace
}  // namespace gpulens
