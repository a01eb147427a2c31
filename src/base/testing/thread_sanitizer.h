// Whether a test is built with the thread sanitizer, whose child of a process with threads may start none,
// and which has an operator new of its own.
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
