#include "sdk/inference/record_ring.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace gpulens::inference {
namespace {

using telemetry::RecordRow, telemetry::TextColumn;

// A record whose length depends on its known numbers.
InferenceRecord Numbered(int64_t thread, int64_t number, const std::string& text) {
  InferenceRecord record{.model = text};
  record.time = std::chrono::system_clock::time_point(std::chrono::seconds(1));
  record.prompt_tokens = thread, record.completion_tokens = number;
  if (number % 2) record.itl_seconds = {.n = 3, .sum = static_cast<double>(number), .max = 0.5};
  if (number % 3) record.energy_joules = static_cast<double>(number);
  if (number % 5) record.gpu_temperature_celsius = static_cast<double>(number);
  return record;
}

RecordRow Longest() {
  RecordRow row;
  for (const telemetry::RecordColumn& column : telemetry::RecordColumns()) {
    if (const auto* real = std::get_if<double telemetry::RecordNumbers::*>(&column.at))
      row.numbers.*(*real) = 1.5;
    else if (const auto* whole = std::get_if<int64_t telemetry::RecordNumbers::*>(&column.at))
      row.numbers.*(*whole) = 7;
  }
  row.numbers.outcome = 1;
  for (std::string_view& text : row.texts) text = "10 letters";
  return row;
}

TEST(RecordRing, RecordsOfManyProducersAreComplete) {
  constexpr int64_t kThreads = 4, kEach = 5000;
  RecordRing ring(16);
  std::vector<std::thread> threads;
  for (int64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&ring, thread] {
      for (int64_t i = 0; i < kEach; ++i) {
        const std::string text(static_cast<size_t>(i % 120), static_cast<char>('a' + thread));
        while (ring.Push(Numbered(thread, i, text)) == 0) std::this_thread::yield();
      }
    });
  }
  std::vector<int64_t> next(kThreads, 0);
  int wrong = 0;
  for (int64_t left = kThreads * kEach; left > 0;) {
    const size_t count = ring.Ready(5);
    if (count == 0) std::this_thread::yield();
    for (size_t i = 0; i < count; ++i) {
      const RecordRow row = ring.At(i);
      const auto thread = static_cast<size_t>(row.numbers.prompt_tokens);
      if (thread >= kThreads) {
        ++wrong;
        continue;
      }
      const int64_t number = next[thread]++;
      const std::string text(static_cast<size_t>(number % 120), static_cast<char>('a' + thread));
      wrong += row.numbers.completion_tokens != number || row.text(TextColumn::kModel) != text;
      wrong += number % 2 ? row.numbers.itl_count != 3 : row.numbers.itl_count == 3;
      wrong += number % 3 ? row.numbers.energy_joules != static_cast<double>(number)
                          : row.numbers.energy_joules == row.numbers.energy_joules;
    }
    ring.Release(count);
    left -= static_cast<int64_t>(count);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(ring.waiting(), 0u);
}

TEST(RecordRing, HoldsItsCapacityOfTheLongestRecords) {
  RecordRing ring(8);
  const RecordRow longest = Longest();
  for (size_t round = 0; round < 20; ++round) {
    // The ring is never empty, so that it does not restart at its beginning and records extend beyond its
    // end.
    while (ring.waiting() < ring.capacity()) ASSERT_NE(ring.Push(longest), 0u);
    EXPECT_EQ(ring.Push(longest), 0u) << "it is full";
    ASSERT_EQ(ring.Ready(100), ring.capacity());
    for (size_t i = 0; i < ring.capacity(); ++i) {
      const RecordRow row = ring.At(i);
      EXPECT_EQ(row.texts, longest.texts);
      EXPECT_EQ(row.numbers.max_itl_ms, 1.5);
      EXPECT_EQ(row.numbers.outcome, 1);
    }
    ring.Release(1 + round % (ring.capacity() - 1));
  }
}

TEST(RecordRing, RestartsWhenEmpty) {
  RecordRing ring(64);
  const std::string text = "lies in the ring";
  const char* first = nullptr;
  for (int i = 0; i < 3; ++i) {
    ASSERT_NE(ring.Push(Numbered(0, 1, text)), 0u);
    ASSERT_NE(ring.Push(Numbered(0, 2, text)), 0u);
    const char* at = ring.At(0).text(TextColumn::kModel).data();
    if (first) {
      EXPECT_EQ(at, first);
    }
    first = at;
    ring.Release(1);
    ASSERT_NE(ring.Push(Numbered(0, 3, text)), 0u);
    EXPECT_EQ(ring.At(0).numbers.completion_tokens, 2) << "what waits keeps its place";
    ring.Release(2);
  }
}

}  // namespace
}  // namespace gpulens::inference
