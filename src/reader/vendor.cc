#include "reader/vendor.h"

#include <array>

namespace gpulens::reader {
namespace {

template <class Enum, size_t kSize>
std::string_view NameOf(const std::array<std::string_view, kSize>& names, Enum value) noexcept {
  size_t at = static_cast<size_t>(value);
  return at < names.size() ? names[at] : "unknown";
}

}  // namespace

std::string_view StatusName(ReadStatus status) noexcept {
  static constexpr std::array<std::string_view, kReadStatusCount> kNames = {
      "never", "ok", "not_supported", "no_permission", "not_found", "lost", "reset_required", "error"};
  return NameOf(kNames, status);
}

std::string_view StateName(DeviceState state) noexcept {
  static constexpr std::array<std::string_view, static_cast<size_t>(DeviceState::kCount)> kNames = {
      "starting", "ok", "hung", "lost", "reset_required", "no_permission", "failed", "left_out", "unread"};
  return NameOf(kNames, state);
}

std::string_view StartReasonName(StartReason reason) noexcept {
  static constexpr std::array<std::string_view, static_cast<size_t>(StartReason::kCount)> kNames = {
      "first", "crash", "exited", "hang", "killed", "reload", "protocol"};
  return NameOf(kNames, reason);
}

}  // namespace gpulens::reader
