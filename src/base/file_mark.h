// What shows that a file was replaced or written since one last looked.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

namespace gpulens {

// The time alone is too coarse: two files within a tick of the kernel have the same.
struct FileMark {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = -1;  // -1: it is not there, or may not be seen
  int64_t modified_ns = 0;

  bool there() const noexcept { return size >= 0; }
  bool operator==(const FileMark&) const = default;
};

// Follows links. Thread-safe.
inline FileMark MarkOf(const std::string& path) noexcept {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return {};
  int64_t ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  return {info.st_dev, info.st_ino, info.st_size, ns};
}

}  // namespace gpulens
