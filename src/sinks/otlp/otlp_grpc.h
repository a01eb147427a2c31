// OTLP over gRPC: which calls stand for which requests, and what their replies mean.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <gpulens/status.h>

#include "delivery/parcel_sender.h"
#include "pipeline/outbox/outbox.h"

namespace gpulens {

// Turns the routes of OtlpRoutes into calls. What a queue on disk still holds in another encoding is
// rewritten.
void MakeOtlpCalls(Outbox::Setup& setup);

// As Outbox::Setup::judge_call.
SendOutcome JudgeOtlpCall(const GrpcReply& reply);
// As Outbox::Setup::rework: parcels in JSON or packed with Zstandard become plain protobuf.
Status ReworkForOtlpCall(size_t& route, std::shared_ptr<const std::string>& body);

}  // namespace gpulens
