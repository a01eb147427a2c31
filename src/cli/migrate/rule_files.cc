#include "cli/migrate/rule_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "base/files.h"

namespace gpulens {
namespace {

class FolderWalk {
 public:
  explicit FolderWalk(std::initializer_list<std::string_view> endings) : endings_(endings) {}

  void Walk(const std::string& folder, size_t depth) {
    std::vector<std::string> names;
    const Status listed = ForEachName(folder, [&](std::string_view name) {
      if (!name.starts_with('.')) names.emplace_back(name);
      return names.size() < kMaxFolderFiles;
    });
    if (!listed) return static_cast<void>(++files_.skipped);
    if (names.size() == kMaxFolderFiles) ++files_.skipped;  // there may be more
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      const std::string path = folder + "/" + name;
      struct stat itself{};
      if (::lstat(path.c_str(), &itself) != 0) continue;
      if (S_ISDIR(itself.st_mode)) {
        if (depth >= kMaxFolderDepth) ++files_.skipped;
        else Walk(path, depth + 1);
      } else if (std::ranges::any_of(endings_,
                                     [&](std::string_view ending) { return name.ends_with(ending); })) {
        Add(path);
      }
    }
  }

  void Add(const std::string& path) {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return;
    if (!seen_.emplace(info.st_dev, info.st_ino).second) return;
    if (files_.paths.size() >= kMaxFolderFiles) return static_cast<void>(++files_.skipped);
    files_.paths.push_back(path);
  }

  FolderFiles Take() { return std::move(files_); }

 private:
  const std::vector<std::string_view> endings_;
  FolderFiles files_;
  std::set<std::pair<dev_t, ino_t>> seen_;
};

}  // namespace

Result<FolderFiles> FilesBelow(const std::string& path, std::initializer_list<std::string_view> endings) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus("open " + path, errno);
  FolderWalk walk(endings);
  if (!S_ISDIR(info.st_mode)) {
    walk.Add(path);
    return walk.Take();
  }
  if (Status listed = ForEachName(path, [](std::string_view) { return false; }); !listed) return listed;
  walk.Walk(path, 1);
  return walk.Take();
}

}  // namespace gpulens
