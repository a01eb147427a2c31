// Large answers that go out again and again, as files in memory: the kernel then sends their pages
// without copying them for each client, as it does with a file server's.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "net/io_loop.h"
#include "net/message/http_message.h"

namespace gpulens {

// Remembers the last few large bodies by their owner and never keeps one alive; a file goes at most a
// second after its body. Lives on the loop's thread.
class HttpBodyFiles {
 public:
  // A smaller body is sent sooner than a file is asked for it.
  static constexpr size_t kLeastBytes = 256 << 10;
  // So often a body is sent from its own bytes before it is worth a file.
  static constexpr uint32_t kPlainSends = 2;

  explicit HttpBodyFiles(IoLoop& loop) noexcept : loop_(loop) {}
  ~HttpBodyFiles();
  HttpBodyFiles(const HttpBodyFiles&) = delete;
  HttpBodyFiles& operator=(const HttpBodyFiles&) = delete;

  // A file with the bytes of `body`, which is about to be sent once more. Null: send the bytes.
  std::shared_ptr<const UniqueFd> For(const SharedBytes& body);

 private:
  struct Known {
    std::weak_ptr<const void> owner;
    const char* data = nullptr;
    size_t size = 0;
    uint32_t sends = 0;
    std::shared_ptr<const UniqueFd> file;
  };

  void Forget();

  IoLoop& loop_;
  std::array<Known, 2> known_;
  size_t next_ = 0;  // the one to be replaced
  IoLoop::TimerId timer_ = 0;
};

}  // namespace gpulens
