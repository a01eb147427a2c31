// What a peer may cost without bringing anything: spent by frames, earned by work and time. A plain value.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace gpulens {

class Http2Budget {
 public:
  Http2Budget(double most, double per_second) noexcept : most_(most), per_second_(per_second), left_(most) {}

  void Spend(double cost) noexcept { left_ -= cost; }
  void Earn(double amount) noexcept { left_ = std::min(left_ + amount, most_); }
  // Time goes on; the first call only says where it stands.
  void Elapse(Duration now) noexcept {
    if (begun_ && now > last_) Earn(std::chrono::duration<double>(now - last_).count() * per_second_);
    last_ = begun_ ? std::max(last_, now) : now;
    begun_ = true;
  }
  bool overdrawn() const noexcept { return left_ < 0; }

 private:
  double most_, per_second_, left_;
  Duration last_{};
  bool begun_ = false;
};

}  // namespace gpulens
