#include "delivery/segment_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "delivery/record.h"

namespace gpulens {
namespace {

// A file in memory with these bytes.
SegmentReader Reader(const std::string& bytes) {
  UniqueFd fd(::memfd_create("segment", MFD_CLOEXEC));
  EXPECT_EQ(::write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  auto reader = SegmentReader::Adopt(std::move(fd));
  EXPECT_TRUE(reader.ok());
  return *std::move(reader);
}

std::string HeaderBytes(uint64_t first_id, uint32_t salt = 77) {
  std::array<char, kSegmentHeaderBytes> bytes{};
  BootId boot{};
  boot[0] = 'b';
  EncodeSegmentHeader({.salt = salt, .first_id = first_id, .boot_id = boot}, bytes);
  return {bytes.data(), bytes.size()};
}

std::string RecordBytes(uint64_t id, const std::string& body, uint32_t salt = 77) {
  RecordHead head;
  head.id = id;
  head.length = static_cast<uint32_t>(body.size());
  head.items = 3;
  head.unix_ns = -5;
  head.boot_ns = 1'000'000'000'000;
  head.body_sum = ChecksumOf(salt, body);
  std::array<char, kRecordHeadBytes> bytes{};
  EncodeRecordHead(head, salt, bytes);
  return std::string(bytes.data(), bytes.size()) + body;
}

std::vector<uint64_t> Ids(SegmentReader& reader) {
  std::vector<uint64_t> ids;
  while (auto record = reader.Next()) ids.push_back(record->head.id);
  return ids;
}

TEST(SegmentFormat, TheBytesFollowTheFormat) {
  std::string header = HeaderBytes(12);
  EXPECT_EQ(header.substr(0, 24), std::string("GPLNSSEG\x01\0\0\0\x4D\0\0\0\x0C\0\0\0\0\0\0\0", 24));
  EXPECT_EQ(header.substr(0, 48), header.substr(48));
  std::string record = RecordBytes(12, "abc");
  EXPECT_EQ(record.substr(0, 16), std::string("PRCL\x03\0\0\0\x0C\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(record.size(), 47u);
  // CRC-32 as everybody knows it.
  EXPECT_EQ(ChecksumOf(0, "123456789"), 0xCBF43926u);
}

TEST(SegmentFormat, ReadsBackWrittenRecords) {
  SegmentHeader header;
  ASSERT_EQ(DecodeSegmentHeader(HeaderBytes(12), header), SegmentState::kGood);
  EXPECT_EQ(header.first_id, 12u);
  EXPECT_EQ(header.salt, 77u);
  EXPECT_EQ(header.boot_id[0], 'b');
  auto head = DecodeRecordHead(RecordBytes(9, "xyz"), 77);
  ASSERT_TRUE(head);
  EXPECT_EQ(head->id, 9u);
  EXPECT_EQ(head->length, 3u);
  EXPECT_EQ(head->items, 3u);
  EXPECT_EQ(head->unix_ns, -5);
  EXPECT_EQ(head->boot_ns, 1'000'000'000'000);
  EXPECT_FALSE(DecodeRecordHead(RecordBytes(9, "xyz"), 78)) << "one of another segment";
  EXPECT_FALSE(DecodeRecordHead(RecordBytes(9, "").substr(0, 43), 77));
  EXPECT_FALSE(DecodeRecordHead(RecordBytes(kMaxRecordId, ""), 77));
}

TEST(SegmentFormat, DistinguishesTornDamagedAndForeign) {
  SegmentHeader header;
  std::string good = HeaderBytes(1);
  EXPECT_EQ(DecodeSegmentHeader("", header), SegmentState::kTorn);
  EXPECT_EQ(DecodeSegmentHeader("GPL", header), SegmentState::kTorn);
  EXPECT_EQ(DecodeSegmentHeader(good.substr(0, 95), header), SegmentState::kTorn);
  EXPECT_EQ(DecodeSegmentHeader(std::string(20, '\0'), header), SegmentState::kTorn);
  EXPECT_EQ(DecodeSegmentHeader("notes", header), SegmentState::kForeign);
  EXPECT_EQ(DecodeSegmentHeader(std::string(96, 'x'), header), SegmentState::kForeign);
  EXPECT_EQ(DecodeSegmentHeader(std::string(96, '\0'), header), SegmentState::kDamaged);
  std::string damaged = good;
  damaged[20] = damaged[68] = 'x';
  EXPECT_EQ(DecodeSegmentHeader(damaged, header), SegmentState::kDamaged);
  std::string version2 = good;
  version2[8] = version2[56] = 2;
  EXPECT_EQ(DecodeSegmentHeader(version2, header), SegmentState::kForeign);
}

TEST(SegmentReader, StaysWithinItsIds) {
  SegmentReader reader =
      Reader(HeaderBytes(5) + RecordBytes(4, "a") + RecordBytes(5, "b") + RecordBytes(5, "c") +
             RecordBytes(6, "d") + RecordBytes(900, "e") + RecordBytes(7, "f") + RecordBytes(8, "g"));
  ASSERT_EQ(reader.ReadHeader(8), SegmentState::kGood);
  // 900 cannot be: no 893 records have room between the sixth and it; 8 is the next segment's.
  EXPECT_EQ(Ids(reader), (std::vector<uint64_t>{5, 6, 7}));
  EXPECT_EQ(reader.tail(), SegmentReader::Tail::kDamaged);
}

TEST(SegmentReader, FindsTheNextRecordBehindAnyGarbage) {
  for (size_t size : std::vector<size_t>{1, 3, 43, 44, 4000, 4094, 4095, 4096, 4097, 9000}) {
    std::string garbage;
    while (garbage.size() < size) garbage += "PRCPRCL";
    garbage.resize(size);
    SegmentReader reader = Reader(HeaderBytes(5) + RecordBytes(5, "b") + garbage + RecordBytes(6, "d"));
    ASSERT_EQ(reader.ReadHeader(kMaxRecordId), SegmentState::kGood);
    EXPECT_EQ(Ids(reader), (std::vector<uint64_t>{5, 6})) << size;
    EXPECT_EQ(reader.tail(), SegmentReader::Tail::kClean);
  }
}

// The worst that a file can be for the search: nothing but markers.
TEST(SegmentReader, EndsInAFileOfMarkersOnly) {
  std::string bytes = HeaderBytes(5);
  for (int i = 0; i < 500'000; ++i) bytes += kRecordMarker;
  SegmentReader reader = Reader(bytes);
  ASSERT_EQ(reader.ReadHeader(kMaxRecordId), SegmentState::kGood);
  EXPECT_FALSE(reader.Next());
  EXPECT_FALSE(reader.Next());
  EXPECT_EQ(reader.tail(), SegmentReader::Tail::kDamaged);
}

TEST(SegmentReader, GoesOnWhenTheWriterHas) {
  std::string bytes = HeaderBytes(5) + RecordBytes(5, "b");
  SegmentReader reader = Reader(bytes + RecordBytes(6, "c"));
  reader.set_end(bytes.size());
  ASSERT_EQ(reader.ReadHeader(kMaxRecordId), SegmentState::kGood);
  EXPECT_EQ(Ids(reader), (std::vector<uint64_t>{5}));
  reader.set_end(bytes.size() + RecordBytes(6, "c").size());
  EXPECT_EQ(Ids(reader), (std::vector<uint64_t>{6}));
}

TEST(RecordAges, StayInRangeForStampsOfNonsense) {
  RecordAges ages({1'000, 2'000});
  EXPECT_EQ(ages.Of({INT64_MIN, INT64_MIN, false}, {INT64_MAX, 0}), Duration(INT64_MAX / 2 * 2));
  EXPECT_EQ(ages.Of({INT64_MAX, INT64_MAX, false}, {0, 0}), Duration(0));
  EXPECT_EQ(ages.Of({0, 500, true}, {700, 0}), Duration(200));
  EXPECT_EQ(ages.Of({0, 900, true}, {700, 0}), Duration(0));
}

}  // namespace
}  // namespace gpulens
