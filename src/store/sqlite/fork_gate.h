// Forks and SQLite: a fork must not happen while a thread is inside of SQLite (its locks would stay taken in
// the child for ever), nor while a connection is open that the child may want, too (SQLite keeps what it
// holds of a file per process, so a child would believe in locks that only its parent has).
//
// So whoever may be forked under uses SQLite within a Use, and closes when it is asked to. A fork waits for
// those who are inside, ten seconds at most.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpulens::sqlite {

// While it lives the process does not fork. Not nested, and short.
class Use {
 public:
  Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use();
};

// Has connections. Registered and taken out within a Use.
class Forkable {
 public:
  // Before a fork, by the thread that forks; nobody is inside a Use then.
  virtual void CloseForFork() noexcept = 0;

 protected:
  ~Forkable() = default;
};
void AddForkable(Forkable* holder);
void RemoveForkable(Forkable* holder) noexcept;

// In a child: somebody was inside of SQLite for too long when it was forked, and nothing here may touch it.
bool UnsafeSinceFork() noexcept;

namespace internal {
extern std::atomic<uint32_t> forks;
}
// How many forks lie between the first process that used SQLite and this one. Costs a load.
inline uint32_t Forks() noexcept { return internal::forks.load(std::memory_order_relaxed); }

}  // namespace gpulens::sqlite
