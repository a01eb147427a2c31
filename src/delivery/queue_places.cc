#include "delivery/queue_places.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/fd.h"
#include "base/files.h"
#include "base/parse.h"
#include "delivery/position_file.h"

namespace gpulens {
namespace {

constexpr size_t kMostPlaces = 1024;
constexpr std::string_view kReceivedName = "received";

struct CloseListed {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

}  // namespace

bool IsSinkFile(std::string_view name) noexcept {
  constexpr std::string_view kOthers = "_-.";
  return !name.empty() && name.front() != '.' && name.back() != '.' &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  kOthers.find(c) != kOthers.npos;
         });
}

Status ForEachName(int folder, const std::function<bool(std::string_view)>& visit) {
  UniqueFd copy(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!copy) return ErrnoStatus("list", errno);
  std::unique_ptr<DIR, CloseListed> list(::fdopendir(copy.get()));
  if (!list) return ErrnoStatus("list", errno);
  copy.release();
  errno = 0;
  while (const dirent* entry = ::readdir(list.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && !visit(name)) return Ok();
    errno = 0;
  }
  return errno == 0 ? Ok() : ErrnoStatus("list", errno);
}

std::string OwnerOfQueueFolder(const std::string& name) {
  if (name == kReceivedName || !IsSinkFile(name)) return {};
  return ReaderOfPosition(std::string(kPositionName) + "." + name, {});
}

Result<std::vector<QueuePlace>> QueuePlacesIn(const std::string& root) {
  std::vector<QueuePlace> places;
  UniqueFd folder(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder && (errno == ENOENT || errno == ENOTDIR)) return places;
  if (!folder) return ErrnoStatus("open " + root, errno);
  bool too_many = false;
  Status listed = ForEachName(folder.get(), [&](std::string_view name) {
    too_many = places.size() == kMostPlaces;
    if (!too_many) places.push_back({root + "/" + std::string(name), OwnerOfQueueFolder(std::string(name))});
    return !too_many;
  });
  if (!listed) return Status{listed.code, root + ": " + listed.detail};
  if (too_many) return Status{Code::kExhausted, root + " holds more than 1,024 names"};
  std::sort(places.begin(), places.end(),
            [](const QueuePlace& a, const QueuePlace& b) { return a.folder < b.folder; });
  return places;
}

std::vector<QueuePlace> QueuePlacesBeside(const std::string& folder, const std::string& owner) {
  std::vector<QueuePlace> places{{folder, owner, true}};
  const size_t slash = folder.rfind('/');
  const std::string parent = slash == folder.npos ? "." : folder.substr(0, slash + 1);
  const std::string name = slash == folder.npos ? folder : folder.substr(slash + 1);
  const std::string before = slash == folder.npos ? "" : parent;
  UniqueFd list(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!list) return places;
  static_cast<void>(ForEachName(list.get(), [&](std::string_view other) {
    const auto is = [&](std::string_view base) {
      return other.size() > base.size() + 1 && other.starts_with(base) && other[base.size()] == '+' &&
             ParseInt<uint32_t>(other.substr(base.size() + 1));
    };
    if (is(name) || is(kReceivedName) || other == kReceivedName)
      places.push_back({before + std::string(other), {}});
    return places.size() < kMostPlaces;
  }));
  std::sort(places.begin() + 1, places.end(),
            [](const QueuePlace& a, const QueuePlace& b) { return a.folder < b.folder; });
  return places;
}

QueuePlaces AllQueuePlaces(const std::string& root, const std::vector<QueuePlace>& chosen) {
  QueuePlaces all;
  const auto add = [&](const QueuePlace& place) {
    const bool known = std::any_of(all.places.begin(), all.places.end(),
                                   [&](const QueuePlace& one) { return one.folder == place.folder; });
    if (!known) all.places.push_back(place);
  };
  // What a sink names itself says best whose it is.
  for (const QueuePlace& one : chosen) add({one.folder, one.owner, true});
  if (!root.empty()) {
    auto listed = QueuePlacesIn(root);
    if (!listed) all.status = listed.error();
    else
      for (const QueuePlace& one : *listed) add(one);
  }
  for (const QueuePlace& one : chosen)
    for (const QueuePlace& beside : QueuePlacesBeside(one.folder, one.owner)) add(beside);
  return all;
}

}  // namespace gpulens
