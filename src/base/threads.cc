#include "base/threads.h"

#include <pthread.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <system_error>

#include "base/no_threads_testing.h"

namespace gpulens {
namespace {

Status NoThread(const std::string& why) { return {Code::kExhausted, "start a thread: " + why}; }

void* RunBody(void* body) {
  std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(body));
  (*owned)();
  return nullptr;
}

}  // namespace

std::atomic<int> NoThreads::living{0};

Status StartThread(std::thread& thread, std::function<void()> body) {
  if (NoThreads::living.load() > 0) return NoThread("a test allows none");
  try {
    thread = std::thread(std::move(body));
  } catch (const std::exception& error) {
    return NoThread(error.what());
  }
  return Status{};
}

Status StartDetachedThread(std::function<void()> body, size_t stack_bytes) {
  if (NoThreads::living.load() > 0) return NoThread("a test allows none");
  auto owned = std::make_unique<std::function<void()>>(std::move(body));
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  if (stack_bytes > 0) ::pthread_attr_setstacksize(&attributes, stack_bytes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t id;
  const int error = ::pthread_create(&id, &attributes, RunBody, owned.get());
  ::pthread_attr_destroy(&attributes);
  if (error != 0) return NoThread(::strerrordesc_np(error));
  static_cast<void>(owned.release());  // The thread's.
  return Status{};
}

}  // namespace gpulens
