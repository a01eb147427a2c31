// Any bytes as a segment: the walk ends, ids ascend, nothing reaches beyond the file, and no body is read
// that was not written. Input: a byte that chooses, then either the bytes of the file, or a script of records
// to write and of damages to do to them, so that the checksums do not keep the fuzzer out.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "delivery/segment_file.h"

namespace {

using namespace gpulens;

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

class Script {
 public:
  Script(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}
  bool empty() const { return at_ == end_; }
  uint32_t Byte() { return at_ == end_ ? 0 : *at_++; }
  uint32_t Word() {
    uint32_t low = Byte();
    return low | Byte() << 8;
  }
  std::string Rest() { return {reinterpret_cast<const char*>(at_), static_cast<size_t>(end_ - at_)}; }

 private:
  const uint8_t *at_, *end_;
};

constexpr uint32_t kSalt = 0x12345678;

void AppendRecord(std::string& file, uint64_t id, const std::string& body) {
  RecordHead head;
  head.id = id;
  head.items = static_cast<uint32_t>(id);
  head.length = static_cast<uint32_t>(body.size());
  head.body_sum = ChecksumOf(kSalt, body);
  std::array<char, kRecordHeadBytes> bytes{};
  EncodeRecordHead(head, kSalt, bytes);
  file.append(bytes.data(), bytes.size());
  file += body;
}

std::string BodyOf(uint64_t id) { return std::string(id % 97, static_cast<char>('a' + id % 26)); }

std::string Play(Script& script) {
  std::array<char, kSegmentHeaderBytes> front{};
  EncodeSegmentHeader({.salt = kSalt, .first_id = 5}, front);
  std::string file(front.data(), front.size());
  uint64_t id = 5;
  while (!script.empty() && file.size() < 60'000) {
    uint32_t what = script.Byte();
    size_t at = file.empty() ? 0 : script.Word() % file.size();
    switch (what % 8) {
      case 0:
        if (at < file.size())
          file[at] = static_cast<char>(static_cast<unsigned char>(file[at]) ^ script.Byte());
        break;
      case 1: file.resize(at); break;
      case 2: file.insert(at, script.Byte(), static_cast<char>(script.Byte())); break;
      case 3: file.erase(at, script.Byte()); break;
      case 4: file.insert(at, kRecordMarker); break;
      case 5: id += script.Byte() % 4; break;  // as if some had been left out
      default: AppendRecord(file, id, BodyOf(id)); ++id;
    }
  }
  return file;
}

void Walk(const std::string& bytes, bool ours) {
  UniqueFd fd(::memfd_create("segment", MFD_CLOEXEC));
  Require(fd.get() >= 0, "a file in memory");
  Require(::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "written");
  auto reader = SegmentReader::Adopt(std::move(fd));
  Require(reader.ok(), "opened");
  if (reader->ReadHeader(kMaxRecordId) != SegmentState::kGood) return;
  uint64_t next_id = reader->header().first_id, end = kSegmentHeaderBytes;
  std::string body;
  while (auto record = reader->Next()) {
    Require(record->head.id >= next_id, "ids ascend");
    Require(record->offset >= end, "records stand one behind the other");
    next_id = record->head.id + 1;
    end = record->offset + record->head.size();
    Require(end <= bytes.size(), "within the file");
    if (reader->ReadBody(*record, body) && ours)
      Require(body == BodyOf(record->head.id), "the body that was written");
  }
  Require(!reader->Next(), "the end stays the end");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Script script(data, size);
  bool raw = script.Byte() % 2 == 0;
  Walk(raw ? script.Rest() : Play(script), !raw);
  return 0;
}
