// What the handles of kernels call, which know of an actor no more than its name; and what they are told.
#include <gpulens/ring_message.h>

#include <string>

#include "sdk/ring/actor.h"
#include "sdk/ring/actor_parts.h"

namespace gpulens::internal {
namespace {

std::string Named(const std::string& id) { return "kernel \"" + id + "\""; }

}  // namespace

Status LateBy(const std::string& id, std::string_view what) {
  return {Code::kTimeout, Named(id) + ": " + std::string(what)};
}

Status Refusal(const std::string& id, KernelState state, const std::string& failure, std::string_view what) {
  if (state == KernelState::kLaunched)
    return {Code::kInvalidArgument, Named(id) + " is launched: activate it before you " + std::string(what)};
  if (state == KernelState::kFailed) return {Code::kUnavailable, Named(id) + " has failed: " + failure};
  return {Code::kUnavailable, Named(id) + " is " + std::string(KernelStateName(state))};
}

Status WrongState(const std::string& id, KernelState state, KernelState wanted, std::string_view what) {
  return {Code::kInvalidArgument, Named(id) + " is " + std::string(KernelStateName(state)) +
                                      "; only one that is " + std::string(KernelStateName(wanted)) +
                                      " can be " + std::string(what)};
}

Status SendTo(RingActor& actor, void* message, bool& full, Duration timeout) {
  return actor.Send(message, full, timeout);
}
bool TrySendTo(RingActor& actor, void* message, bool& full) noexcept {
  return actor.Send(message, full, std::nullopt).ok();
}
Status ReceiveFrom(RingActor& actor, void* to, bool& full, Duration timeout) {
  return actor.Receive(to, full, timeout);
}
Status Take(RingActor& actor, void* to, bool& full, Duration timeout) {
  return actor.Take(to, full, timeout);
}
Status Put(RingActor& actor, void* reply, bool& full) { return actor.Put(reply, full); }
void Done(RingActor& actor) noexcept { actor.Done(); }
void Failed(RingActor& actor, const char* what) noexcept { actor.Failed(what); }
bool ShouldTerminate(const RingActor& actor) noexcept { return actor.ShouldTerminate(); }

}  // namespace gpulens::internal
