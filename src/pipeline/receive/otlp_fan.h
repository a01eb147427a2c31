// One received request to every sink that takes such.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "pipeline/receive/receiver.h"

namespace gpulens {

// Thread-safe.
class OtlpFan final : public OtlpForward {
 public:
  // Calls its Done once, from any thread.
  using Taker = std::function<void(const Ref<const ReceivedOtlp>&, Done)>;

  // From now on; what is under way goes to those of before.
  void Set(std::vector<Taker> takers);

  bool wanted() const override;
  // kUnavailable when there is no taker.
  void Forward(Ref<const ReceivedOtlp> received, Done done) override;

 private:
  using Takers = std::vector<Taker>;
  std::shared_ptr<const Takers> takers() const;

  mutable std::mutex mutex_;
  std::shared_ptr<const Takers> takers_ = std::make_shared<const Takers>();
};

}  // namespace gpulens
