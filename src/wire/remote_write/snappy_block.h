// Snappy's block format, which remote write packs its requests in: one block, no framing. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpulens {

// Replaces `out`. The library takes its table from the heap each time.
void SnappyPack(std::string_view bytes, std::string& out);
// Replaces `out`. False, and nothing in `out`, for what is no block or would be larger than `limit`.
bool SnappyUnpack(std::string_view block, size_t limit, std::string& out);

// The unpacked size that the block declares; 0 for other bytes.
size_t SnappyLength(std::string_view block) noexcept;

}  // namespace gpulens
