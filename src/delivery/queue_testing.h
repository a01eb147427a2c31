// For tests of queues: a folder that goes away again, parcels that tell their number, and how to take all of
// them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/parse.h"
#include "base/testing/file_size_limit.h"
#include "delivery/parcel_queue.h"

namespace gpulens::queue_testing {

class TestFolder {
 public:
  TestFolder() {
    std::string pattern = ::testing::TempDir() + "/parcels_XXXXXX";
    root_ = ::mkdtemp(pattern.data());
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() { std::filesystem::remove_all(root_); }

  const std::string& root() const { return root_; }
  std::string path() const { return root_ + "/queue"; }
  std::string File(const std::string& name) const { return path() + "/" + name; }
  // Paths that end so, sorted: the segments with ".seg".
  std::vector<std::string> Ending(std::string_view end) const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path()))
      if (entry.path().string().ends_with(end)) found.push_back(entry.path().string());
    std::sort(found.begin(), found.end());
    return found;
  }
  std::vector<std::string> Segments() const { return Ending(".seg"); }

 private:
  std::string root_;
};

inline std::string Bytes(const std::string& path) { return ReadFile(path, 512 << 20).value_or("(none)"); }

// Writes in place, as a bad disk would.
inline void Change(const std::string& path, const std::string& bytes) {
  FILE* file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr) << path;
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
}
inline void Flip(const std::string& path, size_t at) {
  std::string bytes = Bytes(path);
  ASSERT_LT(at, bytes.size());
  bytes[at] = static_cast<char>(bytes[at] ^ 0x20);
  Change(path, bytes);
}

// "17:xxxxx…": a parcel that says which it is.
inline std::string Numbered(uint64_t number, size_t size = 0) {
  std::string text = std::to_string(number) + ":";
  if (text.size() < size) text.append(size - text.size(), static_cast<char>('a' + number % 26));
  return text;
}
// The number when the parcel is as it was made, else nothing.
inline std::optional<uint64_t> NumberOf(std::string_view bytes) {
  auto number = ParseInt<uint64_t>(bytes.substr(0, bytes.find(':')));
  if (!number || bytes != Numbered(*number, bytes.size())) return std::nullopt;
  return number;
}

// Takes up to `most` parcels. A parcel that is not as it was made is number 0, which no test pushes.
inline std::vector<uint64_t> Take(ParcelQueue& queue, size_t most = SIZE_MAX) {
  std::vector<uint64_t> numbers;
  while (numbers.size() < most) {
    std::optional<Parcel> parcel = queue.Front();
    if (!parcel) break;
    numbers.push_back(NumberOf(parcel->bytes).value_or(0));
    queue.Pop(parcel->id);
  }
  return numbers;
}

inline std::vector<uint64_t> Range(uint64_t first, uint64_t last) {
  std::vector<uint64_t> numbers;
  for (uint64_t n = first; n <= last; ++n) numbers.push_back(n);
  return numbers;
}

inline uint64_t Lost(const ParcelQueue& queue, ParcelLoss reason) {
  return queue.stats().lost_parcels[static_cast<size_t>(reason)];
}
inline uint64_t LostItems(const ParcelQueue& queue, ParcelLoss reason) {
  return queue.stats().lost_items[static_cast<size_t>(reason)];
}
inline uint64_t AllLost(const ParcelQueue& queue) {
  uint64_t sum = 0;
  for (uint64_t count : queue.stats().lost_parcels) sum += count;
  return sum;
}

}  // namespace gpulens::queue_testing
