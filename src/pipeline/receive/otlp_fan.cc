#include "pipeline/receive/otlp_fan.h"

#include <utility>

namespace gpulens {
namespace {

// The answers of all takers to one request.
class Gathering {
 public:
  Gathering(size_t waiting, OtlpForward::Done done) : waiting_(waiting), done_(std::move(done)) {}

  void Take(Status status) {
    {
      std::lock_guard lock(mutex_);
      // That a sink is full says more to a sender than that another one failed.
      if (worst_.ok() || (status.code == Code::kExhausted && worst_.code != Code::kExhausted))
        worst_ = std::move(status);
      if (--waiting_ != 0) return;
    }
    done_(std::move(worst_));
  }

 private:
  std::mutex mutex_;
  size_t waiting_;
  Status worst_;
  const OtlpForward::Done done_;
};

}  // namespace

void OtlpFan::Set(std::vector<Taker> takers) {
  auto next = std::make_shared<const Takers>(std::move(takers));
  std::lock_guard lock(mutex_);
  takers_.swap(next);
}

std::shared_ptr<const OtlpFan::Takers> OtlpFan::takers() const {
  std::lock_guard lock(mutex_);
  return takers_;
}

bool OtlpFan::wanted() const { return !takers()->empty(); }

void OtlpFan::Forward(Ref<const ReceivedOtlp> received, Done done) {
  const auto takers = this->takers();
  if (takers->empty()) return done({Code::kUnavailable, "no sink takes what is received"});
  auto gathering = std::make_shared<Gathering>(takers->size(), std::move(done));
  for (const Taker& taker : *takers)
    taker(received, [gathering](Status status) { gathering->Take(std::move(status)); });
}

}  // namespace gpulens
