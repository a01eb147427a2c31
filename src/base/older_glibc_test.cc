// The replacements are linked into this program, so every exception of every test here uses them.
#include "base/older_glibc.cc"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <climits>
#include <new>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace gpulens {
namespace {

[[gnu::noinline]] int ThrowBelow(int frames) {
  if (frames == 0) throw std::runtime_error("from below");
  std::string held(100, 'x');  // destroyed by the unwinder
  const int above = ThrowBelow(frames - 1);
  return above + static_cast<int>(held.size());
}

bool Catches(int frames) {
  try {
    ThrowBelow(frames);
  } catch (const std::runtime_error& error) {
    return std::string(error.what()) == "from below";
  }
  return false;
}

// Before main, and before the first exception of the program.
const bool caught_before_main = Catches(3);

// The library of testdata/older_glibc_library.cc, next to this program.
class Library {
 public:
  Library() {
    char path[PATH_MAX] = {};
    if (::readlink("/proc/self/exe", path, sizeof path - 1) < 0) return;
    std::string file(path);
    file.replace(file.rfind('/') + 1, std::string::npos, "libolder_glibc_library.so");
    handle_ = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  ~Library() {
    if (handle_) ::dlclose(handle_);
  }
  explicit operator bool() const { return handle_ != nullptr; }
  template <class Function>
  Function* Find(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(handle_, name));
  }

 private:
  void* handle_ = nullptr;
};

TEST(OlderGlibc, ExceptionsPassManyFrames) {
  EXPECT_TRUE(caught_before_main);
  for (int frames : {0, 1, 10, 1000}) EXPECT_TRUE(Catches(frames)) << frames;
}

TEST(OlderGlibc, ExceptionsPassTheFramesOfALibrary) {
  for (int round = 0; round < 20; ++round) {
    {
      const Library library;
      ASSERT_TRUE(library) << ::dlerror();
      EXPECT_EQ(library.Find<int()>("ThrowsAndCatches")(), 2);
      int destroyed = 0;
      EXPECT_THROW(library.Find<void(void (*)(), int*)>("CallThrough")([] { ThrowBelow(2); }, &destroyed),
                   std::runtime_error);
      EXPECT_EQ(destroyed, 1);
    }
    EXPECT_TRUE(Catches(2)) << "after dlclose";
  }
}

TEST(OlderGlibc, ThreadsThrowWhileLibrariesComeAndGo) {
  std::atomic<int> missed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&missed] {
      for (int round = 0; round < 500; ++round) {
        if (!Catches(round % 20)) ++missed;
      }
    });
  }
  for (int round = 0; round < 50; ++round) {
    const Library library;
    if (!library || library.Find<int()>("ThrowsAndCatches")() != 2) ++missed;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(missed, 0);
}

// An exception that nothing catches ends the program with its text, and does not search on.
TEST(OlderGlibcDeathTest, UncaughtExceptionsEndTheProgram) {
  EXPECT_DEATH([]() noexcept { ThrowBelow(2); }(), "from below");
}

TEST(OlderGlibc, FindsTheObjectOfAnAddress) {
  dl_find_object found{};
  ASSERT_EQ(_dl_find_object(reinterpret_cast<void*>(&ThrowBelow), &found), 0);
  const auto code = reinterpret_cast<uintptr_t>(&ThrowBelow);
  EXPECT_LE(reinterpret_cast<uintptr_t>(found.dlfo_map_start), code);
  EXPECT_GT(reinterpret_cast<uintptr_t>(found.dlfo_map_end), code);
  // The C library's own agrees about code here and in libc, and of what no object contains.
  auto real = reinterpret_cast<int (*)(void*, dl_find_object*)>(::dlsym(RTLD_DEFAULT, "_dl_find_object"));
  ASSERT_NE(real, nullptr);
  ASSERT_NE(real, &_dl_find_object) << "the replacement is visible to others";
  int on_stack = 0;
  void* const addresses[] = {reinterpret_cast<void*>(&ThrowBelow), ::dlsym(RTLD_DEFAULT, "qsort"), &on_stack,
                             nullptr, reinterpret_cast<void*>(UINTPTR_MAX)};
  for (void* address : addresses) {
    dl_find_object own{}, libc{};
    const int result = _dl_find_object(address, &own);
    ASSERT_EQ(result, real(address, &libc)) << address;
    if (result == 0) {
      EXPECT_EQ(own.dlfo_eh_frame, libc.dlfo_eh_frame);
    }
  }
}

TEST(OlderGlibc, RandomNumbersDiffer) {
  std::random_device device;
  std::set<unsigned> numbers;
  for (int i = 0; i < 1000; ++i) numbers.insert(device());
  EXPECT_GT(numbers.size(), 990u);
  const Library library;
  ASSERT_TRUE(library) << ::dlerror();
  EXPECT_NE(library.Find<unsigned()>("Random")(), library.Find<unsigned()>("Random")());
  EXPECT_EQ(::dlsym(RTLD_DEFAULT, "arc4random") == reinterpret_cast<void*>(&arc4random), false);
}

// A child of a fork that happens while other threads throw can throw, too.
TEST(OlderGlibc, ChildrenOfAForkThrow) {
  std::atomic<bool> stop = false;
  std::thread thrower([&stop] {
    while (!stop) Catches(5);
  });
  int good = 0;
  for (int i = 0; i < 50; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);  // the child ends where it would wait forever
      ::_exit(Catches(5) ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  stop = true;
  thrower.join();
  EXPECT_EQ(good, 50);
}

}  // namespace
}  // namespace gpulens
