// An object of the whole process that is made when first needed and never destroyed: whatever runs in other
// objects' destructors may use it.
//
//   static Immortal<Book> book;
//   return *book;
#pragma once

#include <cstddef>
#include <new>

namespace gpulens {

template <class T>
class Immortal {
 public:
  Immortal() { ::new (static_cast<void*>(bytes_)) T; }
  Immortal(const Immortal&) = delete;
  Immortal& operator=(const Immortal&) = delete;

  T& operator*() noexcept { return *std::launder(reinterpret_cast<T*>(bytes_)); }

 private:
  alignas(T) std::byte bytes_[sizeof(T)];
};

}  // namespace gpulens
