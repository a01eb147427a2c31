#include <gpulens/c.h>
#include <gpulens/export.h>
#include <gpulens/instruments.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/testing/allocations.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;

TEST(CFace, RecordsIntoTheRegistryOfTheProcess) {
  const gpulens_attribute route = {"route", "/a"};
  gpulens_series* jobs = gpulens_counter("c.jobs", "{job}", &route, 1);
  EXPECT_EQ(gpulens_counter("c.jobs", "{job}", &route, 1), jobs);
  EXPECT_NE(gpulens_counter("c.jobs", "{job}", nullptr, 0), jobs);
  EXPECT_STREQ(gpulens_last_error(), "");
  gpulens_series* open = gpulens_updowncounter("c.open", nullptr, nullptr, 0);
  gpulens_series* depth = gpulens_gauge("c.depth", nullptr, nullptr, 0);
  gpulens_series* latency = gpulens_histogram("c.latency", "s", nullptr, 0);
  gpulens_add(jobs, 3);
  std::thread([jobs] { gpulens_add(jobs, 4); }).join();
  gpulens_add(open, -2);
  gpulens_set(depth, 1.5);
  gpulens_record(latency, 0.25);
  const std::string page = ToPrometheus();
  EXPECT_THAT(page, HasSubstr("\nc_jobs_total{route=\"/a\"} 7\n"));
  EXPECT_THAT(page, HasSubstr("\nc_open -2\n"));
  EXPECT_THAT(page, HasSubstr("\nc_depth 1.5\n"));
  EXPECT_THAT(page, HasSubstr("\nc_latency_seconds_count 1\n"));
  gpulens_set(depth, NAN);
  EXPECT_EQ(ToPrometheus().find("c_depth"), std::string::npos);
}

TEST(CFace, DropsInvalidRecordsAndReportsErrors) {
  gpulens_series* counter = gpulens_counter("c.right", nullptr, nullptr, 0);
  gpulens_series* taken = gpulens_gauge("c.right", nullptr, nullptr, 0);
  ASSERT_NE(taken, nullptr);
  EXPECT_THAT(gpulens_last_error(), HasSubstr("\"c.right\" is taken"));
  EXPECT_NE(gpulens_counter(nullptr, nullptr, nullptr, 5), nullptr);
  EXPECT_THAT(gpulens_last_error(), HasSubstr("is not a valid name"));
  const uint64_t before = DroppedRecords();
  gpulens_add(nullptr, 1);
  gpulens_set(nullptr, 1);
  gpulens_record(nullptr, 1);
  gpulens_add(counter, -1);
  gpulens_set(counter, 1);
  gpulens_record(counter, 1);
  gpulens_add(taken, 1);
  EXPECT_EQ(DroppedRecords(), before + 7);
  gpulens_set(taken, 1);
  EXPECT_EQ(gpulens_expose("nowhere"), GPULENS_INVALID_ARGUMENT);
  EXPECT_THAT(gpulens_last_error(), HasSubstr("nowhere"));
  EXPECT_EQ(gpulens_export_otlp("ftp://x"), GPULENS_INVALID_ARGUMENT);
}

TEST(CFace, TakesCertificatesFromTheEnvironment) {
  constexpr const char* kVariable = "OTEL_EXPORTER_OTLP_CERTIFICATE";
  ::setenv(kVariable, "/nonexistent/ca.pem", 1);
  EXPECT_NE(gpulens_export_otlp("https://127.0.0.1:1"), GPULENS_OK);
  EXPECT_THAT(gpulens_last_error(), HasSubstr("/nonexistent/ca.pem"));
  ::unsetenv(kVariable);
}

TEST(CFace, ExportsUntilTheEndOfTheProcess) {
  EXPECT_EQ(gpulens_flush(1), GPULENS_OK) << "nobody to send to";
  EXPECT_EQ(gpulens_expose("127.0.0.1:0"), GPULENS_OK);
  EXPECT_EQ(gpulens_expose("127.0.0.1:0"), GPULENS_OK) << "twice is once";
  EXPECT_EQ(gpulens_export_to_agent("/nonexistent/otlp.sock"), GPULENS_OK);
  EXPECT_EQ(gpulens_export_otlp("http://127.0.0.1:1"), GPULENS_OK);
  EXPECT_EQ(gpulens_flush(20), GPULENS_UNAVAILABLE);
  EXPECT_STRNE(gpulens_last_error(), "");
  EXPECT_NE(gpulens_flush(NAN), GPULENS_INVALID_ARGUMENT) << "does not wait";
}

// On any machine a result is valid or has a reason.
TEST(CFace, WindowIsValidOrHasAReason) {
  for (int share : {0, 1, 2, 99}) {
    gpulens_window* window = gpulens_window_begin(share);
    ASSERT_NE(window, nullptr);
    gpulens_window_tokens(window, 7);
    gpulens_energy energy{};
    energy.size = sizeof energy;
    double devices[64] = {};
    energy.device_joules = devices;
    energy.device_capacity = 64;
    const int code = gpulens_window_end(window, &energy);
    EXPECT_EQ(energy.device_joules, devices);
    double sum = 0;
    for (size_t i = 0; i < energy.device_count; ++i) sum += devices[i];
    EXPECT_TRUE(code != GPULENS_OK || std::abs(sum - energy.energy_joules) < 1e-6);
    EXPECT_EQ(code == GPULENS_OK, energy.validity == GPULENS_VALID);
    EXPECT_TRUE(code != GPULENS_OK || energy.energy_joules >= 0);
    EXPECT_TRUE(energy.validity != GPULENS_NO_DEVICE || std::isnan(energy.energy_joules)) << "never 0";
    EXPECT_EQ(code == GPULENS_OK, std::string(gpulens_last_error()).empty());
    EXPECT_EQ(energy.size, sizeof energy);
  }
  gpulens_window_tokens(nullptr, 1);
  EXPECT_EQ(gpulens_window_end(nullptr, nullptr), GPULENS_INVALID_ARGUMENT);
}

TEST(CFace, DoesNotWriteBeyondAnOlderCallersStruct) {
  gpulens_energy energy{};
  energy.size = offsetof(gpulens_energy, device_energy_joules);
  energy.device_energy_joules = -77;
  static_cast<void>(gpulens_window_end(gpulens_window_begin(GPULENS_WHOLE_DEVICES), &energy));
  EXPECT_EQ(energy.device_energy_joules, -77);
  EXPECT_EQ(energy.size, offsetof(gpulens_energy, device_energy_joules));
}

TEST(CFace, RecordingDoesNotAllocate) {
  gpulens_series* counter = gpulens_counter("c.quick", nullptr, nullptr, 0);
  gpulens_series* histogram = gpulens_histogram("c.quick.values", nullptr, nullptr, 0);
  gpulens_series* gauge = gpulens_gauge("c.quick.gauge", nullptr, nullptr, 0);
  gpulens_add(counter, 1);
  gpulens_record(histogram, 1);
  const uint64_t before = ThreadAllocations();
  for (int i = 1; i < 1'000; ++i) {
    gpulens_add(counter, i);
    gpulens_record(histogram, i);
    gpulens_set(gauge, i);
  }
  EXPECT_EQ(ThreadAllocations(), before);
}

}  // namespace
}  // namespace gpulens
