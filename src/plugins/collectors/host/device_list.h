// What a part of the host collector keeps of each disk, interface or port that it has seen: found again at
// every reading, retired when it is gone. Used as the parts are: not thread-safe.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "core/series_table.h"

namespace gpulens {

// The devices of one part. `Device` has the members `EntityRef entity` and `bool seen`.
template <class Device>
class DeviceList {
 public:
  void Begin() noexcept {
    next_ = 0;
    for (Device& device : devices_) device.seen = false;
  }
  // The device that `is`, or null. Cheap in the order of the last time.
  template <class Is>
  Device* Find(Is is) {
    for (size_t i = 0; i < devices_.size(); ++i) {
      size_t at = (next_ + i) % devices_.size();
      if (!is(devices_[at])) continue;
      devices_[at].seen = true;
      next_ = at + 1;
      return &devices_[at];
    }
    return nullptr;
  }
  Device& Add(Device device) {
    devices_.push_back(std::move(device));
    devices_.back().seen = true;
    next_ = devices_.size();
    return devices_.back();
  }
  // Retires those that were not seen since Begin. To be called only when the list was read to its end.
  void End(SeriesTable& table) {
    std::erase_if(devices_, [&table](const Device& device) {
      if (!device.seen && device.entity) table.Retire(device.entity);
      return !device.seen;
    });
    complete_ = true;
  }
  std::vector<Device>& devices() noexcept { return devices_; }
  bool complete() const noexcept { return complete_; }  // false until the first End

 private:
  std::vector<Device> devices_;
  size_t next_ = 0;
  bool complete_ = false;
};

}  // namespace gpulens
