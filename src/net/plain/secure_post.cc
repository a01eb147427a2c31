#include "net/plain/secure_post.h"

#include <atomic>

namespace gpulens {
namespace {
std::atomic<SecurePost> linked = nullptr;
}

SecurePost LinkedSecurePost() noexcept { return linked.load(std::memory_order_acquire); }
void SetSecurePost(SecurePost post) noexcept { linked.store(post, std::memory_order_release); }

}  // namespace gpulens
