// Sink that discards everything, to try out collectors and to measure their cost without a sink. It has the
// counters of every sink. Received data is discarded, too, as by the Collector's exporter `nop`.

#include "plugins/plugin.h"

namespace gpulens {
namespace {

class DoNothingSink final : public Sink {
 public:
  Status Write(const Snapshot&) override { return Ok(); }
};

Result<std::unique_ptr<Sink>> Create(const Config&, Env&) {
  return std::unique_ptr<Sink>(std::make_unique<DoNothingSink>());
}

}  // namespace

extern const SinkSpec do_nothing_sink;
const SinkSpec do_nothing_sink{.name = "do_nothing",
                               .help = "Takes everything and does nothing with it.",
                               .threaded = true,
                               .create = &Create,
                               .takes_received = true};

}  // namespace gpulens
