// Any bytes as a position file: what is read is in bounds, the next position is read back as written, and a
// truncated write leaves the one before it. Input: eight bytes of a position, eight of the records done after
// it, one for how much of the next write is on disk, and the file.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "delivery/log_folder.h"

namespace {

using namespace gpulens;

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

class Folder {
 public:
  Folder() {
    // In memory, where there is such a place.
    std::string path =
        std::string(::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") + "/position_XXXXXX";
    Require(::mkdtemp(path.data()) != nullptr, "a folder");
    fd_.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    Require(static_cast<bool>(fd_), "opened");
    path_ = path;
  }
  ~Folder() {
    ::unlinkat(fd_.get(), kPositionName, 0);
    ::rmdir(path_.c_str());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  int fd() const { return fd_.get(); }

  void Write(const std::string& bytes) const {
    const UniqueFd file(::openat(fd(), kPositionName, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    Require(::write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "written");
  }
  std::string Read() const {
    const UniqueFd file(::openat(fd(), kPositionName, O_RDONLY | O_CLOEXEC));
    std::string bytes(2048, '\0');
    const ssize_t count = ::read(file.get(), bytes.data(), bytes.size());
    Require(count >= 0, "read");
    bytes.resize(static_cast<size_t>(count));
    return bytes;
  }

 private:
  UniqueFd fd_;
  std::string path_;
};

PositionFile Open(const Folder& folder, const BootId& boot_id) {
  auto file = PositionFile::Open(folder.fd(), kPositionName, boot_id);
  Require(file.ok(), "opened");
  return *std::move(file);
}

// Whether one of the slots is neither whole nor unwritten: a part of what is written over it may mend it.
bool HasDamagedSlot(const Folder& folder, const std::string& bytes, const BootId& boot_id) {
  bool damaged = false;
  for (size_t at : {0u, 512u}) {
    folder.Write(at < bytes.size() ? bytes.substr(at, 512) : "");
    damaged |= Open(folder, boot_id).foreign();
  }
  folder.Write(bytes);
  return damaged;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 17) return 0;
  const Folder folder;
  uint64_t next = 0, done = 0;
  std::memcpy(&next, data, sizeof next);
  std::memcpy(&done, data + 8, sizeof done);
  const size_t cut = data[16];
  folder.Write({reinterpret_cast<const char*>(data + 17), std::min<size_t>(size - 17, 1024)});
  const BootId boot_id{'b', 'o', 'o', 't'};
  PositionFile file = Open(folder, boot_id);
  const auto before = file.last();
  const uint64_t done_before = file.done();
  Require(!before || *before <= kMaxRecordId, "a place that may be");
  Require(before.has_value() || done_before == 0, "nothing is done behind no place");
  Require(!(before && file.foreign()), "ours");
  Require(!file.of_this_boot() || before, "of this boot");
  const std::string was = folder.Read();
  const bool damaged = HasDamagedSlot(folder, was, boot_id);
  // Places only grow, and are never the highest.
  next %= kMaxRecordId;
  if (before && next <= *before) next = *before + 1;
  if (next > kMaxRecordId) return 0;
  Require(file.Write(next, done).ok(), "written");
  PositionFile again = Open(folder, boot_id);
  Require(again.last() == next && again.done() == done && again.of_this_boot(), "read back");
  Require(!again.foreign(), "ours now");
  // The first bytes of what was written, over what was there.
  const std::string now = folder.Read();
  std::string torn = was;
  size_t left = cut;
  for (size_t i = 0; i < now.size(); ++i) {
    if (i < was.size() && was[i] == now[i]) continue;
    if (left == 0) break;
    if (i >= torn.size()) torn.resize(i + 1);
    torn[i] = now[i];
    --left;
  }
  folder.Write(torn);
  const PositionFile after = Open(folder, boot_id);
  // A part of the write may mend a damaged slot: what it held before the damage is then read again.
  if (!before || damaged) return 0;
  Require(after.last() == before || after.last() == next, "the one before, or the new one");
  if (after.last() == before) Require(after.done() == done_before, "as it was");
  else Require(after.done() == done || after.done() == 0, "all of it, or less is known to be done");
  return 0;
}
