// Finds the dashboards and rule files below a folder.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens {

struct FolderFiles {
  std::vector<std::string> paths;  // sorted, each file once
  size_t skipped = 0;              // folders that are too deep, and what is above the number of files
};

inline constexpr size_t kMaxFolderDepth = 16, kMaxFolderFiles = 10'000;
// Of all files of one command together.
inline constexpr size_t kMaxFolderBytes = 100u << 20;

// Lists the regular files below `path` whose names end with one of `endings`, or `path` itself if it is a
// file. Links to files are followed, links to folders and hidden names are not: neither loops nor the copies
// of a mounted ConfigMap are read. An error is about `path` itself.
Result<FolderFiles> FilesBelow(const std::string& path, std::initializer_list<std::string_view> endings);

}  // namespace gpulens
