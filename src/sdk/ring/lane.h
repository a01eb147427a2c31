// A bounded queue of messages whose type only their form knows. Not thread-safe: an actor has a lock.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include <gpulens/ring_message.h>
#include <gpulens/stats.h>

namespace gpulens::ring {

class Queue {
 public:
  Queue() = default;
  // `form` outlives the lane; null: it takes nothing. `stamped`: remembers when messages came.
  Queue(const internal::MessageForm* form, size_t limit, bool stamped)
      : form_(form), limit_(form ? limit : 0) {
    if (!form) return;
    slots_ = ::operator new(limit * form->size, std::align_val_t(form->align), std::nothrow);
    if (stamped) stamps_.reset(new (std::nothrow) TimePoint[limit]);
    if (!slots_ || (stamped && !stamps_)) limit_ = 0;
  }
  Queue(Queue&& other) noexcept { Swap(other); }
  Queue& operator=(Queue&& other) noexcept {
    Queue gone(std::move(*this));
    Swap(other);
    return *this;
  }
  ~Queue() {
    for (; size_ > 0; Advance()) form_->destroy(At(head_));
    if (slots_) ::operator delete(slots_, std::align_val_t(form_->align));
  }

  size_t size() const noexcept { return size_; }
  size_t limit() const noexcept { return limit_; }  // 0: there was no memory for it
  bool used() const noexcept { return form_ != nullptr; }
  bool empty() const noexcept { return size_ == 0; }
  bool full() const noexcept { return size_ >= limit_; }

  // Takes what is at `message`. There is room.
  void Push(void* message, TimePoint at) noexcept {
    size_t tail = head_ + size_;
    if (tail >= limit_) tail -= limit_;
    form_->move(At(tail), message);
    if (stamps_) stamps_[tail] = at;
    ++size_;
  }
  // The oldest, which is there; when it came.
  TimePoint Pop(void* to) noexcept {
    const TimePoint at = stamps_ ? stamps_[head_] : TimePoint();
    form_->move(to, At(head_));
    Advance();
    return at;
  }
  // Of a full one: `message` becomes the newest, and the oldest is put in its place.
  void ReplaceOldest(void* message, TimePoint at) noexcept {
    form_->exchange(At(head_), message);
    if (stamps_) stamps_[head_] = at;
    if (++head_ == limit_) head_ = 0;
  }

 private:
  void* At(size_t slot) const noexcept { return static_cast<std::byte*>(slots_) + slot * form_->size; }
  void Advance() noexcept {
    if (++head_ == limit_) head_ = 0;
    --size_;
  }
  void Swap(Queue& other) noexcept {
    std::swap(form_, other.form_);
    std::swap(limit_, other.limit_);
    std::swap(head_, other.head_);
    std::swap(size_, other.size_);
    std::swap(slots_, other.slots_);
    std::swap(stamps_, other.stamps_);
  }

  const internal::MessageForm* form_ = nullptr;
  size_t limit_ = 0, head_ = 0, size_ = 0;
  void* slots_ = nullptr;
  std::unique_ptr<TimePoint[]> stamps_;
};

}  // namespace gpulens::ring
