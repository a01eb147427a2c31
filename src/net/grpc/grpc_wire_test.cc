#include "net/grpc/grpc_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace gpulens {
namespace {

using State = GrpcMessageReader::State;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST(GrpcStatus, CodesHaveNamesAndNumbers) {
  EXPECT_EQ(GrpcCodeName(GrpcCode::kOk), "OK");
  EXPECT_EQ(GrpcCodeName(GrpcCode::kUnauthenticated), "UNAUTHENTICATED");
  EXPECT_EQ(static_cast<int>(GrpcCode::kUnavailable), 14);
  EXPECT_EQ(ReadGrpcCode("8"), GrpcCode::kResourceExhausted);
  EXPECT_EQ(ReadGrpcCode("99"), GrpcCode::kUnknown);
  for (const char* bad : {"", "x", "-1", " 3", "3 ", "99999999999"}) EXPECT_FALSE(ReadGrpcCode(bad)) << bad;
  EXPECT_EQ(GrpcCodeOfHttp(401), GrpcCode::kUnauthenticated);
  EXPECT_EQ(GrpcCodeOfHttp(404), GrpcCode::kUnimplemented);
  EXPECT_EQ(GrpcCodeOfHttp(503), GrpcCode::kUnavailable);
  EXPECT_EQ(GrpcCodeOfHttp(418), GrpcCode::kUnknown);
}

TEST(GrpcStatus, MessagesAreEscaped) {
  EXPECT_EQ(EncodeGrpcMessage("100% of ä\n"), "100%25 of %C3%A4%0A");
  EXPECT_EQ(DecodeGrpcMessage("100%25 of %C3%a4%0A"), "100% of ä\n");
  EXPECT_EQ(DecodeGrpcMessage("%"), "%");
  EXPECT_EQ(DecodeGrpcMessage("%4"), "%4");
  EXPECT_EQ(DecodeGrpcMessage("%zz%41"), "%zzA");
  EXPECT_EQ(DecodeGrpcMessage(std::string(5000, 'x')).size(), 1000u);
}

TEST(GrpcStatus, TimeoutsAreRoundedUpAndFit) {
  EXPECT_EQ(GrpcTimeout(seconds(10)), "10000000u");
  EXPECT_EQ(GrpcTimeout(nanoseconds(5)), "5n");
  EXPECT_EQ(GrpcTimeout(seconds(-1)), "1n");
  EXPECT_EQ(GrpcTimeout(seconds(200) + nanoseconds(1)), "200001m");
  EXPECT_EQ(GrpcTimeout(hours(100'000)), "6000000M");
  EXPECT_EQ(ReadGrpcTimeout("10000000u"), Duration(seconds(10)));
  EXPECT_EQ(ReadGrpcTimeout("2H"), Duration(hours(2)));
  EXPECT_EQ(ReadGrpcTimeout("99999999H"), Duration(hours(24 * 365)));
  for (const char* bad : {"", "5", "S", "-5S", "5x", "123456789S", "5 S"})
    EXPECT_FALSE(ReadGrpcTimeout(bad)) << bad;
}

TEST(GrpcStatus, BinaryFieldsGoBothWays) {
  EXPECT_EQ(EncodeGrpcBinary("any carnal pleas"), "YW55IGNhcm5hbCBwbGVhcw");
  EXPECT_EQ(DecodeGrpcBinary("YW55IGNhcm5hbCBwbGVhcw=="), "any carnal pleas");
  std::mt19937 random(1);
  for (size_t size = 0; size < 70; ++size) {
    std::string bytes(size, 0);
    for (char& byte : bytes) byte = static_cast<char>(random());
    EXPECT_EQ(DecodeGrpcBinary(EncodeGrpcBinary(bytes)), bytes);
  }
  for (const char* bad : {"a", "ab*c", "====", "abcde"}) EXPECT_FALSE(DecodeGrpcBinary(bad)) << bad;
}

TEST(GrpcStatus, RetryInfoGoesBothWays) {
  const std::string details = MakeGrpcDetails(GrpcCode::kResourceExhausted, "busy", milliseconds(1500));
  EXPECT_EQ(ReadGrpcRetryInfo(details), Duration(milliseconds(1500)));
  // As protoc writes it: Status{8, "busy", [Any{RetryInfo{1 s, 500000000 ns}}]}.
  EXPECT_EQ(details, std::string("\x08\x08\x12\x04"
                                 "busy\x1a\x36\x0a\x28type.googleapis.com/"
                                 "google.rpc.RetryInfo\x12\x0a\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01"));
  EXPECT_EQ(ReadGrpcRetryInfo(MakeGrpcDetails(GrpcCode::kUnavailable, "x", std::nullopt)), std::nullopt);
  EXPECT_EQ(ReadGrpcRetryInfo(MakeGrpcDetails(GrpcCode::kUnavailable, "", hours(1000))), Duration(hours(24)));
}

TEST(GrpcStatus, DamagedDetailsGiveNothing) {
  const std::string details = MakeGrpcDetails(GrpcCode::kResourceExhausted, "busy", milliseconds(1500));
  for (size_t size = 0; size < details.size(); ++size)
    EXPECT_FALSE(ReadGrpcRetryInfo(std::string_view(details).substr(0, size))) << size;
  // A delay of -1 s, and none at all.
  const std::string any = "\x0a\x28type.googleapis.com/google.rpc.RetryInfo\x12";
  const std::string below = "\x0d\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
  EXPECT_EQ(
      ReadGrpcRetryInfo("\x1a" + std::string(1, static_cast<char>(any.size() + below.size())) + any + below),
      Duration(0));
  EXPECT_EQ(
      ReadGrpcRetryInfo("\x1a" + std::string(1, static_cast<char>(any.size() + 1)) + any + std::string(1, 0)),
      Duration(0));
}

TEST(GrpcMessage, IsReadInAnyPieces) {
  const std::string whole = GrpcMessageHead(true, 5) + "hello";
  for (size_t step = 1; step <= whole.size(); ++step) {
    GrpcMessageReader reader(5);
    State state = State::kMore;
    for (size_t at = 0; at < whole.size(); at += step)
      state = reader.Feed(std::string_view(whole).substr(at, step));
    EXPECT_EQ(state, State::kWhole);
    EXPECT_TRUE(reader.packed());
    EXPECT_EQ(reader.message(), "hello");
    EXPECT_EQ(reader.Feed("x"), State::kBad);
  }
}

TEST(GrpcMessage, TheLimitHoldsBeforeAnythingIsKept) {
  GrpcMessageReader reader(4);
  EXPECT_EQ(reader.Feed(GrpcMessageHead(false, 5)), State::kTooLarge);
  EXPECT_EQ(reader.announced(), 5u);
  EXPECT_EQ(reader.Feed("hello"), State::kTooLarge);
  EXPECT_TRUE(reader.message().empty());
  GrpcMessageReader empty(4);
  EXPECT_EQ(empty.Feed(GrpcMessageHead(false, 0)), State::kWhole);
  GrpcMessageReader flag(4);
  EXPECT_EQ(flag.Feed(std::string("\2\0\0\0\1x", 6)), State::kBad);
}

TEST(GrpcMessage, BadGzipIsRefusedWithoutMuchMemory) {
  std::string out;
  EXPECT_FALSE(GrpcGunzip("", 0, out));
  EXPECT_FALSE(GrpcGunzip("not gzip, but long enough", 5, out));
  // A member that announces an impossible size.
  EXPECT_FALSE(GrpcGunzip(std::string(40, '\x7f'), size_t{1} << 30, out));
  EXPECT_EQ(out.capacity() < 1000, true);
  EXPECT_EQ(GrpcUnpackedSize(std::string(14, 0) + std::string("\1\2\0\0", 4)), 513u);
  EXPECT_EQ(GrpcUnpackedSize("short"), 0u);
}

}  // namespace
}  // namespace gpulens
