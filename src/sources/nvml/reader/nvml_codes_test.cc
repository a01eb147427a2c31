// Every function of the library, missing or answering every code: the reader neither crashes nor makes
// a value up: what it reports equals what it reports at the same moment when every call works.
#include <gtest/gtest.h>

#include <span>
#include <unordered_map>

#include "base/sanitizers.h"
#include "sources/nvml/reader/reader_for_test.h"

namespace gpulens::nvml {
namespace {

using std::chrono::seconds;

constexpr const char* kCalls[] = {
#define GPULENS_NVML_TEST_NAME(id, symbol, parameters) #symbol,
    GPULENS_NVML_CALLS(GPULENS_NVML_TEST_NAME)
#undef GPULENS_NVML_TEST_NAME
};
constexpr int kCodes[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                          16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 999};

class CodesTest : public ReaderTest {
 protected:
  // Second, link and field in one word: thousands of rounds are looked up, in a build without optimisation.
  using Key = uint64_t;
  static Key KeyOf(int64_t second, uint8_t link, uint16_t field) {
    return static_cast<uint64_t>(second) << 24U | static_cast<uint64_t>(link) << 16U | field;
  }
  static constexpr int64_t kSeconds[] = {0, 1, 2, 11, 62};
  using Seen = std::unordered_map<Key, int64_t>;

  // Rounds at the same moments, whatever was before; false when the GPU cannot be opened.
  bool Run(const std::string& model, const std::string& more) {
    seen_.clear();
    clock_ = ManualClock{{.boot_ns = 1'000'000'000'000, .unix_ns = 1'700'000'000'000'000'000}};
    std::string yaml = "model: " + model + "\ngpus: 2\nload: {kind: sine, level: 0.5, amplitude: 0.3}\n" +
                       "pcie_counters: true\nprocesses: [{pid: 7, memory: 2GiB}]\n" + more;
    Status status = FakeWorld::Get().Use(yaml, &clock_);
    EXPECT_TRUE(status.ok()) << status.detail;
    if (FakeWorld::Get().Open() != 0) return false;
    FakeWorld::Get().ForgetCalls();
    auto library = NvmlLibrary::FromLookup(FakeNvmlLookup, "simulated");
    if (!library) return false;
    library_ = std::make_unique<NvmlLibrary>(*std::move(library));
    options_.details = kDetailsAll;
    reader_ = std::make_unique<GpuReader>(*library_, 0, slot_, clock_, options_);
    if (reader_->Attach() != 0) return false;
    for (int64_t second : kSeconds) {
      clock_.Advance(seconds(second) - Duration(clock_.Now().boot_ns - 1'000'000'000'000));
      reader_->Read(clock_.Now().boot_ns);
      for (const DeviceReading& reading : reader_->readings()) {
        if (reading.status == ReadStatus::kOk)
          seen_[KeyOf(second, reading.link, reading.field)] = reading.raw;
      }
    }
    return true;
  }

  // Fields that differ when another function, an older struct or another moment provides them.
  static bool MayDiffer(uint8_t link, uint16_t field) {
    if (link != 0) return false;
    switch (static_cast<Field>(field)) {
      case Field::kMemoryUsed:  // With what the driver reserves.
      case Field::kUnifiedTotal:
      case Field::kUnifiedUsed:  // The same.
      case Field::kFanSpeedMax:  // One fan for all.
      case Field::kFanSpeedMean:
      case Field::kFabricHealth:  // Not reported.
      case Field::kFabricClique:
      case Field::kFabricClusterHigh:
      case Field::kFabricClusterLow:
      case Field::kProcessCount:  // Of those that can be listed.
      case Field::kInforomValid:  // The code is the answer.
      case Field::kNvlinkActive: return true;
      default: return false;
    }
  }

  static bool Between(const Seen& well, uint8_t link, uint16_t field, int64_t raw) {
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (int64_t second : kSeconds) {
      auto found = well.find(KeyOf(second, link, field));
      if (found == well.end()) continue;
      least = std::min(least, found->second);
      most = std::max(most, found->second);
    }
    return least > most || (raw >= least && raw <= most);
  }

  void ExpectNothingMadeUp(const Seen& well, const std::string& what) {
    for (const auto& [key, raw] : seen_) {
      uint64_t second = key >> 24U;
      auto link = static_cast<uint8_t>(key >> 16U);
      auto field = static_cast<uint16_t>(key);
      if (MayDiffer(link, field)) continue;
      auto found = well.find(key);
      // A counter whose first kind of id failed comes a round later than the other.
      if (found == well.end() && link != 0) continue;
      std::string name(link != 0 ? LinkFieldName(static_cast<LinkField>(field))
                                 : InfoOf(static_cast<Field>(field)).name);
      // Samples since the round before, when that one failed, reach back further.
      if (name.starts_with("sampled_")) continue;
      if (found == well.end()) {
        // A failed field is retried early: its value lies between those before and after.
        bool out_of_turn =
            InfoOf(static_cast<Field>(field)).tier != FieldTier::kFast && Between(well, link, field, raw);
        EXPECT_TRUE(name.starts_with("nvlink_") || out_of_turn) << what << ": " << name << " at " << second;
      } else {
        EXPECT_EQ(found->second, raw) << what << ": " << name << " at " << second;
      }
    }
  }

  Seen seen_;
};

class EveryCall : public CodesTest, public testing::WithParamInterface<const char*> {};

// One thread alone works here: for the thread sanitizer, which makes it slow, a link is enough.
TEST_P(EveryCall, MayAnswerAnyCode) {
  for (const char* model : {"H100", "GB200", "RTX4090"}) {
    if (kThreadSanitizer && model[0] != 'H') continue;
    ASSERT_TRUE(Run(model, ""));
    Seen well = seen_;
    ASSERT_GT(well.size(), 200U);
    constexpr int kOneOfEachMeaning[] = {3, 4, 6, 7, 15, 16, 25, 999};
    bool first = model[0] == 'H' && !kThreadSanitizer;
    for (int code : first ? std::span<const int>(kCodes) : std::span<const int>(kOneOfEachMeaning)) {
      std::string rule = std::string("errors: [{call: ") + GetParam() + ", code: " + std::to_string(code);
      Run(model, rule + "}]\n");
      ExpectNothingMadeUp(well, std::string(model) + " " + GetParam() + "=" + std::to_string(code));
    }
    // Once only, in the midst of the work.
    for (int code : {3, 15, 999}) {
      std::string rule = std::string("errors: [{call: ") + GetParam() + ", code: " + std::to_string(code);
      Run(model, rule + ", nth: 2}]\n");
      ExpectNothingMadeUp(well, std::string(model) + " 2nd " + GetParam() + "=" + std::to_string(code));
    }
  }
}

TEST_P(EveryCall, MayBeMissing) {
  for (const char* model : {"V100", "H100", "GB200"}) {
    ASSERT_TRUE(Run(model, ""));
    Seen well = seen_;
    Run(model, std::string("missing: [") + GetParam() + "]\n");
    // These two count for the functions they replaced, too.
    bool shared = GetParam() == std::string_view("nvmlDeviceGetCount_v2") ||
                  GetParam() == std::string_view("nvmlDeviceGetHandleByIndex_v2");
    if (!shared) {
      EXPECT_EQ(FakeWorld::Get().Calls(GetParam(), -1), 0U);
    }
    ExpectNothingMadeUp(well, std::string(model) + " without " + GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, EveryCall, testing::ValuesIn(kCalls),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace gpulens::nvml
