// A shared object with exceptions of its own, for older_glibc_test.cc.
#include "base/older_glibc.cc"

#include <random>
#include <stdexcept>

namespace {

int CaughtHere() {
  try {
    throw std::runtime_error("caught by its own library");
  } catch (const std::exception&) {
    return 1;
  }
}

// In a constructor dlopen holds the loader's lock.
const int kCaughtByConstructor = CaughtHere();

struct Counter {
  explicit Counter(int* value) : value_(value) {}
  ~Counter() { ++*value_; }
  int* value_;
};

}  // namespace

extern "C" {

int ThrowsAndCatches() { return CaughtHere() + kCaughtByConstructor; }

// The exception of `call` passes the frames of the library, which has something to destroy.
void CallThrough(void (*call)(), int* destroyed) {
  Counter counter(destroyed);
  call();
}

unsigned Random() { return std::random_device{}(); }

}  // extern "C"
