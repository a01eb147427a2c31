#include "plugins/sinks/remote_write/remote_write_answer.h"

#include <optional>

#include "base/parse.h"
#include "base/text.h"

namespace gpulens {
namespace {

// Samples and histograms that were written, as the answer has it; nothing when it does not say.
std::optional<uint64_t> WrittenOf(std::string_view fields) {
  std::optional<uint64_t> written;
  while (!fields.empty()) {
    std::string_view line = TakeUntil(fields, '\n');
    std::string_view name = TakeUntil(line, ':');
    name.remove_prefix(std::min(name.size(), kRemoteWriteFields.size()));
    if (name != "samples-written" && name != "histograms-written") continue;
    auto count = ParseInt<uint64_t>(Trim(line));
    if (count && *count < UINT32_MAX) written = written.value_or(0) + *count;
  }
  return written;
}

std::string Refusal(const HttpReply& reply) {
  std::string said;
  AppendPrintable(said, Trim(std::string_view(reply.body).substr(0, 200)));
  return said.empty() ? reply.detail : reply.detail + ": " + said;
}

SendOutcome FallBack(RemoteWritePeer& peer) {
  peer.only_1 = true;
  return {SendOutcome::kAnew, 0, "it supports remote write 1.0 only"};
}

}  // namespace

SendOutcome ClassifyRemoteWriteReply(const HttpReply& reply, bool second, RemoteWritePeer& peer) {
  const bool taken = reply.failure == HttpFailure::kNone;
  const int status = reply.status;
  if (!taken && (status == 429 || status >= 500)) return {SendOutcome::kAgain, 0, Refusal(reply)};
  if (!second) return {taken ? SendOutcome::kTaken : SendOutcome::kRefused, 0, taken ? "" : Refusal(reply)};
  if (auto written = WrittenOf(reply.kept)) {
    peer.knows_2 = true;
    // With 400 it says what is wrong with those that it did not write.
    if (taken || status == 400)
      return {SendOutcome::kTaken, 0, taken ? "it gives no reason" : Refusal(reply), written};
  }
  if (taken) {
    if (peer.may_fall_back) return FallBack(peer);
    return {SendOutcome::kRefused, 0, "its response does not confirm that anything was written"};
  }
  const bool unread = status == 415 || (!peer.knows_2 && (status == 400 || status == 406));
  if (unread && peer.may_fall_back) return FallBack(peer);
  return {SendOutcome::kRefused, 0, Refusal(reply)};
}

}  // namespace gpulens
