#include "pipeline/plugin.h"

namespace gpulens {

void Fetcher::Fetch(Instant deadline, std::function<void(Status)> done) {
  static_cast<void>(deadline);
  done(Ok());
}

Status Sink::Write(const ReceivedOtlp& received) {
  static_cast<void>(received);
  return {Code::kUnavailable, "this sink does not take what is received"};
}

}  // namespace gpulens
