#include "wire/external_scaler/external_scaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>

#include "base/files.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;

const std::string kData = GPULENS_SOURCE_DIR "/src/wire/external_scaler/testdata/";

std::string Bytes(char tag, std::string_view text) {
  return std::string(1, tag) + static_cast<char>(text.size()) + std::string(text);
}
std::string Entry(std::string_view key, std::string_view value) {
  return Bytes(0x1a, Bytes(0x0a, key) + Bytes(0x12, value));
}

TEST(ExternalScaler, ReadsAnObject) {
  const auto read = ReadScaledObjectRef(Bytes(0x0a, "chat") + Entry("metric", "queue") + Bytes(0x12, "ml") +
                                        Entry("target", "4"));
  ASSERT_TRUE(read.ok()) << read.error().detail;
  EXPECT_EQ(read->name, "chat");
  EXPECT_EQ(read->name_space, "ml");
  EXPECT_EQ(read->metadata,
            (std::map<std::string, std::string, std::less<>>{{"metric", "queue"}, {"target", "4"}}));
}

TEST(ExternalScaler, ReadsAMetricsRequestAndSkipsWhatItDoesNotKnow) {
  const auto read = ReadScalerMetricsRequest(Bytes(0x0a, Bytes(0x0a, "chat") + Bytes(0x7a, "new")) +
                                             Bytes(0x12, "queue") + std::string("\x98\x01\x05", 3));
  ASSERT_TRUE(read.ok()) << read.error().detail;
  EXPECT_EQ(read->object.name, "chat");
  EXPECT_EQ(read->metric, "queue");
  EXPECT_TRUE(ReadScalerMetricsRequest("").ok()) << "an empty message is one, too";
}

TEST(ExternalScaler, Bounds) {
  std::string many;
  for (size_t i = 0; i <= kScalerMetadataEntries; ++i) many += Entry("k" + std::to_string(i), "v");
  EXPECT_EQ(ReadScaledObjectRef(many).error().code, Code::kExhausted);
  const std::string large(kScalerRequestBytes + 1, '\n');
  EXPECT_EQ(ReadScaledObjectRef(large).error().code, Code::kExhausted);
  EXPECT_EQ(ReadScalerMetricsRequest(large).error().code, Code::kExhausted);
  std::string text = "\x0a\x81\x20";  // 4097 bytes
  text += std::string(4097, 'a');
  EXPECT_THAT(ReadScaledObjectRef(text).error().detail, HasSubstr("more than 4096 bytes"));
}

TEST(ExternalScaler, BadMessagesAreRefused) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kData + "bad")) {
    ++files;
    const std::string bytes = *ReadFile(entry.path().string());
    EXPECT_FALSE(ReadScaledObjectRef(bytes).ok()) << entry.path();
  }
  EXPECT_GE(files, 6u);
}

TEST(ExternalScaler, WritesWhatKedaReads) {
  EXPECT_EQ(WriteIsActive(true), std::string("\x08\x01", 2));
  EXPECT_EQ(WriteIsActive(false), "") << "false is the default";
  std::string number(8, 0);
  const auto bits = std::bit_cast<uint64_t>(0.5);
  for (size_t i = 0; i < 8; ++i) number[i] = static_cast<char>(bits >> (8 * i));
  EXPECT_EQ(WriteMetricSpec("kv", 0.5),
            Bytes(0x0a, Bytes(0x0a, "kv") + std::string("\x10\x01\x19", 3) + number))
      << "an old KEDA reads 1, which is never below the double";
  EXPECT_EQ(WriteMetricValue("kv", 0),
            Bytes(0x0a, Bytes(0x0a, "kv") + std::string("\x10\x00\x19", 3) + std::string(8, 0)));
}

}  // namespace
}  // namespace gpulens
