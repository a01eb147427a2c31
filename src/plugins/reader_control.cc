#include "plugins/reader_control.h"

namespace gpulens {

void ReaderControl::Release(Instant now, Duration length) {
  std::lock_guard lock(mutex_);
  release_ = true;
  quiet_ = false;
  until_boot_ns_ = length.count() > 0 ? (now + length).boot_ns : 0;
}

void ReaderControl::Resume() {
  std::lock_guard lock(mutex_);
  release_ = quiet_ = false;
  until_boot_ns_ = 0;
}

ReaderControl::Order ReaderControl::Query(Instant now) {
  std::lock_guard lock(mutex_);
  queried_ = true;
  if (release_ && until_boot_ns_ != 0 && now.boot_ns >= until_boot_ns_) {
    release_ = quiet_ = false;
    until_boot_ns_ = 0;
  }
  return {release_, until_boot_ns_};
}

void ReaderControl::Answer(bool quiet, std::string trouble) {
  std::lock_guard lock(mutex_);
  quiet_ = release_ && quiet;
  trouble_ = std::move(trouble);
}

void ReaderControl::Report(bool simulated, size_t gpus) {
  std::lock_guard lock(mutex_);
  simulated_ = simulated;
  gpus_ = gpus;
}

void ReaderControl::Join() {
  std::lock_guard lock(mutex_);
  ++collectors_;
}

void ReaderControl::Leave() {
  std::lock_guard lock(mutex_);
  if (--collectors_ > 0) return;
  collectors_ = 0;
  queried_ = simulated_ = false;
}

ReaderControl::View ReaderControl::view() const {
  std::lock_guard lock(mutex_);
  if (!queried_) return {};
  if (!release_) return {State::kRunning, 0, trouble_, simulated_, gpus_};
  return {quiet_ ? State::kReleased : State::kReleasing, until_boot_ns_, {}, simulated_, gpus_};
}

}  // namespace gpulens
