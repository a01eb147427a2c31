// A receiver: an intake, and the sides that listen for it, as OtlpHttp is one. Of a side it asks for Options,
// Open(options, env, intake), Close(timeout) and AwaitClosed(timeout).
#pragma once

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "base/result.h"
#include "ingest/otlp_intake.h"

namespace gpulens {

template <class... Sides>
class IntakeReceiver final : public Receiver {
 public:
  IntakeReceiver(OtlpIntake::Options options, const ReceiverContext& context)
      : clock_(*context.env.clock), intake_(std::move(options), context) {}
  // Answers refer to a side until the last sink has said its word.
  ~IntakeReceiver() override { intake_.Finish(); }

  template <class Side>
  Status Open(const typename Side::Options& options, Env& env) {
    ASSIGN_OR_RETURN(std::get<std::unique_ptr<Side>>(sides_), Side::Open(options, env, intake_));
    return Ok();
  }

  // First nobody comes any more, then all that came is done and answered.
  void Stop(Instant deadline) override {
    const auto left = [&] { return std::max<Duration>(deadline - clock_.Now(), Duration(0)); };
    OfEach([&](auto& side) { side.Close(left()); });
    intake_.Finish();
    OfEach([&](auto& side) { side.AwaitClosed(left()); });
  }

  void ReadStats(ReceiverStats& out) const override { intake_.ReadStats(out); }

 private:
  // Of those that were opened.
  template <class Do>
  void OfEach(Do act) {
    std::apply([&](auto&... side) { ((side ? void(act(*side)) : void()), ...); }, sides_);
  }

  const Clock& clock_;
  OtlpIntake intake_;
  std::tuple<std::unique_ptr<Sides>...> sides_;
};

}  // namespace gpulens
