#include "plugins/analyzers/fleet_health/health_window.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

const std::string kGood =
    "gpulens-fleet-health 1\n"
    "gpu GPU-2f1c ok corrected 12 4 xids - 0\n"
    "at 1711800000123 64 3 0\n"
    "at 1711800005123 64.5 - 0\n"
    "end 1\n";

std::string Refusal(const std::string& text) {
  auto gpus = DecodeHealthFile(text);
  return gpus ? "" : gpus.error().detail;
}
std::string With(const std::string& from, const std::string& to) {
  std::string text = kGood;
  size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(HealthState, ReadsBackWhatItWrote) {
  auto gpus = DecodeHealthFile(kGood);
  ASSERT_TRUE(gpus) << gpus.error().detail;
  ASSERT_EQ(gpus->size(), 1u);
  const SavedGpu& gpu = gpus->front();
  EXPECT_EQ(gpu.key, "GPU-2f1c");
  EXPECT_EQ(gpu.state, HealthState::kOk);
  EXPECT_EQ(gpu.corrected.last, 12);
  EXPECT_EQ(gpu.corrected.grown, 4);
  EXPECT_FALSE(gpu.xids.last);
  ASSERT_EQ(gpu.moments.size(), 2u);
  EXPECT_EQ(gpu.moments[0].at_ns, 1711800000123'000'000);
  EXPECT_EQ(gpu.moments[1].temperature, 64.5f);
  EXPECT_FALSE(gpu.moments[1].corrected);
  EXPECT_EQ(EncodeHealthFile(*gpus), kGood);
}

TEST(HealthState, RoundTripsAnEmptyFile) {
  EXPECT_EQ(EncodeHealthFile({}), "gpulens-fleet-health 1\nend 0\n");
  EXPECT_TRUE(DecodeHealthFile("gpulens-fleet-health 1\nend 0\n"));
}

TEST(HealthState, RejectsADamagedFile) {
  EXPECT_EQ(Refusal(""), "line 1 is not a file of this version");
  EXPECT_EQ(Refusal(With("health 1", "health 2")), "line 1 is not a file of this version");
  EXPECT_EQ(Refusal(kGood.substr(0, kGood.size() / 2)), "line 2 cannot be parsed");
  EXPECT_EQ(Refusal(kGood.substr(0, kGood.find("end"))), "line 4 ends too early");
  EXPECT_EQ(Refusal(With("end 1", "end 2")), "line 5 ends wrongly");
  EXPECT_EQ(Refusal(kGood + "more\n"), "line 5 ends wrongly");
  EXPECT_NE(Refusal(std::string(kHealthFileLimit + 1, 'x')), "");
}

TEST(HealthState, RejectsImpossibleValues) {
  EXPECT_EQ(Refusal(With("GPU-2f1c", "GPU 2f1c")), "line 2 cannot be parsed");
  EXPECT_EQ(Refusal(With("GPU-2f1c", "GPU\x1b[2J")), "line 2 cannot be parsed");
  EXPECT_EQ(Refusal(With("GPU-2f1c", std::string(200, 'x'))), "line 2 cannot be parsed");
  EXPECT_EQ(Refusal(With(" ok ", " fine ")), "line 2 cannot be parsed");
  EXPECT_EQ(Refusal(With("12 4", "12 -4")), "line 2 cannot be parsed");
  EXPECT_EQ(Refusal(With("12 4", "nan 4")), "line 2 cannot be parsed");
  EXPECT_EQ(Refusal(With("12 4", "12 -")), "line 2 cannot be parsed");
  EXPECT_EQ(Refusal(With("12 4", "12 2")), "line 3 cannot be parsed") << "a moment knows more than the end";
  EXPECT_EQ(Refusal(With("123 64 ", "123 900 ")), "line 3 cannot be parsed");
  EXPECT_EQ(Refusal(With("64 3 0", "64 3 0 7")), "line 3 cannot be parsed");
  EXPECT_EQ(Refusal(With("1711800000123", "0")), "line 3 cannot be parsed");
  EXPECT_EQ(Refusal(With("1711800000123", "9223372036854775807")), "line 3 cannot be parsed");
  EXPECT_EQ(Refusal(With("1711800005123", "1711800000123")), "line 4 cannot be parsed")
      << "time stands still";
  EXPECT_EQ(Refusal(With("end 1", "at 1711800006123 64 2 0\nend 1")), "line 5 cannot be parsed") << "a fall";
  EXPECT_EQ(Refusal(With("end 1", "gpu GPU-2f1c ok corrected - 0 xids - 0\nend 2")),
            "line 5 cannot be parsed")
      << "the same GPU twice";
  EXPECT_EQ(Refusal("gpulens-fleet-health 1\nat 1711800006123 64 2 0\nend 0\n"), "line 2 cannot be parsed");
}

TEST(HealthState, RejectsMoreThanAWindow) {
  std::string text = "gpulens-fleet-health 1\ngpu a - corrected - 0 xids - 0\n";
  for (size_t i = 0; i < HealthWindow::kMoments; ++i) text += "at " + std::to_string(1000 + i) + " - - -\n";
  EXPECT_TRUE(DecodeHealthFile(text + "end 1\n"));
  EXPECT_FALSE(DecodeHealthFile(text + "at 9999 - - -\nend 1\n"));
}

TEST(HealthState, OmitsInvalidKeys) {
  SavedGpu odd, good;
  odd.key = "GPU\nend 0";
  good.key = "GPU-1";
  auto gpus = DecodeHealthFile(EncodeHealthFile({odd, good}));
  ASSERT_TRUE(gpus) << gpus.error().detail;
  ASSERT_EQ(gpus->size(), 1u);
  EXPECT_EQ(gpus->front().key, "GPU-1");
}

}  // namespace
}  // namespace gpulens
