// Any bytes as tables of the kernel. The first one chooses which.
#include <cstddef>

#include "base/check.h"
#include "sources/listening/listening.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::listening;
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<ListeningSocket> sockets;
  AppendListening(text, (data[0] & 1) != 0, 64, sockets);
  CHECK(sockets.size() <= 64);
  for (const ListeningSocket& socket : sockets) CHECK(socket.at.port != 0 && socket.inode != 0);
  for (const gpulens::Endpoint& at : LocalAddresses(text)) CHECK(!at.IsLoopback());
  return 0;
}
