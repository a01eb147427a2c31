#include "pipeline/delivery/whole_sink.h"

#include <utility>

#include "base/result.h"
#include "pipeline/delivery/delivery.h"

namespace gpulens {
namespace {

class WholeSink final : public Sink {
 public:
  explicit WholeSink(Env& env) : delivery_(env) {}

  Status Open(const SinkSpec& spec, const Config& config, Env& env) {
    const std::string name(spec.name);
    Delivery::Plan plan;
    RETURN_IF_ERROR(delivery_.Add({name, &spec, config}, plan));
    const auto log = delivery_.LogOf(name, {name}, LogOptionsOf(config, delivery_.DefaultFolder(name)));
    plan.destinations.back().own = log;
    ASSIGN_OR_RETURN(encoder_, spec.network->encoder(config, env, std::make_unique<LogWriter>(log)));
    delivery_.Apply(std::move(plan), env.clock->Now());
    return Ok();
  }
  Status Write(const Snapshot& snapshot) override { return encoder_->Write(snapshot); }
  Status Write(const Events& events) override { return encoder_->Write(events); }
  Status Flush(Instant deadline) override {
    RETURN_IF_ERROR(encoder_->Flush(deadline));
    for (auto& [name, end] : delivery_.Finish(deadline)) RETURN_IF_ERROR(end);
    return Ok();
  }

 private:
  Delivery delivery_;
  std::unique_ptr<Sink> encoder_;
};

}  // namespace

Result<std::unique_ptr<Sink>> MakeWholeSink(const SinkSpec& spec, const Config& config, Env& env) {
  if (!spec.network) return spec.create(config, env);
  auto sink = std::make_unique<WholeSink>(env);
  RETURN_IF_ERROR(sink->Open(spec, config, env));
  return std::unique_ptr<Sink>(std::move(sink));
}

}  // namespace gpulens
