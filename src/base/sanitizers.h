// Which sanitizer the build has. Under that of threads a forked child of a threaded process may start no
// threads, and operator new is the sanitizer's; under that of addresses random tests take several times as
// long. Both take far more memory than the program, and system calls that it does not need.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define GPULENS_THREAD_SANITIZER 1
#elif defined(__SANITIZE_ADDRESS__)
#define GPULENS_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GPULENS_THREAD_SANITIZER 1
#elif __has_feature(address_sanitizer)
#define GPULENS_ADDRESS_SANITIZER 1
#endif
#endif

namespace gpulens {

#ifdef GPULENS_THREAD_SANITIZER
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

#ifdef GPULENS_ADDRESS_SANITIZER
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

inline constexpr bool kSanitized = kThreadSanitizer || kAddressSanitizer;

}  // namespace gpulens
