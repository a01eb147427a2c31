// Whether the build has the thread sanitizer, under which a forked child of a threaded process may start no
// threads, and which has its own operator new.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define GPULENS_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GPULENS_THREAD_SANITIZER 1
#endif
#endif

namespace gpulens {

#ifdef GPULENS_THREAD_SANITIZER
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

}  // namespace gpulens
