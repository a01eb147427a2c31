// Batches as bytes, for the way from an agent to the gateway that joins them: about 15 bytes a sample and 10
// a function's progress. Version 2 has hints in addition; a batch without hints is written as version 1,
// which an older gateway takes. Bytes come from the network: every count and text has a limit, and what
// cannot be a batch is refused as a whole. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "collectives/batch.h"

namespace gpulens::collectives {

inline constexpr std::string_view kBatchContentType = "application/x-gpulens-collectives";
inline constexpr std::string_view kBatchPath = "/v1/collectives";
inline constexpr uint8_t kBatchVersion = 2;  // the highest

// Of one batch; larger ones are not read. An encoder leaves out what exceeds them.
inline constexpr size_t kBatchBytes = 4u << 20;
inline constexpr size_t kBatchProcesses = 1024, kBatchMembers = 16'384;
inline constexpr size_t kMemberSamples = 1024, kMemberLinks = 256;
inline constexpr size_t kBatchHints = 256;
inline constexpr size_t kTextBytes = 128;

// Appends to `out`. Times without progress and ages of hints are rounded down to milliseconds; texts are cut.
void EncodeBatch(const Batch& batch, std::string& out);

// kInvalidArgument: another version, or no batch. kDataLoss: it is cut or cannot be true. Replaces `out`,
// which has no meaning after an error.
Status DecodeBatch(std::string_view bytes, Batch& out);

// The answer to a batch: communicators of which steps of the network are wanted, a decimal number a line.
// More than kWantedLinks are left out, and so are lines that are none.
inline constexpr size_t kWantedLinks = 64;
std::string EncodeWantedLinks(std::span<const uint64_t> communicators);
std::vector<uint64_t> DecodeWantedLinks(std::string_view text);

// Divides a batch over several gateways: each communicator goes as a whole to the one that rendezvous hashing
// picks, so that all agents with the same list agree, and a list that changes by one moves one share. `urls`
// are hashes of their names (StableHash). A hint goes to each part with a process that it is about. Parts
// without members are left empty, and not to be sent.
std::vector<Batch> DivideBatch(const Batch& batch, std::span<const uint64_t> urls);

}  // namespace gpulens::collectives
