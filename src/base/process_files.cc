#include "base/process_files.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens {
namespace {

ProcessFileOpener* opener = nullptr;  // set before there are threads

constexpr size_t kMostAnswer = 4 << 20;

bool IsRefusal(const Status& status) noexcept { return status.code == Code::kPermissionDenied; }

// Reads a descriptor from its start to its end.
Status ReadFrom(int fd, std::string& into, size_t most) {
  into.clear();
  std::array<char, 16384> part;
  while (into.size() < most) {
    const ssize_t size = ::read(fd, part.data(), std::min(part.size(), most - into.size()));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return ErrnoStatus("read", errno);
    if (size == 0) break;
    into.append(part.data(), static_cast<size_t>(size));
  }
  return Ok();
}

// What the opener answers; kPermissionDenied without one.
Status QueryOpener(char kind, std::string_view path, std::string& into, size_t most) {
  if (!opener) return {Code::kPermissionDenied, std::string(path) + ": permission denied"};
  ASSIGN_OR_RETURN(const UniqueFd fd, opener->Open(kind + std::string(path)));
  return ReadFrom(fd.get(), into, most);
}

// "socket:[4711]".
std::optional<uint64_t> SocketOfLink(std::string_view target) {
  if (!target.starts_with("socket:[") || !target.ends_with(']')) return std::nullopt;
  return ParseInt<uint64_t>(target.substr(8, target.size() - 9));
}

Result<std::string> LinkTarget(const std::string& path) {
  std::array<char, 256> target;
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  if (size < 0) return ErrnoStatus("readlink " + path, errno);
  return std::string(target.data(), static_cast<size_t>(size));
}

}  // namespace

void OpenProcessFilesBy(ProcessFileOpener* by) noexcept { opener = by; }

Status ReadProcessFile(const std::string& path, std::string& into, size_t most) {
  Status status = ReadFile(path.c_str(), into, most);
  if (IsRefusal(status) && opener) return QueryOpener('f', path, into, most);
  return status;
}

Result<std::vector<uint64_t>> ListProcessSockets(const std::string& folder, size_t most) {
  std::vector<uint64_t> out;
  size_t count = 0;
  RETURN_IF_ERROR(ForEachName(folder, [&](std::string_view name) {
    if (const auto target = LinkTarget(folder + "/" + std::string(name))) {
      if (const auto inode = SocketOfLink(*target)) out.push_back(*inode);
    }
    return ++count < most;
  }));
  return out;
}

Result<std::vector<uint64_t>> SocketsOfProcess(const std::string& folder, size_t most) {
  // The names in it can be listed where the links behind them cannot be read.
  Result<std::vector<uint64_t>> own = ListProcessSockets(folder, most);
  if (!opener || (own && !own->empty())) return own;
  std::string text;
  RETURN_IF_ERROR(QueryOpener('s', folder, text, kMostAnswer));
  std::vector<uint64_t> out;
  for (std::string_view rest = text; !rest.empty() && out.size() < most;) {
    if (const auto inode = ParseInt<uint64_t>(TakeUntil(rest, '\n'))) out.push_back(*inode);
  }
  return out;
}

Result<std::string> ReadProcessLink(const std::string& path) {
  Result<std::string> own = LinkTarget(path);
  if (own || !IsRefusal(own.error()) || !opener) return own;
  std::string text;
  RETURN_IF_ERROR(QueryOpener('l', path, text, 4096));
  return text;
}

}  // namespace gpulens
