// OTLP over gRPC: which calls stand for which requests, and what their replies mean.
#pragma once

#include <cstddef>
#include <string>

#include <gpulens/status.h>

#include "pipeline/delivery/send_setup.h"

namespace gpulens {

// Turns the routes of OtlpRoutes into calls. What a log still holds in another encoding is rewritten.
void MakeOtlpCalls(SendPlan& plan);

// As SendPlan::judge_call.
SendOutcome ClassifyOtlpReply(const GrpcReply& reply);
// As SendPlan::rework: requests in JSON or packed with Zstandard become plain protobuf.
Status ReworkForOtlpCall(SendPart& part);

}  // namespace gpulens
