// What the simulated vendor libraries share: rules of a profile, and the machine that shows it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/files.h"

// Names of a library are visible outside only when they are built into a file of their own.
#ifdef GPULENS_FAKE_EXPORT
#define FAKE_API extern "C" __attribute__((visibility("default")))
#else
#define FAKE_API extern "C" __attribute__((visibility("hidden")))
#endif

namespace gpulens::reader {

// Rules hold for one GPU, or all (-1), between two times since the library was opened, in seconds.
struct FakeWhen {
  int gpu = -1;
  double from = 0, to = 1e18;

  // `index` -1: for a call that takes no GPU.
  bool Holds(int64_t index, double seconds) const noexcept {
    return (gpu < 0 || gpu == index) && seconds >= from && seconds < to;
  }
  // Seconds for which it has held.
  double HeldFor(int64_t index, double seconds) const noexcept {
    return gpu < 0 || gpu == index ? std::max(0.0, std::min(seconds, to) - from) : 0;
  }
  // From the keys gpu, from, to and for.
  template <class Fields>
  void Read(Fields& in, unsigned max_gpus) {
    double length = -1;
    in.Number("gpu", gpu, -1, max_gpus - 1).Number("from", from, 0, 1e9);
    in.Number("to", to, 0, 1e18).Number("for", length, 0, 1e9);
    if (length >= 0) to = from + length;
  }
};

struct FakeRule {
  FakeWhen when;
  std::string call;   // A symbol, or "*" for every call that takes a GPU.
  uint32_t code = 0;  // An error: what is answered.
  uint64_t nth = 0;   // Only the nth call, when not 0.
  uint64_t mask = 0;  // A throttle: reasons added.

  bool Hits(std::string_view called, int gpu, uint64_t number, double seconds) const noexcept {
    bool named = call == called || (call == "*" && gpu >= 0);
    return named && (nth == 0 || nth == number) && when.Holds(gpu, seconds);
  }
  // From the keys of an error, or of a hang.
  template <class Fields>
  void ReadCall(Fields& in, unsigned max_gpus, bool error, int64_t max_code) {
    when.Read(in, max_gpus);
    in.String("call", call).Number("nth", nth, 1, 1 << 30);
    if (error) in.Number("code", code, 1, max_code);
    if (call.empty()) in.Fail("call", "is missing");
    if (error && code == 0) in.Fail("code", "is missing");
  }
};

// The profile that holds now: given by a test, or of the file that an environment variable names, which is
// read again when it changes. Public members are thread-safe; others are called with the lock held.
template <class Profile, unsigned kMaxGpus>
class FakeMachine {
 public:
  bool open() const noexcept {
    std::lock_guard lock(mutex_);
    return open_;
  }
  std::shared_ptr<const Profile> profile() const {
    std::lock_guard lock(mutex_);
    return profile_;
  }
  // How often the call was made for the GPU; below 0: in all.
  uint64_t Calls(std::string_view call, int gpu = -1) const {
    std::lock_guard lock(mutex_);
    auto found = calls_.find(std::string(call));
    if (found == calls_.end()) return 0;
    if (gpu >= 0) return found->second[static_cast<size_t>(gpu + 1)];
    uint64_t sum = 0;
    for (uint64_t count : found->second) sum += count;
    return sum;
  }
  void ForgetCalls() {
    std::lock_guard lock(mutex_);
    calls_.clear();
  }

 protected:
  struct Setup {
    const char *library, *variable;  // for messages; names the file
    std::string_view usual;          // the profile when the variable is not set
    Result<Profile> (*parse)(const std::string& text);
    size_t max_bytes;
  };

  explicit FakeMachine(Setup setup) : setup_(setup) {}
  ~FakeMachine() = default;

  virtual void Replace(Profile profile) { profile_ = std::make_shared<const Profile>(std::move(profile)); }

  void LoadLocked() {
    if (given_ || profile_) return;
    if (const char* path = std::getenv(setup_.variable); path && *path) {
      path_ = path;
      last_look_ns_ = 0;
      ReloadWhenChanged();
    } else {
      Replace(*setup_.parse(std::string(setup_.usual)));
    }
  }
  void ReloadWhenChanged() {
    constexpr int64_t kLookEveryNs = 20'000'000;
    int64_t now = RealClock().Now().boot_ns;
    if (given_ || path_.empty() || now - last_look_ns_ < kLookEveryNs) return;
    last_look_ns_ = now;
    FileMark seen = MarkOf(path_);
    if (!seen.there() || seen == seen_) return;
    std::string text;
    const Status read = ReadUnlockedFile(path_, text, setup_.max_bytes);
    if (read.code == Code::kTimeout) return;
    seen_ = seen;
    if (!read) return;
    if (Result<Profile> profile = setup_.parse(text)) Replace(*std::move(profile));
    else
      std::fprintf(stderr, "simulated %s: %s: %s\n", setup_.library, path_.c_str(),
                   profile.error().detail.c_str());
  }
  double SecondsSince(int64_t boot_ns) const noexcept {
    return static_cast<double>(clock_->Now().boot_ns - boot_ns) * 1e-9;
  }
  uint64_t CountCall(const char* call, int gpu) { return ++calls_[call][static_cast<size_t>(gpu + 1)]; }

  mutable std::mutex mutex_;
  const Clock* clock_ = &RealClock();
  std::shared_ptr<const Profile> profile_;
  bool given_ = false, open_ = false;
  int64_t opened_ns_ = 0;
  std::unordered_map<std::string, std::array<uint64_t, kMaxGpus + 1>> calls_;

 private:
  const Setup setup_;
  std::string path_;
  FileMark seen_;
  int64_t last_look_ns_ = 0;
};

}  // namespace gpulens::reader
