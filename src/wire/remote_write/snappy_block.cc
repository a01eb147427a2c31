#include "wire/remote_write/snappy_block.h"

#include <snappy-c.h>

namespace gpulens {

void SnappyPack(std::string_view bytes, std::string& out) {
  size_t size = snappy_max_compressed_length(bytes.size());
  out.resize(size);
  if (snappy_compress(bytes.data(), bytes.size(), out.data(), &size) != SNAPPY_OK) size = 0;
  out.resize(size);
}

size_t SnappyLength(std::string_view block) noexcept {
  size_t size = 0;
  return snappy_uncompressed_length(block.data(), block.size(), &size) == SNAPPY_OK ? size : 0;
}

bool SnappyUnpack(std::string_view block, size_t limit, std::string& out) {
  out.clear();
  size_t size = 0;
  // The length comes first, whatever follows: the block is validated before memory is allocated.
  if (snappy_uncompressed_length(block.data(), block.size(), &size) != SNAPPY_OK || size > limit ||
      snappy_validate_compressed_buffer(block.data(), block.size()) != SNAPPY_OK)
    return false;
  out.resize(size);
  if (snappy_uncompress(block.data(), block.size(), out.data(), &size) == SNAPPY_OK) return true;
  out.clear();
  return false;
}

}  // namespace gpulens
