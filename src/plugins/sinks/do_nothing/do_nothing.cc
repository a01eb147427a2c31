// The do_nothing sink: takes everything and does nothing with it, for trying out collectors and for measuring
// what they cost without a sink. What it was given is counted as for every sink. What receivers took in is
// dropped, too, as by a Collector's exporter `nop`.

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
