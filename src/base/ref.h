// Ref: a counted pointer whose count is in the object. Unlike std::shared_ptr it has 8 bytes, and `unique()`
// is a synchronisation point: when true, all accesses of earlier holders have happened before, so pools may
// write into the object again. The count is thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpulens {

// Base of a counted class T: `class Frame : public RefCounted<Frame>`. Starts with no holder.
template <class T>
class RefCounted {
 public:
  RefCounted() noexcept = default;
  RefCounted(const RefCounted&) noexcept {}
  RefCounted& operator=(const RefCounted&) noexcept { return *this; }

  void Acquire() const noexcept { holders_.fetch_add(1, std::memory_order_relaxed); }
  // acq_rel: the last holder sees all writes of the others before it destroys the object.
  void Release() const noexcept {
    if (holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete static_cast<const T*>(this);
  }
  // acquire: pairs with the release half of Release() of the holder that left.
  bool unique() const noexcept { return holders_.load(std::memory_order_acquire) == 1; }

 protected:
  ~RefCounted() = default;

 private:
  mutable std::atomic<uint32_t> holders_{0};
};

template <class T>
class Ref {
 public:
  Ref() noexcept = default;
  Ref(std::nullptr_t) noexcept {}
  explicit Ref(T* object) noexcept : object_(object) {
    if (object_) object_->Acquire();
  }
  Ref(const Ref& other) noexcept : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
    requires std::is_convertible_v<U*, T*>
  Ref(const Ref<U>& other) noexcept : Ref(static_cast<T*>(other.get())) {}
  ~Ref() {
    if (object_) object_->Release();
  }
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }

  T* get() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  // True when this is the only holder; see RefCounted::unique.
  bool unique() const noexcept { return object_ && object_->unique(); }
  friend bool operator==(const Ref& a, const Ref& b) noexcept { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

template <class T, class... Args>
Ref<T> MakeRef(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

// A static object that is never destroyed, so that destructors of other static objects may use it:
//   static Immortal<Registry> registry;
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

// Objects that are used again once no one else holds them. Not thread-safe.
template <class T>
class RefPool {
 public:
  // Keeps at most `capacity` objects.
  explicit RefPool(size_t capacity) noexcept : capacity_(capacity) {}

  // An object with the content of its former use, or a new one.
  Ref<T> Take() {
    for (const Ref<T>& object : objects_) {
      if (object.unique()) return object;
    }
    Ref<T> made = MakeRef<T>();
    if (objects_.size() < capacity_) objects_.push_back(made);
    return made;
  }
  template <class Act>
  void ForEachFree(Act act) {
    for (const Ref<T>& object : objects_) {
      if (object.unique()) act(*object);
    }
  }

 private:
  size_t capacity_;
  std::vector<Ref<T>> objects_;
};

}  // namespace gpulens
